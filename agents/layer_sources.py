"""Where the layers of prompts get their text."""

import uuid
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby

from agents.budget import DEFAULT_WEIGHT_PER_TOKEN
from agents.layers import Piece, Tier, keep_last
from agents.prompt_files import render_prompt
from agents.prose import without_middle
from agents.sandwich import Source, Subject
from memory.chunks import recent_context_start
from memory.fold_records import Fold
from memory.folding import fold_chapter
from memory.keeping import KeptRecent
from memory.recall import recall, recall_lock
from memory.session_state import CLOSING, OPENING, Detail, cast_lines, memory_lines, play_lines
from sessions.access import get_chapter
from sessions.models import Session
from sessions.roster import Character, character
from sessions.transcript import chosen_events, render_event

# Of the budget, weighed as for a model that has not reported any usage, which is a third too much:
# beside it memory may have 0.4, and instructions, identity and the GM's words the rest.
_CONTEXT_SHARE = 0.5


def prompt_file(full: str, *, medium: str | None = None, minimal: str | None = None) -> Source:
    """A Markdown file without variables for each tier; "" is none, None the next larger tier's."""
    by_tier = {"full": full, "medium": full if medium is None else medium}
    by_tier["minimal"] = by_tier["medium"] if minimal is None else minimal

    def read(subject: Subject, tier: Tier) -> list[Piece]:
        name = by_tier[tier]
        return [Piece(render_prompt(name))] if name else []

    return read


def process_map(here: str) -> Source:
    """The chapter's life, and where in it this agent stands; small windows go without."""

    def read(subject: Subject, tier: Tier) -> list[Piece]:
        if tier == "minimal":
            return []
        name = "process_map" if tier == "full" else "process_map_medium"
        return [Piece(render_prompt(name, here=here))]

    return read


def given(name: str) -> Source:
    """What only the call itself knows."""
    return lambda subject, tier: subject.given.get(name, ())


def character_rules(subject: Subject, tier: Tier) -> list[Piece]:
    """The same for all characters, so that they share a prefix cache; the small local model keeps
    one cache a character, which a shared start would mix up."""
    if tier != "minimal":
        return [Piece(render_prompt("character"))]
    return [Piece(render_prompt("character_minimal", character_name=_speaker(subject)))]


def identity(subject: Subject, tier: Tier) -> list[Piece]:
    text = _identities(subject.chapter.pk).get(str(subject.slot), "")
    return [Piece(f"{_speaker(subject)}\n{text}".strip())]


def world_text(subject: Subject, tier: Tier) -> list[Piece]:
    return [Piece(subject.chapter.tab1.world_text)]


def chapter_text(subject: Subject, tier: Tier) -> list[Piece]:
    return [Piece(subject.chapter.tab1.chapter_text)]


def roster(subject: Subject, tier: Tier) -> list[Piece]:
    agents = [f"{one.slot}: {one.color}: {one.name}" for one in subject.chapter.characters]
    return [Piece("\n".join([f"{len(agents)} agents", *agents]))]


def title(subject: Subject, tier: Tier) -> list[Piece]:
    chapter = subject.chapter
    return [] if chapter.is_untitled else [Piece(f"Title of the chapter: {chapter.title}")]


def session_state(subject: Subject, tier: Tier) -> list[Piece]:
    """Where play stands; what memory holds stands in the layer of memory."""
    return [Piece("\n".join([OPENING, *play_lines(subject.chapter), CLOSING]))]


def present_memory(subject: Subject, tier: Tier) -> list[Piece]:
    """What memory holds now: the lock in its own words, where the window is large, and the fold."""
    return _memory(subject.chapter, Detail(tier), fold_chapter(subject.chapter))


def character_memory(subject: Subject, tier: Tier) -> list[Piece]:
    """The same, without telling what the recent context shows word for word.

    In a small window the fold ends where that context begins: the prompt's start then changes when
    the context moves on, and not when a summary arrives. A local model has to read again whatever
    stands behind a change. Where the context may have to give way, memory has all of it.
    """
    chapter, detail = subject.chapter, Detail(tier)
    if not _context_fits(subject, tier):
        return _memory(chapter, detail, fold_chapter(chapter))
    start = recent_context_start(chapter)
    folded = fold_chapter(chapter, before=start if detail is Detail.MINIMAL else None)
    return _memory(chapter, detail, folded, told_before=start)


def whole_memory(subject: Subject, tier: Tier) -> list[Piece]:
    """Every block in its own words; the lock, the GM's corrections and the newest delta stay."""
    blocks = recall(subject.chapter)
    newest = max((at for at, block in enumerate(blocks) if block.is_delta), default=None)
    return [
        Piece(block.full, block.brief, must_stay=not block.is_delta or at == newest)
        for at, block in enumerate(blocks)
    ]


def recent_context(subject: Subject, tier: Tier) -> tuple[Piece, ...]:
    first = recent_context_start(subject.chapter)
    return keep_last(transcript_pieces(subject.chapter, first, subject.last_prompt), 1)


def transcript_pieces(chapter: Session, first: int, last: int) -> tuple[Piece, ...]:
    """One piece a prompt: the GM's words with the chosen reply; in brief, without long middles."""
    events = chosen_events(chapter, from_prompt=first, to_prompt=last)
    pieces = []
    for _, turn in groupby(events, key=lambda event: event.prompt_index):
        texts = [render_event(event, chapter).rendered for event in turn]
        brief = "\n\n".join(without_middle(text) for text in texts)
        pieces.append(Piece("\n\n".join(texts), brief))
    return tuple(pieces)


def _context_fits(subject: Subject, tier: Tier) -> bool:
    """Whether all of it will surely stand in the prompt, whatever else does."""
    if subject.budget_tokens is None:
        return False
    weight = sum(piece.weight for piece in recent_context(subject, tier))
    return weight / DEFAULT_WEIGHT_PER_TOKEN <= _CONTEXT_SHARE * subject.budget_tokens


def _memory(
    chapter: Session, detail: Detail, folded: Fold, *, told_before: int | None = None
) -> list[Piece]:
    lock = recall_lock(chapter) if detail is Detail.FULL else ""
    known = _Memory(folded, tuple(chapter.characters), detail, lock, told_before)
    kept = _kept_memory.get(chapter.pk)
    if kept is None or not kept.is_like(known):
        kept = known
        _kept_memory.set(chapter.pk, kept)
    return kept.pieces


@dataclass(frozen=True)
class _Memory:
    """A chapter's memory in pieces, which are the same until the next summary or correction."""

    folded: Fold
    cast: tuple[Character, ...]
    detail: Detail
    lock: str
    told_before: int | None

    def is_like(self, other: "_Memory") -> bool:
        """A fold that has not changed is the same object: comparing all of it would take longer."""
        return self.folded is other.folded and (
            self.cast,
            self.detail,
            self.lock,
            self.told_before,
        ) == (other.cast, other.detail, other.lock, other.told_before)

    @cached_property
    def pieces(self) -> list[Piece]:
        lines = memory_lines(
            self.folded,
            self.cast,
            detail=self.detail,
            beside_lock=bool(self.lock),
            told_before=self.told_before,
        )
        pieces = [Piece(self.lock, must_stay=True)] if self.lock else []
        if lines:
            # The lock names them too.
            cast = [] if self.lock else cast_lines(self.cast)
            pieces += [
                Piece("\n".join([OPENING, *cast]), must_stay=True),
                *(Piece(line.text, rank=line.rank) for line in lines),
                Piece(CLOSING, must_stay=True),
            ]
        return pieces


_kept_memory: KeptRecent[uuid.UUID, _Memory] = KeptRecent(32)


def _speaker(subject: Subject) -> str:
    assert subject.slot is not None, "A character's layer needs a subject with a slot."
    return character(subject.slot, subject.chapter.agent_names).name


@lru_cache(maxsize=32)
def _identities(session_id: uuid.UUID) -> dict[str, str]:
    """Once a process: Tab 1 is frozen before the first prompt."""
    identities: dict[str, str] = get_chapter(session_id).tab1.agent_identity_text_by_slot
    return identities
