"""The sources that give the layers of requests their text."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import groupby

from agents.prompting.budget import DEFAULT_WEIGHT_PER_TOKEN, weigh
from agents.prompting.layers import Piece, Tier
from agents.prompting.prompt_files import render_prompt, version_of
from agents.prompting.prose import without_middle
from agents.prompting.sandwich import Source, Subject
from memory.blocks import knows
from memory.fold.folding import fold_chapter, fold_with
from memory.fold.records import Fold
from memory.keeping import KeptRecent
from memory.stretches import Audience, recent_context_start
from memory.telling.prompt_memory import recall, recall_lock
from memory.telling.rendering import render
from memory.telling.session_state import Detail, cast_lines, memory_lines, play_lines
from sessions.models import Event, Session
from sessions.record import chosen_events
from sessions.roster import Character
from sessions.speaker_marks import without_cues
from sessions.transcript import Entry, Perceived, chosen_entries
from sessions.world import everybody_at

# The two names of the element around memory. It has the first name if the request also has a layer
# of session state, and otherwise the second.
_MEMORY, _SESSION_STATE = "memory", "session_state"
# The rank of rulings. They are kept longer than deltas, because they correct the deltas.
_RULING_RANK = 1
# The part of the budget within which the recent context surely fits. Its tokens are computed for a
# model without reports, which gives a third too many. Memory may have 0.4 of the budget. The rest
# is for instructions, identity and the GM's words.
_CONTEXT_SHARE = 0.5


def prompt_file(full: str, *, medium: str | None = None, minimal: str | None = None) -> Source:
    """Return a source with one Markdown file for each tier.

    "" means that the tier has no file, and None that it has the file of the next larger tier.
    """
    by_tier = {"full": full, "medium": full if medium is None else medium}
    by_tier["minimal"] = by_tier["medium"] if minimal is None else minimal

    def read(subject: Subject, tier: Tier) -> list[Piece]:
        name = by_tier[tier]
        return [file_piece(name)] if name else []

    return read


def process_map(here: str) -> Source:
    """Return a source for the map of the process, which shows the agent's place in it.

    The minimal tier has no map.
    """

    def read(subject: Subject, tier: Tier) -> list[Piece]:
        if tier == "minimal":
            return []
        name = "process_map" if tier == "full" else "process_map_medium"
        prompts = str(subject.chapter.chunk_size_prompts)
        return [file_piece(name, here=here, prompts=prompts)]

    return read


def own_pieces(name: str) -> Source:
    """Return a source for those pieces of this layer that only one request has."""
    return lambda subject, tier: subject.own_pieces.get(name, ())


def identity(subject: Subject, tier: Tier) -> list[Piece]:
    text = subject.chapter.agent_texts("identity_text").get(str(subject.slot), "")
    return [Piece(f"{speaker(subject)}\n{text}".strip())]


def world_text(subject: Subject, tier: Tier) -> list[Piece]:
    return [Piece(subject.chapter.tab1.world_text)]


def chapter_text(subject: Subject, tier: Tier) -> list[Piece]:
    return [Piece(subject.chapter.tab1.chapter_text)]


def roster(subject: Subject, tier: Tier) -> list[Piece]:
    """Return a line for each agent, and then the pronouns and public sentences of those who have
    any."""
    chapter = subject.chapter
    agents = [f"{one.slot}: {one.color}: {one.name}" for one in chapter.characters]
    pieces = [Piece("\n".join([f"{len(agents)} agents", *agents]))]
    return [*pieces, *_known_cast(subject.everybody)]


def title(subject: Subject, tier: Tier) -> list[Piece]:
    chapter = subject.chapter
    return [] if chapter.is_untitled else [Piece(f"Title of the chapter: {chapter.title}")]


def session_state(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the position of play. The cast and the events are in the layer of memory."""
    lines = play_lines(subject.chapter, Detail(tier))
    text = "\n".join([f"<{_SESSION_STATE}>", *lines, f"</{_SESSION_STATE}>"])
    return [Piece(text, has_elements=True)]


def present_memory(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the fold. For a large window, add the lock in its own words."""
    chapter, readers, waiting = subject.chapter, subject.readers, subject.waiting
    if waiting and readers is not None:
        folded = fold_with(chapter, waiting, before=subject.before, readers=readers)
    else:
        folded = fold_chapter(chapter, before=subject.before, readers=readers)
    return _memory(subject, Detail(tier), folded, tag=_MEMORY)


def memory_so_far(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the present memory. For a large window, add the newest delta in its own words."""
    pieces = present_memory(subject, tier)
    if tier != "full":
        return pieces
    blocks = recall(subject.chapter, before=subject.before, readers=subject.readers)
    told = [block.full for block in blocks if block.is_delta]
    told += map(render, subject.waiting)
    return [*pieces, *(Piece(newest, must_stay=True) for newest in told[-1:])]


def character_memory(subject: Subject, tier: Tier) -> list[Piece]:
    """Return memory as session state, without the events that the recent context shows word for
    word.

    In a small window the fold ends where the context begins. The start of the request then changes
    when the context moves on, but not when a summary arrives. This matters because a local model
    has to read everything again that follows a change. If the context may be trimmed, memory has
    all events.
    """
    chapter, detail = subject.chapter, Detail(tier)
    before, readers = subject.before, subject.readers
    start, fits = _context_start(subject, tier)
    if not fits:
        return _memory(subject, detail, fold_chapter(chapter, before=before, readers=readers))
    # The context starts at the first prompt that memory leaves out, or earlier.
    until = start if detail is Detail.MINIMAL else before
    folded = fold_chapter(chapter, before=until, readers=readers)
    return _memory(subject, detail, folded, told_before=start)


def whole_memory(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the cast and every block in its own words. The lock and the newest delta must stay."""
    blocks = recall(subject.chapter, before=subject.before, readers=subject.readers)
    newest = max((at for at, block in enumerate(blocks) if block.is_delta), default=None)
    return _known_cast(subject.everybody) + [
        Piece(
            block.full,
            block.brief,
            must_stay=block.is_lock or at == newest,
            rank=0 if block.is_delta else _RULING_RANK,
        )
        for at, block in enumerate(blocks)
    ]


def recent_context(subject: Subject, tier: Tier) -> tuple[Piece, ...]:
    start, _ = _context_start(subject, tier)
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
    their witnesses. Thoughts are included only with `with_thoughts`. The texts are escaped, so that
    no reply looks like the words of a member in `everybody`. If `everybody` is not given, the
    present cast is used.
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
    pieces = []
    for turn in _by_prompt(entries):
        whole, brief = map("\n\n".join, zip(*(_told(entry, cast) for entry in turn), strict=True))
        pieces.append(Piece(whole, brief))
    return tuple(pieces)


def _told(entry: Entry, cast: tuple[str, ...]) -> tuple[str, str]:
    """Return the entry in full and in brief.

    A line may begin like a mark of the transcript only in the Game Master's words. Names of
    speakers are escaped, because some names in older and imported chapters look like such a mark.
    """
    if entry.role == Event.Role.USER:
        return entry.rendered, without_middle(entry.rendered)
    label, text = without_cues(entry.prefix), without_cues(entry.text, cast)
    # The text is cut before it is escaped, because a cut could remove the sign that escapes a mark.
    cut = without_middle(entry.text)
    brief = text if cut == entry.text else without_cues(cut, cast)
    return f"{label}{text}", f"{label}{brief}"


def transcript_weights(chapter: Session, last: int) -> tuple[float, ...]:
    """Return the weight of each prompt with its reply, up to prompt `last`. A turn that has only
    thoughts weighs nothing.

    The result is cached. Each new target length needs it, and only the latest reply can change.
    """
    state = (last, chosen_events(chapter).values_list("pk", flat=True).last())
    kept = _kept_weights.get(chapter.pk)
    if kept is None or kept[0] != state:
        weights = [0.0] * last
        # A turn without words has an entry with its number and without a text.
        for entry in filter(lambda one: one.text, chosen_entries(chapter, to_prompt=last)):
            weights[entry.prompt_index - 1] += weigh(entry.prefix) + weigh(entry.text)
        kept = (state, tuple(weights))
        _kept_weights.set(chapter.pk, kept, size=1 + len(kept[1]))
    return kept[1]


def _by_prompt(entries: Iterable[Entry]) -> Iterator[Iterator[Entry]]:
    """Yield the entries of each prompt. The caller has to read them before it takes the next
    prompt."""
    return (turn for _, turn in groupby(entries, key=lambda entry: entry.prompt_index))


def _context_start(subject: Subject, tier: Tier) -> tuple[int, bool]:
    """Return the first prompt of the context, and whether the whole context surely fits.

    In a small window the context moves on by two stretches at a time if they fit, because each move
    makes a local model read the request again for every character. That takes a minute or more.
    """
    starts = subject.stretch_starts
    size = subject.chapter.chunk_size_prompts
    if tier == "minimal":
        start = recent_context_start(subject.last_prompt, starts, size, stretches=2)
        if _context_fits(subject, start):
            return start, True
    start = recent_context_start(subject.last_prompt, starts, size)
    return start, _context_fits(subject, start)


def _pieces_from(subject: Subject, start: int) -> tuple[Piece, ...]:
    """Return the pieces of the context. The context itself needs them, and so does memory."""
    chapter = subject.chapter
    # The start is part of the key, because one request may try two starts of the context.
    key = (chapter.pk, start, subject.whose)
    state = (chapter.updated_at, subject.last_prompt, subject.everybody)
    kept = _kept_context.get(key)
    if kept is None or kept[0] != state:
        pieces = transcript_pieces(
            chapter,
            start,
            subject.last_prompt,
            perceived=_witnessed_by(subject),
            # A thought has its thinker as its only witness.
            with_thoughts=subject.slot is not None,
            everybody=subject.everybody,
        )
        kept = (state, pieces)
        _kept_context.set(key, kept, size=sum(len(piece.text) for piece in kept[1]))
    return kept[1]


def _witnessed_by(subject: Subject) -> Perceived:
    return lambda witnesses: knows(witnesses, subject.readers)


def _context_fits(subject: Subject, start: int) -> bool:
    """Return whether the context from this prompt on surely fits. The length of the other layers
    does not matter."""
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
) -> list[Piece]:
    chapter, key = subject.chapter, (subject.chapter.pk, subject.whose)
    lock = recall_lock(chapter) if detail is Detail.FULL else ""
    known = _Memory(folded, subject.everybody, detail, lock, tag, told_before)
    kept = _kept_memory.get(key)
    if kept is None or not kept.is_like(known):
        kept = known
        _kept_memory.set(key, kept, size=1 + len(folded.moments))
    return kept.pieces


@dataclass(frozen=True)
class _Memory:
    """A chapter's memory as pieces. They stay the same until the next summary or ruling."""

    folded: Fold
    cast: tuple[Character, ...]
    detail: Detail
    lock: str
    tag: str
    told_before: int | None

    def is_like(self, other: "_Memory") -> bool:
        """Return whether both have the same fold object. A fold that has not changed is the same
        object, so this quick test is enough."""
        return self.folded is other.folded and (
            self.cast,
            self.detail,
            self.lock,
            self.tag,
            self.told_before,
        ) == (other.cast, other.detail, other.lock, other.tag, other.told_before)

    @cached_property
    def pieces(self) -> list[Piece]:
        lines = memory_lines(
            self.folded,
            [one for one in self.cast if one.slot],
            detail=self.detail,
            beside_lock=bool(self.lock),
            told_before=self.told_before,
        )
        pieces = [Piece(self.lock, must_stay=True)] if self.lock else []
        # The lock names the characters, so a request that has the lock needs no lines about them.
        cast = [] if self.lock and not _is_more_known(self.cast) else cast_lines(self.cast)
        if lines or _is_more_known(self.cast):
            pieces += [
                Piece("\n".join([f"<{self.tag}>", *cast]), must_stay=True, has_elements=True),
                *(_line_piece(line.text, line.rank) for line in lines),
                Piece(f"</{self.tag}>", must_stay=True, has_elements=True),
            ]
        return pieces


def _known_cast(cast: Sequence[Character]) -> list[Piece]:
    """Return the pieces that describe the cast, for a request that already has the names.

    There are none unless a member has more to show than a name.
    """
    if not _is_more_known(cast):
        return []
    return [Piece("\n".join(cast_lines(cast)), must_stay=True, has_elements=True)]


def _is_more_known(cast: Sequence[Character]) -> bool:
    return any(one.says_more for one in cast)


# Pieces are cached with their weight, because a summary changes few of a long chapter's lines.
@lru_cache(maxsize=16_384)
def _line_piece(text: str, rank: int) -> Piece:
    return Piece(text, rank=rank, has_elements=True)


# The cache of contexts. Its keys are the chapter, the first prompt and the reader. Each value has
# the state of the chapter from which it was made. The limit counts characters.
_ContextState = tuple[datetime, int, tuple[Character, ...]]
_ContextKey = tuple[uuid.UUID, int, Audience | None]
_kept_context: KeptRecent[_ContextKey, tuple[_ContextState, tuple[Piece, ...]]] = KeptRecent(
    4_000_000
)
# The cache of weights by chapter. Each value has the last prompt and the newest event for which it
# was made. The limit counts prompts.
_WeightsState = tuple[int, uuid.UUID | None]
_kept_weights: KeptRecent[uuid.UUID, tuple[_WeightsState, tuple[float, ...]]] = KeptRecent(32_768)
# The cache of memory by chapter and reader. The limit counts the lines of timelines, because a long
# chapter has many.
_kept_memory: KeptRecent[tuple[uuid.UUID, Audience | None], _Memory] = KeptRecent(16_384)


def file_piece(name: str, /, **variables: str) -> Piece:
    return _file_piece(name, version_of(name), **variables)


# The pieces of files are cached, because filling them in and escaping them takes longer than
# composing everything else.
@lru_cache(maxsize=64)
def _file_piece(name: str, version: int, /, **variables: str) -> Piece:
    return Piece(render_prompt(name, **variables))


def speaker(subject: Subject) -> str:
    assert subject.slot is not None, "A character's layer needs a subject with a slot."
    return subject.chapter.character(subject.slot).name
