"""Reads the receipts of a draft: the prompts that each of its paragraphs tells, and what of the
story was not told."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from memory.blocks import counting_deltas
from memory.drafts import ToldScene, last_prompt_of, telling_of
from memory.fold.reading import read_block
from memory.fold.records import Block
from memory.models import NarrativeDraft
from memory.receipts.matching import Confidence, Match, Matcher, Passage, PlayedTurn
from memory.receipts.paragraphs import Kind, Paragraph, split_paragraphs
from memory.receipts.untold import says_nothing, untold_events, untold_sentences
from sessions.models import Event, Session
from sessions.transcript import Entry, chosen_entries


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
class SceneReceipts:
    """The receipts of a scene, and what of its stretch no paragraph of the draft tells: the numbers
    of prompts, and events of memory."""

    number: int
    first: int
    last: int
    target_words: int
    receipts: tuple[Receipt, ...]
    untold_prompts: tuple[int, ...]
    untold_events: tuple[str, ...]


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
    """Match the paragraphs of the draft with the turns that it was written from."""
    last = last_prompt_of(draft) or chapter.prompt_index
    turns = _read_turns(chapter, draft, last)
    telling = telling_of(draft)
    scenes = telling.scenes or (ToldScene(1, last, draft.target_words, 0),)
    paragraphs = split_paragraphs(draft.chapter_text)
    matcher = Matcher(
        [PlayedTurn(number, _as_text(entries)) for number, entries in turns.items()],
        [one.text for one in paragraphs if one.kind == Kind.PROSE],
    )
    by_scene = _divide(paragraphs, scenes)
    receipts = [_match(matcher, *pair) for pair in zip(scenes, by_scene, strict=True)]
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
                _untold_events(events, scene, of_scene),
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
    """Return the words of a turn. The name of a speaker belongs to them, but the number of a prompt
    does not."""
    return "\n\n".join(
        entry.text if entry.role == Event.Role.USER else entry.rendered for entry in entries
    )


def _divide(paragraphs: Sequence[Paragraph], scenes: Sequence[ToldScene]) -> list[list[Paragraph]]:
    """Return the paragraphs of each scene. Those before the first scene belong to it."""
    divided: list[list[Paragraph]] = [[] for _ in scenes]
    at = 0
    for paragraph in paragraphs:
        while at + 1 < len(scenes) and scenes[at + 1].start <= paragraph.start:
            at += 1
        divided[at].append(paragraph)
    return divided


def _match(matcher: Matcher, scene: ToldScene, paragraphs: Sequence[Paragraph]) -> list[Receipt]:
    prose = [one.text for one in paragraphs if one.kind == Kind.PROSE]
    matches = iter(matcher.match(Passage(scene.first, scene.last, prose)))
    return [Receipt(one, next(matches) if one.kind == Kind.PROSE else None) for one in paragraphs]


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


def _read_events(chapter: Session, last: int) -> list[tuple[int, int, str]]:
    """Return the events that memory has of the prompts up to `last`, each with the first and the
    last prompt of its stretch."""
    events: dict[tuple[int, int, str], None] = {}
    for delta in counting_deltas(chapter).filter(to_prompt_index__lte=last):
        block = Block(
            delta.type, delta.from_prompt_index, delta.to_prompt_index, delta.json_payload
        )
        for moment in read_block(block).moments:
            events[(delta.from_prompt_index, delta.to_prompt_index, moment.text)] = None
    return list(events)


def _untold_events(
    events: Sequence[tuple[int, int, str]], scene: ToldScene, receipts: Sequence[Receipt]
) -> tuple[str, ...]:
    paragraphs = [one.paragraph.text for one in receipts if one.match is not None]
    inside = [text for first, last, text in events if scene.first <= first and last <= scene.last]
    return tuple(untold_events(inside, paragraphs))
