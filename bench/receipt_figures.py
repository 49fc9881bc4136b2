"""Measures how well the paragraphs of a draft lead to the prompts that they tell.

The narrator of the model server quotes beats and replies, so the prompts of its paragraphs are
known. Ten paragraphs that tell nothing are planted in a copy of the draft.
"""

from collections.abc import Sequence
from typing import Any

from bench.figure import Figure
from testing.http_calls import Server, call, expect
from testing.session_data import RecordedSession

LEAST_RIGHT = 0.95
# Paragraphs that tell nothing of any session, although some of them name the cast.
INVENTIONS = (
    "Somewhere above them a rope settled in its block, as ropes do before rain.",
    "Years ago, in another country, a girl had kept a heron with a broken wing in her father's "
    "barn, and nobody had asked her why.",
    "The moon stood over the orchard like a coin that somebody had forgotten to spend.",
    "{name} thought of a kitchen far away, the copper pans, the smell of quince, and a letter that "
    "had never been answered.",
    "Snow began to fall, softly at first, then in great flakes that erased the road behind them.",
    "A fox crossed the clearing, looked at {name} without interest, and went about its business.",
    "Nobody spoke for a long while. The silence had a weight to it, and they carried it between "
    "them.",
    "In the market at home the fishwives would be calling their prices by now, and the baker's boy "
    "would be late.",
    "There is a kind of tiredness that sits behind the eyes and makes the whole world look like a "
    "painting of itself.",
    "{name} counted the coins twice, tied the purse, and decided that the wedding would have to "
    "wait until spring.",
)
_BETWEEN = "\n\n"


def measure_receipts(program: Server, chapter_id: str, session: RecordedSession) -> list[Figure]:
    """Plant the inventions in a copy of the chapter's draft, read the copy's receipts, and return
    the figures."""
    file = expect(200, call(program, "GET", f"/api/session/{chapter_id}/export"))
    planted = plant(file["chapter"]["narrative_drafts"][-1], session.roster)
    copy = expect(201, call(program, "POST", "/api/session/import", file))
    draft = copy["narrative_drafts"][-1]["draft_id"]
    path = f"/api/session/{copy['session_id']}/drafts/{draft}/receipts"
    answer = call(program, "GET", path)
    paragraphs = [
        paragraph for scene in expect(200, answer)["scenes"] for paragraph in scene["paragraphs"]
    ]
    return receipt_figures(session, paragraphs, planted, seconds=answer.seconds)


def plant(draft: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Put the inventions into the draft of a chapter's file, at equal distances between its
    paragraphs, and return them."""
    planted = [text.format(name=names[at % len(names)]) for at, text in enumerate(INVENTIONS)]
    paragraphs = draft["chapter_text"].split(_BETWEEN)
    every = max(1, len(paragraphs) // len(planted))
    mixed: list[str] = []
    waiting, length, moved = list(planted), 0, {}
    for at, paragraph in enumerate(paragraphs, 1):
        moved[length] = sum(len(text) + len(_BETWEEN) for text in mixed)
        mixed.append(paragraph)
        length += len(paragraph) + len(_BETWEEN)
        if waiting and (at % every == 0 or at == len(paragraphs)):
            count = 1 if at < len(paragraphs) else len(waiting)
            mixed += waiting[:count]
            del waiting[:count]
    draft["chapter_text"] = _BETWEEN.join(mixed)
    for scene in draft.get("scenes", []):
        scene["start"] = moved[scene["start"]]
    return planted


def receipt_figures(
    session: RecordedSession,
    paragraphs: Sequence[dict[str, Any]],
    planted: Sequence[str],
    *,
    seconds: float,
) -> list[Figure]:
    """Return the figures for the paragraphs of a draft, as the API's receipts have them."""
    told = [(one, prompts) for one in paragraphs if (prompts := _prompts_of(session, one["text"]))]
    right = sum(bool(one["prompts"]) and set(one["prompts"]) <= true for one, true in told)
    share = right / max(1, len(told))
    marked = [one["text"] for one in paragraphs if one["confidence"] == "invented"]
    found = sum(text in marked for text in planted)
    return [
        Figure(
            "Paragraphs of the chapter that lead to the right prompts",
            share,
            f"{right} of {len(told)}, in {seconds * 1_000:.0f} ms",
            f"at least {LEAST_RIGHT:.0%}",
            share >= LEAST_RIGHT,
        ),
        Figure(
            "- planted inventions that are marked",
            found,
            f"{found} of {len(planted)}; {len(marked) - found} other paragraphs",
            "all",
            found == len(planted),
        ),
    ]


def _prompts_of(session: RecordedSession, text: str) -> set[int]:
    """Return the numbers of the prompts that a paragraph quotes. More than one prompt can have the
    same words."""
    return {
        number
        for number, pair in enumerate(session.pairs, 1)
        if pair.beat == text or text.startswith(f'"{pair.reply}"')
    }
