from typing import Any

from bench.figure import Figure
from bench.receipt_figures import INVENTIONS, plant, receipt_figures
from testing.session_data import RecordedSession, synthetic_session

SESSION = synthetic_session(20)


def paragraph(text: str, *prompts: int) -> dict[str, Any]:
    return {
        "text": text,
        "prompts": list(prompts),
        "confidence": "certain" if prompts else "invented",
    }


def figures(session: RecordedSession, told: list[dict[str, Any]]) -> tuple[Figure, Figure]:
    planted = [one["text"] for one in told if one["text"] in INVENTIONS]
    right, marked = receipt_figures(session, told, planted, seconds=0.02)
    return right, marked


def quoted() -> list[dict[str, Any]]:
    pairs = list(enumerate(SESSION.pairs, 1))
    replies = [paragraph(f'"{pair.reply}" It was said quietly.', at) for at, pair in pairs]
    return [*(paragraph(pair.beat, at) for at, pair in pairs), *replies]


def test_a_draft_that_leads_to_its_prompts_passes() -> None:
    right, marked = figures(SESSION, [*quoted(), *map(paragraph, INVENTIONS)])
    assert (right.value, right.passed) == ("40 of 40, in 20 ms", True)
    assert (marked.measured, marked.passed) == (10, True)


def test_wrong_further_and_missing_prompts_are_not_right() -> None:
    told = quoted()
    told[0]["prompts"], told[1]["prompts"], told[2]["prompts"] = [2], [2, 3], []
    right, _ = figures(SESSION, told)
    assert (right.measured, right.passed) == (37 / 40, False)


def test_an_invention_that_leads_anywhere_is_missed() -> None:
    told = [*map(paragraph, INVENTIONS[:-1]), paragraph(INVENTIONS[-1], 3)]
    _, marked = figures(SESSION, told)
    assert (marked.measured, marked.passed) == (9, False)


def test_inventions_are_planted_between_the_paragraphs_and_scenes_move_along() -> None:
    texts = [f"Paragraph {number}." for number in range(30)]
    text = "\n\n".join(texts)
    draft = {
        "chapter_text": text,
        "scenes": [{"start": 0}, {"start": text.index("Paragraph 14.")}],
    }
    planted = plant(draft, ["Mara", "Tinne"])
    mixed = draft["chapter_text"].split("\n\n")  # type: ignore[attr-defined]
    assert [one for one in mixed if one not in planted] == texts
    assert len(mixed) == 40
    assert planted == [one for one in mixed if one in planted]
    [first, second] = draft["scenes"]
    assert first == {"start": 0}
    assert str(draft["chapter_text"])[second["start"] :].startswith("Paragraph 14.")  # type: ignore[index]
