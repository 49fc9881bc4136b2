"""The layer of passages of the chapter that fit the prompt and that the other layers of the request
do not have."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from xml.sax.saxutils import quoteattr

from agents.prompting.escaping import without_forgeries
from agents.prompting.layer_sources import context_start, told_turn
from agents.prompting.layers import Piece, Search, Tier, weigh
from agents.prompting.sandwich import LayerDeclaration, Subject
from agents.prompting.sent_layers import BLANK_LINE, with_heading
from memory.recall.recalling import Passage, Reader, recall
from memory.telling.rendering import told_lock
from memory.telling.session_state import ELEMENTS_OF_NOW, StateLine, heading_of
from sessions.models import Session

_NAME = "RECALLED_PASSAGES"
# How much room passages have: the lower and the upper limit as fractions of the budget, and the
# limit of tokens for each tier. The tokens that are kept free cost lines of memory. When memory
# gives way, it usually leaves more room than that. A small model gets few passages, because it
# reads them anew with every prompt.
_LEAST_SHARE, _MOST_SHARE = 0.03, 0.1
_MOST_TOKENS: dict[Tier, int] = {"full": 1_500, "medium": 700, "minimal": 400}
# Passages have at most this many tokens while the request has the whole of memory. Little has to be
# found again then, and passages are expensive: no cache keeps them, so a passage costs as much as
# memory of ten times its length.
_MOST_IF_ALL_STAYS = 220
# There are at most this many passages. The second number is the fraction of the best passage's
# score that every other passage needs.
_MOST_PASSAGES, _LEAST_OF_BEST = 16, 0.4
# At most this many passages are lines of memory that say how things stand. The second number is the
# fraction of the room that these lines may fill before any other passage, because a character must
# first of all know what holds now.
_MOST_OF_NOW, _SHARE_OF_NOW = 12, 0.5
_MEMORY, _EARLIER = "memory", "earlier_chapter"


def _search(subject: Subject, tier: Tier) -> Search:
    """Return the search for the passages that the words of the attempt are about.

    The other layers never have the turns before the recent context, nor the turns of earlier
    chapters. A request without words, such as the start that a model reads ahead, has no passages,
    but keeps their room free, so that it begins in the same way as the later request with words.
    """
    start, _ = context_start(subject, tier)
    budget, most = subject.budget_tokens or 0, _MOST_TOKENS[tier]
    most = min(most, round(_MOST_SHARE * budget))
    least = min(most, round(_LEAST_SHARE * budget))
    return Search(
        partial(_find, subject, tier, start),
        least_tokens=least,
        most_tokens=most,
        most_if_all_stays=min(most, _MOST_IF_ALL_STAYS),
        is_needed=start > 1 or subject.chapter.follows_id is not None,
    )


def _find(
    subject: Subject, tier: Tier, start: int, standing: Sequence[Piece], room: float
) -> list[Piece]:
    """Return the passages that are not among the `standing` pieces and fit the room. The standing
    pieces may tell the prompts from `start` on.

    Turns are told as the context would tell them, and whole. Lines of memory are told as memory
    tells them. If there is not enough room, the best passages are kept.
    """
    words = subject.attempt.words if subject.attempt else ""
    if not words:
        return []
    first = min((piece.prompt for piece in standing if piece.prompt), default=start)
    reader = Reader(
        subject.chapter,
        subject.readers,
        until=first - 1,
        # As in the recent context, readers get only thoughts of their own.
        with_thoughts=subject.slot is not None,
        before=subject.before,
        shown=frozenset(piece.text for piece in standing if piece.block),
        has_lock=tier == "full" and bool(told_lock(subject.chapter)),
    )
    found = _Found(tuple(one.name for one in subject.everybody), reader.name)
    passages = recall(reader, words, _MOST_PASSAGES, k_of_now=_MOST_OF_NOW)
    close = [one for one in passages if one.score >= _LEAST_OF_BEST * passages[0].score]
    for passage in close:
        if passage.line and passage.line.tag in ELEMENTS_OF_NOW:
            found.add_if_it_fits(passage, _SHARE_OF_NOW * room)
    for passage in close:
        found.add_if_it_fits(passage, room)
    return found.pieces()


class _Found:
    """The passages that the layer tells."""

    def __init__(self, cast: tuple[str, ...], reader: str | None) -> None:
        self._own = _OfChapter(cast, reader)
        # The passages of each earlier chapter, by its place in the story.
        self._earlier: dict[int, _OfChapter] = {}

    def add_if_it_fits(self, passage: Passage, room: float) -> None:
        """Add the passage, unless it was added before or makes the layer heavier than `room`."""
        earlier = passage.earlier
        if earlier is None:
            chapter = self._own
        elif (kept := self._earlier.get(earlier.place)) is not None:
            chapter = kept
        else:
            cast = tuple(one.name for one in earlier.everybody)
            chapter = _OfChapter((*self._own.cast, *cast), passage.reader_name, earlier)
            self._earlier[earlier.place] = chapter
        if chapter.add(passage) and self._weight() > room:
            chapter.take_back()

    def pieces(self) -> list[Piece]:
        """Return the passages in the order of the story: those of the earlier chapters, then the
        lines of memory, then the turns."""
        earlier = (self._earlier[place].whole() for place in sorted(self._earlier))
        return [*filter(None, earlier), *self._own.pieces()]

    def _weight(self) -> float:
        return weigh(with_heading(_NAME, BLANK_LINE.join(piece.text for piece in self.pieces())))


class _OfChapter:
    """The passages of one chapter. `cast` are the names that could pass for those of speakers."""

    def __init__(
        self, cast: tuple[str, ...], reader: str | None, chapter: Session | None = None
    ) -> None:
        self.cast = cast
        self._reader, self._chapter = reader, chapter
        self._turns: list[tuple[int, str]] = []
        self._lines: list[StateLine] = []
        self._newest_is_line = False

    def add(self, passage: Passage) -> bool:
        """Add the passage, and return False if it was added before."""
        if passage.line in self._lines:
            return False
        self._newest_is_line = passage.line is not None
        if passage.line is not None:
            self._lines.append(passage.line)
        else:
            whole, _ = told_turn(passage.entries, self.cast)
            self._turns.append((passage.prompt_index, whole))
        return True

    def take_back(self) -> None:
        """Take back the passage that was added last."""
        (self._lines if self._newest_is_line else self._turns).pop()

    def pieces(self) -> list[Piece]:
        """Return the lines of memory, and then the turns, each in the order of the story."""
        memory = [Piece(self._memory(), has_elements=True)] if self._lines else []
        return [*memory, *map(Piece, self._told())]

    def whole(self) -> Piece | None:
        """Return all passages of an earlier chapter in an element with its title."""
        assert self._chapter is not None, "Only earlier chapters are told as a whole."
        told = [self._memory()] if self._lines else []
        told += map(without_forgeries, self._told())
        if not told:
            return None
        start = f"<{_EARLIER} title={quoteattr(self._chapter.title)}>"
        return Piece("\n".join((start, BLANK_LINE.join(told), f"</{_EARLIER}>")), has_elements=True)

    def _told(self) -> list[str]:
        return [whole for _, whole in sorted(self._turns, key=lambda one: one[0])]

    def _memory(self) -> str:
        told = [f"<{_MEMORY}>"]
        for under, lines in groupby(sorted(self._lines, key=_place), key=lambda one: one.under):
            if under and under[0]:
                told.append(heading_of(under))
            told += (line.for_reader(self._reader) for line in lines)
        return "\n".join([*told, f"</{_MEMORY}>"])


def _place(line: StateLine) -> tuple[int, tuple[int, int]]:
    """Return the sort key of a line, as in memory: lines of the lock, then lines about events, then
    lines that say how things stand."""
    if line.under:
        return 1, line.under
    return (2 if line.prompt else 0), (line.prompt, 0)


# The passages differ with every prompt. So the layer stands after everything that a cache keeps.
RECALLED_PASSAGES = LayerDeclaration(_NAME, searching=_search)
