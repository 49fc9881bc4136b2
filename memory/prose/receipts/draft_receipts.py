"""Reads the receipts of a draft: the prompts that each of its paragraphs tells, and the parts of
the story that no paragraph tells."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from memory.blocks.blocks import counting_deltas
from memory.fold.block_reading import read_block
from memory.fold.folding import block_of
from memory.fold.prompt_numbers import sources_of
from memory.fold.records import Prompts
from memory.keeping import KeptRecent
from memory.models import NarrativeDraft
from memory.prose.drafts import ToldScene, last_prompt_of, telling_of
from memory.prose.receipts.kept import kept_matches
from memory.prose.receipts.matching import Confidence, Match, Matcher, PlayedTurn, SceneProse
from memory.prose.receipts.paragraphs import Kind, Paragraph, split_paragraphs
from memory.prose.receipts.untold import says_nothing, untold_events, untold_sentences
from sessions.models import Event, Session
from sessions.record.transcript import Entry, chosen_entries

_MatchKey = tuple[uuid.UUID, uuid.UUID | None, frozenset[str]]
# The matches of the drafts that were asked for last, by the draft, the attempt at its last turn,
# and the speakers' names.
_kept: KeptRecent[_MatchKey, list[list[Match]]] = KeptRecent(20)


@dataclass(frozen=True)
class Receipt:
    """A paragraph with the prompts that it tells. `match` is None for a heading and for a break,
    which tell nothing."""

    paragraph: Paragraph
    match: Match | None

    @property
    def prompts(self) -> tuple[int, ...]:
        return self.match.prompts if self.match else ()

    @property
    def is_invented(self) -> bool:
        return self.match is not None and self.match.confidence == Confidence.INVENTED


@dataclass(frozen=True)
class RememberedEvent:
    """An event of memory with the prompts that it comes from."""

    text: str
    prompts: tuple[Prompts, ...]

    def is_within(self, first: int, last: int) -> bool:
        return all(first <= one.first and one.last <= last for one in self.prompts)


@dataclass(frozen=True)
class SceneReceipts:
    """The receipts of a scene, and the prompts and events of memory in its stretch that no
    paragraph of the draft tells."""

    number: int
    first: int
    last: int
    target_words: int
    receipts: tuple[Receipt, ...]
    untold_prompts: tuple[int, ...]
    # The events that memory has of the scene's prompts.
    events: tuple[RememberedEvent, ...]

    @cached_property
    def untold_events(self) -> list[RememberedEvent]:
        told = [one.paragraph.text for one in self.receipts if one.match is not None]
        untold = set(untold_events([one.text for one in self.events], told))
        return [one for one in self.events if one.text in untold]


@dataclass(frozen=True)
class DraftReceipts:
    """The receipts of a draft. If `has_scenes` is False, the draft's scenes are not recorded, and
    the whole draft counts as one."""

    scenes: tuple[SceneReceipts, ...]
    has_scenes: bool
    turns: dict[int, tuple[Entry, ...]]

    @cached_property
    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(receipt for scene in self.scenes for receipt in scene.receipts)

    @cached_property
    def paragraphs_of(self) -> dict[int, list[int]]:
        """The numbers of the paragraphs that tell each prompt, by the prompt's number."""
        found = defaultdict(list)
        for receipt in self.receipts:
            for prompt in receipt.prompts:
                found[prompt].append(receipt.paragraph.number)
        return dict(found)

    @property
    def told_count(self) -> int:
        return sum(bool(one.prompts) for one in self.receipts)

    @property
    def invented_count(self) -> int:
        return sum(one.is_invented for one in self.receipts)

    @property
    def untold_prompts(self) -> list[int]:
        return [prompt for scene in self.scenes for prompt in scene.untold_prompts]

    def left_out_of(self, prompt: int) -> list[str]:
        """Return the sentences of a prompt and its replies that no paragraph tells, if any
        paragraph tells the prompt."""
        numbers = set(self.paragraphs_of.get(prompt, ()))
        told = [one.paragraph.text for one in self.receipts if one.paragraph.number in numbers]
        return untold_sentences([entry.text for entry in self.turns.get(prompt, ())], told)


def read_receipts(chapter: Session, draft: NarrativeDraft) -> DraftReceipts:
    """Match the paragraphs of the draft with the turns that it was written from. The paragraphs
    that the user did not change keep the receipts of the earlier draft."""
    last = last_prompt_of(draft) or chapter.prompt_index
    turns = _read_turns(chapter, draft, last)
    telling = telling_of(draft)
    scenes = telling.scenes or (ToldScene(1, last, draft.target_words, 0),)
    paragraphs = split_paragraphs(draft.chapter_text)
    by_scene = _divide(paragraphs, scenes)
    matches = _match(draft, turns, scenes, by_scene)
    kept = kept_matches(draft)
    receipts = [_join(*pair, kept) for pair in zip(by_scene, matches, strict=True)]
    told = {prompt for scene in receipts for one in scene for prompt in one.prompts}
    events = _read_events(chapter, last)
    return DraftReceipts(
        scenes=tuple(
            SceneReceipts(
                number,
                scene.first,
                scene.last,
                scene.target_words,
                tuple(of_scene),
                _untold_prompts(turns, scene, told),
                tuple(one for one in events if one.is_within(scene.first, scene.last)),
            )
            for number, (scene, of_scene) in enumerate(zip(scenes, receipts, strict=True), 1)
        ),
        has_scenes=bool(telling.scenes),
        turns=turns,
    )


def _read_turns(chapter: Session, draft: NarrativeDraft, last: int) -> dict[int, tuple[Entry, ...]]:
    found = defaultdict(list)
    for entry in chosen_entries(chapter, to_prompt=last, last_attempt=draft.attempt_id):
        found[entry.prompt_index].append(entry)
    return {number: tuple(entries) for number, entries in found.items()}


def _as_text(entries: Iterable[Entry]) -> str:
    """Return the words of a turn. The words include the names of speakers, but not the number of
    the prompt."""
    return "\n\n".join(
        entry.text if entry.role == Event.Role.USER else entry.rendered for entry in entries
    )


def _divide(paragraphs: Sequence[Paragraph], scenes: Sequence[ToldScene]) -> list[list[Paragraph]]:
    """Return the paragraphs of each scene. Paragraphs before the first scene belong to it."""
    divided: list[list[Paragraph]] = [[] for _ in scenes]
    at = 0
    for paragraph in paragraphs:
        while at + 1 < len(scenes) and scenes[at + 1].start <= paragraph.start:
            at += 1
        divided[at].append(paragraph)
    return divided


def _match(
    draft: NarrativeDraft,
    turns: dict[int, tuple[Entry, ...]],
    scenes: Sequence[ToldScene],
    by_scene: Sequence[Sequence[Paragraph]],
) -> list[list[Match]]:
    """Return the matches of the prose of each scene.

    The matches are cached for the next click. A draft never changes, and the turns that it tells
    change only if their speakers get other names.
    """
    prefixes = {entry.prefix for of_turn in turns.values() for entry in of_turn if entry.character}
    key = (draft.pk, draft.attempt_id, frozenset(prefixes))
    kept = _kept.get(key) if draft.attempt_id else None
    if kept is None:
        prose = [[one.text for one in of_scene if _is_prose(one)] for of_scene in by_scene]
        matcher = Matcher(
            [PlayedTurn(number, _as_text(entries)) for number, entries in turns.items()],
            [text for of_scene in prose for text in of_scene],
        )
        kept = [
            matcher.match(SceneProse(scene.first, scene.last, texts))
            for scene, texts in zip(scenes, prose, strict=True)
        ]
        _kept.set(key, kept)
    return kept


def _is_prose(paragraph: Paragraph) -> bool:
    return paragraph.kind == Kind.PROSE


def _join(
    paragraphs: Sequence[Paragraph], matches: Sequence[Match], kept: dict[int, Match]
) -> list[Receipt]:
    following = iter(matches)
    found = [(one, next(following) if _is_prose(one) else None) for one in paragraphs]
    return [Receipt(one, match and kept.get(one.number, match)) for one, match in found]


def _untold_prompts(
    turns: dict[int, tuple[Entry, ...]], scene: ToldScene, told: set[int]
) -> tuple[int, ...]:
    """Return the numbers of the scene's prompts that no paragraph tells. A prompt whose words say
    nothing, such as "Go on", is left out."""
    return tuple(
        number
        for number in range(scene.first, scene.last + 1)
        if number not in told
        and not all(says_nothing(entry.text) for entry in turns.get(number, ()))
    )


def _read_events(chapter: Session, last: int) -> list[RememberedEvent]:
    """Return the events that memory has of the prompts up to `last`."""
    events: dict[RememberedEvent, None] = {}
    for delta in counting_deltas(chapter).filter(to_prompt_index__lte=last):
        for moment in read_block(block_of(delta)).moments:
            events[RememberedEvent(moment.text, tuple(sources_of(moment.prompts)))] = None
    return list(events)
