"""The sources of the texts in the layers of requests."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import groupby

from agents.prompting.budget import DEFAULT_WEIGHT_PER_TOKEN
from agents.prompting.cleaning.plain_prose import without_middle
from agents.prompting.layers import Piece, Pieces, Tier
from agents.prompting.prompt_files import render_prompt, version_of
from agents.prompting.sandwich import Source, Subject
from memory.blocks.blocks import knows
from memory.blocks.stretches import Audience, recent_context_start
from memory.fold.folding import fold_chapter, fold_with
from memory.fold.records import Fold
from memory.keeping import KeptRecent
from memory.telling.rendering import told_lock
from memory.telling.session_state import Detail, StateLine, memory_lines, play_lines
from sessions.language.speaker_marks import without_cues
from sessions.models import Event, Session
from sessions.play.played_world import everybody_at
from sessions.record.transcript import Entry, Perceived, chosen_entries
from sessions.roster import Character

# The names of the XML element around memory. The first name is used if the request also has a layer
# of session state, and otherwise the second name.
_MEMORY, _SESSION_STATE = "memory", "session_state"
# The fraction of the budget within which the recent context surely fits. Memory holds 0.4 of the
# budget, and instructions, identity and the GM's words take the rest. The tokens of the context are
# estimated as for a model without reports, which gives about a third too many.
_CONTEXT_SHARE = 0.5


def prompt_file(full: str, *, medium: str | None = None, minimal: str | None = None) -> Source:
    """Return a source that reads a Markdown file for each tier.

    "" means that the tier has no file, and None that the tier uses the file of the next larger
    tier.
    """
    by_tier = {"full": full, "medium": full if medium is None else medium}
    by_tier["minimal"] = by_tier["medium"] if minimal is None else minimal

    def read(subject: Subject, tier: Tier) -> list[Piece]:
        name = by_tier[tier]
        return [file_piece(name)] if name else []

    return read


def process_map(here: str) -> Source:
    """Return a source for the map of the process. In the map, `here` marks the agent's place.

    The minimal tier has no map.
    """

    def read(subject: Subject, tier: Tier) -> list[Piece]:
        if tier == "minimal":
            return []
        name = "process_map" if tier == "full" else "process_map_medium"
        prompts = str(subject.chapter.chunk_size_prompts)
        return [file_piece(name, here=here, prompts=prompts)]

    return read


def summary_rules(frame: str, **variables: str) -> Source:
    """Return a source for the rules of agent 8: the frame, which says how the chapter is played,
    around the rules that hold for every delta."""
    return lambda subject, tier: [
        file_piece(frame, rules=render_prompt("delta_rules"), **variables)
    ]


def own_pieces(name: str) -> Source:
    """Return a source that takes the pieces of this layer from `subject.own_pieces`, because they
    belong to only one request."""
    return lambda subject, tier: subject.own_pieces.get(name, ())


def identity(subject: Subject, tier: Tier) -> list[Piece]:
    text = subject.chapter.private_text(subject.slot)
    return [Piece(f"{speaker(subject)}\n{text}".strip())]


def world_text(subject: Subject, tier: Tier) -> list[Piece]:
    return [Piece(subject.chapter.tab1.world_text)]


def chapter_text(subject: Subject, tier: Tier) -> list[Piece]:
    return [Piece(subject.chapter.tab1.chapter_text)]


def roster(subject: Subject, tier: Tier) -> list[Piece]:
    """Return a piece with one line for each character."""
    chapter = subject.chapter
    agents = [f"{one.slot}: {one.color}: {one.name}" for one in chapter.characters]
    return [Piece("\n".join([f"{len(agents)} agents", *agents]))]


def title(subject: Subject, tier: Tier) -> list[Piece]:
    chapter = subject.chapter
    return [] if chapter.is_untitled else [Piece(f"Title of the chapter: {chapter.title}")]


def session_state(subject: Subject, tier: Tier) -> list[Piece]:
    """Return a piece that says how far play has come. It tells no events, because the layer of
    memory tells them."""
    lines = play_lines(subject.chapter, Detail(tier))
    text = "\n".join([f"<{_SESSION_STATE}>", *lines, f"</{_SESSION_STATE}>"])
    return [Piece(text, has_elements=True)]


def present_memory(subject: Subject, tier: Tier) -> Pieces:
    """Return the pieces of the fold. For a large window, add the unchanged text of the lock."""
    return _memory(subject, Detail(tier), _present_fold(subject), tag=_MEMORY)


def memory_without_places(subject: Subject, tier: Tier) -> Pieces:
    """Return the fold for a chapter whose world knows where everybody is, without anybody's
    whereabouts. For a large window, add the unchanged text of the lock."""
    detail = Detail(tier)
    return _memory(subject, detail, _present_fold(subject), tag=_MEMORY, tells_places=False)


def memory_beside_world(subject: Subject, tier: Tier) -> Pieces:
    """Return the fold for a request that tells the world of the chapter in other layers: without
    the lock, anybody's whereabouts, and the events that the recent context shows word for word."""
    before, readers = subject.before, subject.readers
    start, fits = context_start(subject, tier)
    folded = fold_chapter(subject.chapter, before=before, readers=readers)
    return _memory(
        subject,
        Detail(tier),
        folded,
        tag=_MEMORY,
        told_before=start if fits else None,
        tells_places=False,
        tells_lock=False,
    )


def _present_fold(subject: Subject) -> Fold:
    chapter, readers, waiting = subject.chapter, subject.readers, subject.waiting
    if waiting and readers is not None:
        return fold_with(chapter, waiting, before=subject.before, readers=readers)
    return fold_chapter(chapter, before=subject.before, readers=readers)


def character_memory(subject: Subject, tier: Tier) -> Pieces:
    """Return memory as session state, without the events that the recent context shows word for
    word. If the context may be trimmed, memory has all events.

    In a small window the fold ends where the context begins. So the start of the request changes
    when the context moves on, but not when a summary arrives. Such changes should be rare, because
    a local model has to read everything after the change again.
    """
    chapter, detail = subject.chapter, Detail(tier)
    before, readers = subject.before, subject.readers
    start, fits = context_start(subject, tier)
    if not fits:
        return _memory(subject, detail, fold_chapter(chapter, before=before, readers=readers))
    # The context starts at the first prompt that memory leaves out, or at an earlier prompt.
    until = start if detail is Detail.MINIMAL else before
    folded = fold_chapter(chapter, before=until, readers=readers)
    return _memory(subject, detail, folded, told_before=start)


def recent_context(subject: Subject, tier: Tier) -> tuple[Piece, ...]:
    start, _ = context_start(subject, tier)
    return _pieces_from(subject, start)


def transcript_pieces(
    chapter: Session,
    first: int,
    last: int,
    *,
    last_attempt: uuid.UUID | None = None,
    perceived: Perceived | None = None,
    with_thoughts: bool = False,
    everybody: Sequence[Character] | None = None,
) -> tuple[Piece, ...]:
    """Return one piece for each prompt, with the GM's words and the chosen reply.

    `last_attempt` counts as the chosen attempt at the last prompt. `perceived` selects events by
    their witnesses. Thoughts are included only if `with_thoughts` is True. The texts are escaped,
    so that no reply can imitate the words of another member of `everybody`, which is the present
    cast if it is not given.
    """
    cast = tuple(one.name for one in everybody or everybody_at(chapter))
    entries = chosen_entries(
        chapter,
        from_prompt=first,
        to_prompt=last,
        last_attempt=last_attempt,
        perceived=perceived,
        with_thoughts=with_thoughts,
    )
    return tuple(
        Piece(*told_turn(turn, cast), block=f"Prompt {number}", prompt=number)
        for number, turn in groupby(entries, key=lambda entry: entry.prompt_index)
    )


def told_turn(entries: Iterable[Entry], cast: tuple[str, ...]) -> tuple[str, str]:
    """Return the entries of a turn twice: in full and in brief."""
    whole, brief = zip(*(_told(entry, cast) for entry in entries), strict=True)
    return "\n\n".join(whole), "\n\n".join(brief)


def _told(entry: Entry, cast: tuple[str, ...]) -> tuple[str, str]:
    """Return the entry twice: in full and in brief.

    Only the Game Master's words may have a line that begins like a mark of the transcript. Names of
    speakers are escaped too, because some names in older and imported chapters look like such a
    mark.
    """
    if entry.role == Event.Role.USER:
        return entry.rendered, without_middle(entry.rendered)
    label, text = without_cues(entry.prefix), without_cues(entry.text, cast)
    # The text is cut before it is escaped, because a cut could remove the sign that escapes a mark.
    cut = without_middle(entry.text)
    brief = text if cut == entry.text else without_cues(cut, cast)
    return f"{label}{text}", f"{label}{brief}"


def context_start(subject: Subject, tier: Tier) -> tuple[int, bool]:
    """Return the first prompt of the context, and whether the whole context surely fits.

    In a small window the context moves on by two stretches at a time if they fit. Each move makes a
    local model read the request again for every character, which takes a minute or more.
    """
    key = (subject.chapter.pk, tier, subject.whose)
    state = (
        subject.chapter.updated_at,
        subject.before,
        subject.budget_tokens,
        subject.everybody,
    )
    kept = _kept_starts.get(key)
    if kept is None or kept[0] != state:
        kept = (state, _find_start(subject, tier))
        _kept_starts.set(key, kept)
    return kept[1]


def _find_start(subject: Subject, tier: Tier) -> tuple[int, bool]:
    starts = subject.stretch_starts
    size = subject.chapter.chunk_size_prompts
    if tier == "minimal":
        start = recent_context_start(subject.last_prompt, starts, size, stretches=2)
        if _context_fits(subject, start):
            return start, True
    start = recent_context_start(subject.last_prompt, starts, size)
    return start, _context_fits(subject, start)


def _pieces_from(subject: Subject, start: int) -> tuple[Piece, ...]:
    """Return the pieces of the context that begins with prompt `start`. They are cached, because
    the layer of memory needs them too."""
    chapter = subject.chapter
    # The first prompt is part of the key, because one request may try two first prompts.
    key = (chapter.pk, start, subject.whose)
    state = (chapter.updated_at, subject.last_prompt, subject.everybody)
    kept = _kept_context.get(key)
    if kept is None or kept[0] != state:
        pieces = transcript_pieces(
            chapter,
            start,
            subject.last_prompt,
            perceived=lambda witnesses: knows(witnesses, subject.readers),
            # A thought has its thinker as its only witness, so readers get only thoughts of their
            # own.
            with_thoughts=subject.slot is not None,
            everybody=subject.everybody,
        )
        kept = (state, pieces)
        _kept_context.set(key, kept, size=sum(len(piece.text) for piece in kept[1]))
    return kept[1]


def _context_fits(subject: Subject, start: int) -> bool:
    """Return whether the context that begins with prompt `start` surely fits, however long the
    other layers are."""
    if subject.budget_tokens is None:
        return False
    weight = sum(piece.weight for piece in _pieces_from(subject, start))
    return weight / DEFAULT_WEIGHT_PER_TOKEN <= _CONTEXT_SHARE * subject.budget_tokens


def _memory(
    subject: Subject,
    detail: Detail,
    folded: Fold,
    *,
    tag: str = _SESSION_STATE,
    told_before: int | None = None,
    tells_places: bool = True,
    tells_lock: bool = True,
) -> Pieces:
    chapter = subject.chapter
    key = (chapter.pk, subject.whose, tells_lock)
    lock = told_lock(chapter) if detail is Detail.FULL and tells_lock else ""
    known = _Memory(
        folded, subject.everybody, detail, lock, tag, told_before, tells_places, tells_lock
    )
    kept = _kept_memory.get(key)
    # The folds are compared only by identity, which is quick, because an unchanged fold is the same
    # object.
    if kept is None or kept.folded is not folded or kept != known:
        kept = known
        _kept_memory.set(key, kept, size=1 + len(folded.moments))
    return kept.pieces(None if subject.slot is None else speaker(subject))


@dataclass(frozen=True)
class _Memory:
    """The memory of a chapter, which does not change until the next summary or ruling."""

    folded: Fold = field(compare=False)
    cast: tuple[Character, ...]
    detail: Detail
    lock: str
    tag: str
    told_before: int | None
    tells_places: bool
    tells_lock: bool

    @cached_property
    def lines(self) -> list[StateLine]:
        return memory_lines(
            self.folded,
            [one for one in self.cast if one.slot],
            detail=self.detail,
            beside_lock=bool(self.lock) or not self.tells_lock,
            told_before=self.told_before,
            tells_places=self.tells_places,
        )

    def pieces(self, reader: str | None) -> Pieces:
        """Return the pieces for the character with this name, or for an agent who is told
        everything if the name is None."""
        if reader not in self._by_reader:
            intents = (at for at, line in enumerate(self.lines) if line.is_more_for(reader))
            own = {
                at + self._before: _line_piece(self.lines[at], with_intent=True) for at in intents
            }
            self._by_reader[reader] = self._for_others.with_others(own)
        return self._by_reader[reader]

    @cached_property
    def _by_reader(self) -> dict[str | None, Pieces]:
        return {}

    @property
    def _before(self) -> int:
        """The number of pieces before the lines."""
        return 2 if self.lock else 1

    @cached_property
    def _for_others(self) -> Pieces:
        """The pieces for a character who did no deed."""
        lock = [Piece(self.lock, must_stay=True)] if self.lock else []
        if not self.lines:
            return Pieces(lock)
        return Pieces(
            [
                *lock,
                Piece(f"<{self.tag}>", must_stay=True, has_elements=True),
                *map(_line_piece, self.lines),
                Piece(f"</{self.tag}>", must_stay=True, has_elements=True),
            ]
        )


# Pieces are cached with their weights, because a summary changes few lines of a long chapter.
@lru_cache(maxsize=16_384)
def _line_piece(line: StateLine, *, with_intent: bool = False) -> Piece:
    return Piece(
        line.with_intent if with_intent else line.text,
        rank=line.rank,
        has_elements=True,
        block=line.block,
        place=line.place,
        heads=line.heads,
    )


# The cache of contexts. A key is the chapter, the first prompt and the reader. A value also has the
# state of the chapter that it was made from. The limit of the cache counts characters.
_ContextState = tuple[datetime, int, tuple[Character, ...]]
_ContextKey = tuple[uuid.UUID, int, Audience | None]
_kept_context: KeptRecent[_ContextKey, tuple[_ContextState, tuple[Piece, ...]]] = KeptRecent(
    4_000_000
)
# The cache of the first prompts of contexts. A value also has what decides it: the state of the
# chapter, the prompt to leave out, the budget and the cast.
_StartState = tuple[datetime, int | None, int | None, tuple[Character, ...]]
_StartKey = tuple[uuid.UUID, Tier, Audience | None]
_kept_starts: KeptRecent[_StartKey, tuple[_StartState, tuple[int, bool]]] = KeptRecent(4_096)
# The cache of memory for each chapter and reader. The limit of the cache counts the lines of
# timelines, because a long chapter has many of them.
_kept_memory: KeptRecent[tuple[uuid.UUID, Audience | None, bool], _Memory] = KeptRecent(16_384)


def file_piece(name: str, /, **variables: str) -> Piece:
    return _file_piece(name, version_of(name), **variables)


# The pieces of prompt files are cached, because filling in their variables and escaping them takes
# longer than everything else in a request.
@lru_cache(maxsize=64)
def _file_piece(name: str, version: int, /, **variables: str) -> Piece:
    return Piece(render_prompt(name, **variables))


def speaker(subject: Subject) -> str:
    assert subject.slot is not None, "A character's layer needs a subject with a slot."
    return subject.chapter.character(subject.slot).name
