"""The layer of passages that are found again, because the recent context no longer has them."""

from agents.prompting.budget import DEFAULT_WEIGHT_PER_TOKEN, weigh
from agents.prompting.layer_sources import context_start, is_memory_whole, told_turn
from agents.prompting.layers import Piece, Tier, Trim
from agents.prompting.sandwich import LayerDeclaration, Subject
from agents.prompting.sent_layers import BLANK_LINE
from memory.recalling import Reader, recall

# The most tokens of the passages that are recalled for a request, by tier. A small model reads them
# anew with every prompt, so that it gets few.
_MOST_TOKENS: dict[Tier, int] = {"full": 1_500, "medium": 600, "minimal": 240}
# The most tokens while memory is told whole, so that little has to be found again. No cache keeps
# passages, so that they cost as much as ten times their length of memory.
_MOST_BESIDE_WHOLE_MEMORY = 300
# The most passages, and the part of the best one's score that every other one needs.
_MOST_PASSAGES, _LEAST_OF_BEST = 8, 0.4
_HEADING_TOKENS = 12


def _recalled_passages(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the passages before the recent context that the words of the attempt are about. Each
    is told as the context would tell it, and whole. They are in their order, and the best ones give
    way last.

    A request without words, such as the start that a model reads ahead, has no passages.
    """
    words = subject.attempt.words if subject.attempt else ""
    start, _ = context_start(subject, tier)
    if not words or start <= 1:
        return []
    # As in the recent context, readers get only thoughts of their own.
    reader = Reader(
        subject.chapter,
        subject.readers,
        until=start - 1,
        with_thoughts=subject.slot is not None,
    )
    passages = recall(reader, words, _MOST_PASSAGES)
    cast = tuple(one.name for one in subject.everybody)
    most = _MOST_TOKENS[tier]
    if is_memory_whole(subject, tier):
        most = min(most, _MOST_BESIDE_WHOLE_MEMORY)
    room = (most - _HEADING_TOKENS) * DEFAULT_WEIGHT_PER_TOKEN
    chosen: list[tuple[int, Piece]] = []
    for place, passage in enumerate(passages):
        if passage.score < _LEAST_OF_BEST * passages[0].score:
            break
        whole, _ = told_turn(passage.entries, cast)
        piece = Piece(whole, rank=-place)
        if piece.weight <= room:
            room -= piece.weight + weigh(BLANK_LINE)
            chosen.append((passage.prompt_index, piece))
    return [piece for _, piece in sorted(chosen, key=lambda one: one[0])]


# The passages differ with every prompt. So the layer stands after everything that a cache keeps,
# and it gives way before anything else, so that it shortens nothing that a cache has.
RECALLED_PASSAGES = LayerDeclaration(
    "RECALLED_PASSAGES",
    _recalled_passages,
    trim=Trim.OLDEST_FIRST,
    gives_way=-2,
    most_tokens=_MOST_TOKENS,
)
