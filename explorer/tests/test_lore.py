"""Which entries of a lorebook the narrator is told: for any lorebook and any texts."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from explorer.guidance import Lorebook, LoreEntry
from explorer.lore import Judged, ScannedTurn, judge, most_scanned, tokens_of, told

WORDS = ("ferry", "mill", "bell", "Osk's", "two lanterns", "C++", "(a+)+$", "渡し船", "")
ENTRY = st.builds(
    LoreEntry,
    name=st.sampled_from(("", "One", "Two")),
    content=st.sampled_from(("", "Short.", "A longer piece of lore. " * 4, "x" * 400)),
    keywords=st.lists(st.sampled_from(WORDS), max_size=3),
    secondary_keywords=st.lists(st.sampled_from(WORDS), max_size=2),
    constant=st.booleans(),
    scan_depth=st.none() | st.integers(1, 4),
    insertion_order=st.integers(0, 3),
)
TEXT = st.lists(st.sampled_from((*WORDS, "and", "millstone")), max_size=6).map(" ".join)


def turns(*texts: str) -> list[ScannedTurn]:
    return [ScannedTurn(number, text) for number, text in enumerate(texts, 1)]


def alone(text: str, **fields: object) -> Judged:
    """Judge one entry by a single turn."""
    entry = LoreEntry.model_validate({"content": "It holds.", **fields})
    return judge(Lorebook(entries=[entry]), turns(text), 1_000)[0]


@given(st.lists(ENTRY, max_size=6), st.lists(TEXT, min_size=1, max_size=5), st.integers(0, 300))
def test_the_choice_keeps_to_budget_order_and_depth(
    entries: list[LoreEntry], texts: list[str], budget: int
) -> None:
    lorebook = Lorebook(entries=entries, scan_depth=2)
    judged = judge(lorebook, turns(*texts), budget)
    chosen = told(judged)

    assert [one.entry for one in judged] == entries
    assert judged == judge(lorebook, turns(*texts), budget)
    assert sum(tokens_of(one.entry.content) for one in chosen) <= budget
    orders = [one.entry.insertion_order for one in chosen]
    assert orders == sorted(orders)
    assert all(one.entry.content.strip() for one in chosen)
    # What is not read changes nothing: the turns before the deepest scan.
    deepest = most_scanned(lorebook)
    unread = ["ferry mill bell Osk's two lanterns 渡し船"] * max(len(texts) - deepest, 0)
    read = texts[len(texts) - deepest :] if deepest else []
    if len(unread) + len(read) == len(texts):
        assert judge(lorebook, turns(*unread, *read), budget) == judged
    # Whoever is out only for the budget has nobody before who takes less of what is left.
    for one in judged:
        if "over the budget" in one.reason:
            before = sum(
                tokens_of(other.entry.content)
                for other in judged
                if other.is_in and other.priority < one.priority
            )
            assert before + tokens_of(one.entry.content) > budget


@pytest.mark.parametrize(
    ("keyword", "text", "is_found"),
    [
        ("ferry", "The FERRY comes.", True),
        ("ferry", "A ferryman.", False),
        ("Osk", "Osk's coat.", True),
        ("two lanterns", "Two  lanterns!", True),
        ("two lanterns", "two old lanterns", False),
        ("(a+)+$", "a" * 10_000, False),
        ("a.b", "axb", False),
        ("渡し船", "夜の渡し船が来る", True),
        ("Straße", "STRASSE", True),
        ("Zoe", "Zoë waits.", True),
        ("Café Łódź", "The cafe Lodz.", True),
        ("İlker", "ILKER waits.", True),
        ("שלום", "שָׁלוֹם", True),
        ("мои", "мой", False),
        ("???", "Really???", False),
        ("किताब", "एक किताब है", True),
        ("कित", "एक किताब है", False),
    ],
)
def test_keywords_are_whole_words_whatever_their_case(
    keyword: str, text: str, is_found: bool
) -> None:
    assert alone(text, keywords=keyword).is_in is is_found


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"constant": True, "name": "The river"}, "In: The river (constant)"),
        ({"keywords": "ferry"}, "In: Entry 1 (keyword “ferry” in turn 1)"),
        ({"keywords": "mill"}, "Out: Entry 1 (no keyword in turn 1)"),
        ({}, "Out: Entry 1 (it is not constant and has no keywords)"),
        ({"keywords": "ferry", "content": " "}, "Out: Entry 1 (nothing is written in it)"),
        (
            {"keywords": "ferry", "secondary_keywords": "Osk, bell"},
            "In: Entry 1 (keyword “ferry” in turn 1, with “bell” in turn 1)",
        ),
        (
            {"keywords": "ferry", "secondary_keywords": "mill"},
            "Out: Entry 1 (keyword “ferry” in turn 1, but no secondary keyword in turn 1)",
        ),
        (
            {"constant": True, "content": "x" * 4_000},
            "Out: Entry 1 (constant, but over the budget of 1,000 tokens)",
        ),
    ],
)
def test_the_record_says_why_an_entry_is_in_or_out(fields: dict[str, object], line: str) -> None:
    assert alone("The ferry and the bell.", **fields).line == line


def test_hostile_keywords_and_texts_take_little_time() -> None:
    entries = [
        LoreEntry(content="It holds.", keywords=[f"a {'a ' * at}b" for at in range(9)])
        for _ in range(100)
    ]
    judged = judge(Lorebook(entries=entries, scan_depth=50), turns(*["a " * 50_000] * 5), 100)
    assert not any(one.is_in for one in judged)


def test_long_texts_and_keywords_take_little_memory() -> None:
    keywords = [f"{'渡' * count}船" for count in range(1, 20)]
    entries = [LoreEntry(content="It holds.", keywords=keywords)] * 100
    told = turns(*["".join(map(chr, range(0x4E00, 0x4E00 + 20_000)))] * 5)
    tracemalloc.start()
    try:
        judged = judge(Lorebook(entries=entries, scan_depth=50), told, 100)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not any(one.is_in for one in judged)
    assert most < 10_000_000


@pytest.mark.parametrize(
    "fields",
    [
        {"keywords": "x" * 501},
        {"keywords": ",".join("x" * 21)},
        {"secondary_keywords": "渡" * 21},
        {"content": "x" * 5_001},
        {"name": "x" * 61},
        {"scan_depth": 0},
        {"scan_depth": 51},
        {"insertion_order": -1},
        {"insertion_order": 1_001},
        {"role": "user"},
    ],
)
def test_an_entry_has_caps(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        LoreEntry.model_validate(fields)
