"""Tests of properties that the fold of any blocks has."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.blocks.same_names import key_of
from memory.fold.folding import fold, merge
from memory.fold.present import present
from memory.fold.records import Block, Fold
from memory.telling.now_view import now_view
from memory.telling.session_state import Detail, Rank, memory_lines

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)

# Only a few different texts are drawn, so that later blocks often repeat the facts of earlier
# blocks.
words = st.sampled_from(
    [
        "The door is shut",
        "the door is shut.",
        "the  DOOR is\nshut",
        "it is -5 outside",
        "it is 5 outside",
        "who knocks?",
        "Resolved: who knocks?",
        "who knocks? (resolved)",
        "memory says the door is shut, but Tom opens it",
        "lamp",
        "Lamp",
        "lamp: dark",
        "Mara",
        "MARA",
        "Tom",
        "everyone",
        "Mara's location",
        "location",
        "the quay",
        "the attic",
        "resolved",
        "none",
        "",
    ]
)
names = st.lists(words, max_size=2)
numbers = st.lists(st.integers(-1, 45), max_size=3)


def entries(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.fixed_dictionaries({}, optional=fields | {"at": numbers}), max_size=3)


deltas = st.fixed_dictionaries(
    {},
    optional={
        "location_updates": st.fixed_dictionaries(
            {}, optional={"where": words, "notable_environment_changes": names, "at": numbers}
        ),
        "major_events": entries(event=words, cause=words, effect=words, participants=names),
        "character_actions": entries(name=words, did=words, agent_slot=st.integers(0, 2)),
        "state_changes": entries(key=words, before=words, after=words, notes=words),
        "relationship_shifts": entries(between=names, change=words, evidence=words),
        "items_clues_discovered": entries(thing=words, who_found=words, why_it_matters=words),
        "unresolved_threads": entries(thread=words, stakes=words, next_likely_trigger=words),
        "canon_locks": names,
        "contradictions_or_questions": names,
        "canon_locks_at": numbers,
        "contradictions_or_questions_at": numbers,
    },
)
locks = st.fixed_dictionaries(
    {},
    optional={
        "world": st.fixed_dictionaries({}, optional={"tone": words, "key_lore": names}),
        "chapter": st.fixed_dictionaries(
            {}, optional={"location": words, "open_mysteries": names, "environment": names}
        ),
        "agents": entries(slot=st.integers(1, 2), name=words),
        "canon_locks": names,
    },
)
corrections = st.fixed_dictionaries(
    {}, optional={"replaces": words, "canon": words, "answers": words, "reason": words}
)
odd_deltas = st.fixed_dictionaries(
    {},
    optional={
        key: json_values | st.lists(st.dictionaries(st.sampled_from([*inner, "at"]), json_values))
        for key, inner in {
            "location_updates": ["where", "notable_environment_changes"],
            "major_events": ["event", "cause", "effect", "participants"],
            "character_actions": ["name", "did", "agent_slot", "result"],
            "state_changes": ["key", "before", "after", "notes"],
            "relationship_shifts": ["between", "change", "evidence"],
            "items_clues_discovered": ["thing", "who_found", "why_it_matters"],
            "unresolved_threads": ["thread", "stakes", "next_likely_trigger"],
            "canon_locks": ["fact", "since"],
            "contradictions_or_questions": ["question"],
            "canon_locks_at": ["numbers"],
            "contradictions_or_questions_at": ["numbers"],
        }.items()
    },
)
kinds = ["world_chapter_lock", "turn_delta", "canon_correction"]


@st.composite
def memories(draw: st.DrawFn) -> list[Block]:
    """Draw the blocks of a chapter in order: a lock, then deltas and rulings."""
    blocks = [Block("world_chapter_lock", 0, 0, draw(locks))]
    prompt = 0
    for _ in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            blocks.append(Block("turn_delta", prompt + 1, prompt + 7, draw(deltas)))
            prompt += 7
        else:
            blocks.append(Block("canon_correction", prompt, prompt, draw(corrections)))
    return blocks


@st.composite
def odd_memories(draw: st.DrawFn) -> list[Block]:
    payloads = draw(st.lists(json_values | odd_deltas, max_size=4))
    return [
        Block(draw(st.sampled_from([*kinds, "unknown"])), 7 * at, 7 * at + 6, payload)
        for at, payload in enumerate(payloads)
    ]


def in_full(folded: Fold) -> str:
    """Return a text that is equal for two folds only if they are equal in everything, even in the
    order of their entries."""
    return repr(folded)


def skeleton(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


@settings(max_examples=200)
@given(memories(), st.data())
def test_it_does_not_matter_where_memory_is_cut(blocks: list[Block], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(blocks)))
    parts = merge(fold(blocks[:at]), fold(blocks[at:]))
    assert in_full(parts) == in_full(fold(blocks))


@settings(max_examples=200)
@given(memories(), st.data())
def test_it_does_not_matter_which_parts_are_joined_first(
    blocks: list[Block], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(blocks)))
    second = data.draw(st.integers(first, len(blocks)))
    a, b, c = fold(blocks[:first]), fold(blocks[first:second]), fold(blocks[second:])
    assert in_full(merge(merge(a, b), c)) == in_full(merge(a, merge(b, c)))


def said_canon(blocks: Sequence[Block]) -> list[str]:
    return [
        text
        for block in blocks
        if block.type != "canon_correction"
        for text in block.payload.get("canon_locks", [])
        if text
    ]


@given(memories())
def test_no_canon_lock_is_lost_unless_a_correction_names_it(blocks: list[Block]) -> None:
    folded = fold(blocks)
    named = {skeleton(block.payload.get("replaces", "")) for block in blocks[1:]}
    expected = {skeleton(text) for text in said_canon(blocks)} - named
    assert expected <= {skeleton(fact.text) for fact in present(folded).canon}
    for detail in Detail:
        lines = memory_lines(folded, detail=detail)
        assert expected <= {skeleton(line.said) for line in lines if line.rank is Rank.CANON}


@given(st.lists(st.text(), max_size=8))
def test_facts_that_differ_in_a_letter_or_digit_are_two(texts: list[str]) -> None:
    canon = present(fold([Block("turn_delta", 1, 7, {"canon_locks": texts})])).canon
    said = {skeleton(text) for text in texts if text.split()}
    assert said <= {skeleton(fact.text) for fact in canon}
    assert all(fact.text.split() for fact in canon)


@given(memories())
def test_the_last_ruling_on_a_fact_holds(blocks: list[Block]) -> None:
    rulings: dict[str, bool] = {}
    for block in blocks:
        if block.type == "canon_correction":
            for name, is_true in (("replaces", False), ("canon", True)):
                if key := key_of(block.payload.get(name, "")):
                    rulings[key] = is_true
    canon = {key_of(fact.text) for fact in present(fold(blocks)).canon}
    assert {key for key, is_true in rulings.items() if is_true} <= canon
    assert not {key for key, is_true in rulings.items() if not is_true} & canon


@given(memories())
def test_every_thing_says_which_prompts_it_came_from(blocks: list[Block]) -> None:
    ranges = {(block.from_prompt, block.to_prompt) for block in blocks}
    for section in now_view(fold(blocks)):
        for item in section.items:
            assert (item.first.first, item.first.last) in ranges
            assert (item.latest.first, item.latest.last) in ranges
            assert (item.first.first, item.first.last) <= (item.latest.first, item.latest.last)
            for told in (item.first, item.latest):
                assert all(told.first <= number <= told.last for number in told.at)


@settings(max_examples=150)
@given(odd_memories())
def test_any_json_is_folded_and_shown(blocks: list[Block]) -> None:
    folded = fold(blocks)
    assert in_full(merge(fold(blocks[:1]), fold(blocks[1:]))) == in_full(folded)
    for detail in Detail:
        for line in memory_lines(folded, detail=detail, beside_lock=detail is Detail.FULL):
            assert line.said
            assert len(line.text.splitlines()) == 1
    assert all(section.items for section in now_view(folded))
