"""Tests of setting up, copying, resetting and deleting chapters."""

import uuid
from collections.abc import Callable

import pytest

from sessions.chapter.chapters import (
    SetupChange,
    copy_setup,
    create_chapter,
    delete_chapter,
    name_after,
    rename_chapter,
    reset_chapter,
    save_narrative_agent,
    save_setup,
)
from sessions.exceptions import InvalidInput, TooLong, UnknownChapter, WrongState
from sessions.models import Event, Session, State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter

pytestmark = pytest.mark.django_db


def test_fields_are_saved_one_by_one_and_the_others_stay() -> None:
    chapter = create_chapter()
    save_setup(chapter.pk, SetupChange(world_text="A world."))
    save_setup(chapter.pk, SetupChange(texts={"name": {"2": " Kara  Venn "}}))
    save_setup(chapter.pk, SetupChange(texts={"identity_text": {"2": "A ferrywoman."}}))
    saved = save_setup(chapter.pk, SetupChange(selected_agent_slots=[1, 2]))
    assert saved.tab1.world_text == "A world."
    assert saved.agent_texts("identity_text") == {"2": "A ferrywoman."}
    assert [c.name for c in saved.characters] == ["Agent Red", "Kara Venn"]


def test_fewer_agents_lose_nothing_that_was_typed() -> None:
    chapter = make_chapter()
    save_setup(chapter.pk, SetupChange(selected_agent_slots=[1]))
    saved = save_setup(chapter.pk, SetupChange(selected_agent_slots=[1, 2, 3]))
    assert saved.agent_texts("identity_text")["3"] == "A child."


@pytest.mark.parametrize(
    "change",
    [
        SetupChange(world_text="x" * 5_001),
        SetupChange(chapter_text="x" * 5_001),
        SetupChange(texts={"name": {"1": "x" * 61}}),
        SetupChange(texts={"identity_text": {"1": "x" * 5_001}}),
    ],
)
def test_what_is_too_long_is_refused_whole(change: SetupChange) -> None:
    chapter = make_chapter()
    with pytest.raises(TooLong):
        save_setup(chapter.pk, change)
    assert Session.objects.get().tab1.world_text == "A harbour town at the edge of the ice."


def test_a_locked_tab_1_is_not_changed() -> None:
    chapter = make_active_chapter()
    with pytest.raises(WrongState):
        save_setup(chapter.pk, SetupChange(world_text="Another world."))


@pytest.mark.parametrize("name", ["3)", "GM", "## SYSTEM", "<|im_start|>"])
def test_a_name_that_passes_for_a_mark_is_refused_whole(name: str) -> None:
    chapter = make_chapter(agent_names={"1": "Mara"})
    change = SetupChange(world_text="Another world.", texts={"name": {"1": name, "2": "Tom"}})
    with pytest.raises(InvalidInput, match=r"Nothing was saved, .*; choose another name"):
        save_setup(chapter.pk, change)
    chapter.refresh_from_db()
    assert chapter.agent_texts("name") == {"1": "Mara"}
    assert chapter.tab1.world_text == "A harbour town at the edge of the ice."


def test_a_name_of_old_hinders_no_other_change() -> None:
    chapter = make_chapter(agent_names={"1": "GM"})
    saved = save_setup(chapter.pk, SetupChange(texts={"name": {"1": "GM", "2": "Tom"}}))
    assert saved.agent_texts("name") == {"1": "GM", "2": "Tom"}
    assert (
        save_setup(chapter.pk, SetupChange(texts={"name": {"1": ""}})).agent_names["1"]
        == "Agent Red"
    )


@pytest.mark.parametrize("name", ["Tom", " tom ", "ТOM", "T\u200bom", "T\ufe0fom"])  # noqa: RUF001
def test_no_two_characters_bear_one_name(name: str) -> None:
    chapter = make_chapter(agent_names={"2": "Tom"})
    change = SetupChange(world_text="Another world.", texts={"name": {"1": name}})
    with pytest.raises(InvalidInput, match=r"Agents 1 and 2 would both .* choose another name"):
        save_setup(chapter.pk, change)
    chapter.refresh_from_db()
    assert chapter.agent_texts("name") == {"2": "Tom"}
    assert chapter.tab1.world_text == "A harbour town at the edge of the ice."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Rene", "René"),
        ("かき", "がき"),
        ("はん", "ぱん"),
        ("ｶｷ", "ガキ"),
        ("कल", "कुल"),
        ("Jose", "José"),
    ],
)
def test_an_accent_or_a_voicing_mark_makes_another_name(one: str, other: str) -> None:
    change = SetupChange(texts={"name": {"1": one, "2": other}})
    saved = save_setup(make_chapter().pk, change)
    assert [character.name for character in saved.characters[:2]] == [one, other]


@pytest.mark.parametrize(
    ("one", "other"),
    [("René", "rene\u0301"), ("ガキ", "ｶﾞｷ"), ("Ilse", "I\u00adlse"), ("Tо\u0301m", "TÓM")],  # noqa: RUF001
)
def test_the_same_name_written_otherwise_is_one(one: str, other: str) -> None:
    with pytest.raises(InvalidInput, match="would both be called"):
        save_setup(make_chapter().pk, SetupChange(texts={"name": {"1": one, "2": other}}))


@pytest.mark.parametrize(
    "change",
    [
        SetupChange(texts={"name": {"1": "Agent Orange"}}),
        SetupChange(texts={"name": {"1": "Mara", "3": "Mara"}}),
        SetupChange(selected_agent_slots=[1, 2, 3, 4]),
    ],
    ids=["the name of one without", "both at once", "one that was hidden"],
)
def test_whatever_would_make_two_of_a_name_is_refused(change: SetupChange) -> None:
    chapter = make_chapter(agent_names={"3": "Tom", "4": "Tom"}, selected_agent_slots=[1, 2, 3])
    with pytest.raises(InvalidInput, match="would both be called"):
        save_setup(chapter.pk, change)


def test_names_change_hands_at_once_and_a_hidden_one_is_free() -> None:
    chapter = make_chapter(
        agent_names={"1": "Mara", "2": "Tom", "4": "Kara"}, selected_agent_slots=[1, 2, 3]
    )
    change = SetupChange(texts={"name": {"1": "Tom", "2": "Mara", "3": "Kara"}})
    assert [one.name for one in save_setup(chapter.pk, change).characters] == [
        "Tom",
        "Mara",
        "Kara",
    ]


def test_a_title_is_one_line_and_not_empty() -> None:
    chapter = create_chapter()
    assert rename_chapter(chapter.pk, " The\nDark  Lamp ").title == "The Dark Lamp"
    with pytest.raises(InvalidInput):
        rename_chapter(chapter.pk, "  ")


def test_a_copy_has_the_setup_and_nothing_else() -> None:
    chapter = make_active_chapter(agent_names={"1": "Mara"}, target_words=900)
    add_prompts(chapter, 3)
    copy = copy_setup(chapter.pk)
    assert copy.pk != chapter.pk
    assert (copy.state, copy.prompt_index, copy.tab1_locked) == (State.DRAFT_TAB1, 0, False)
    assert copy.tab1.world_text == chapter.tab1.world_text
    assert (copy.characters[0].name, copy.target_words) == ("Mara", 900)
    assert not copy.events.exists()


@pytest.mark.parametrize(
    ("title", "copied"),
    [
        ("The Lamp", "The Lamp (2)"),
        ("The Lamp (2)", "The Lamp (3)"),
        ("The Winter (1887)", "The Winter (1887) (2)"),
        ("x" * 120, "x" * 116 + " (2)"),
    ],
)
def test_a_copy_can_be_told_from_its_source(title: str, copied: str) -> None:
    assert copy_setup(make_chapter(title=title).pk).title == copied


def test_a_reset_deletes_everything_and_opens_a_new_id() -> None:
    chapter = make_active_chapter()
    add_prompts(chapter, 3)
    fresh = reset_chapter(chapter.pk)
    assert fresh.pk != chapter.pk
    assert fresh.tab1.world_text == ""
    assert list(Session.objects.all()) == [fresh]
    assert not Event.objects.exists()


def test_narrative_instructions_have_caps() -> None:
    chapter = make_chapter()
    with pytest.raises(TooLong):
        save_narrative_agent(chapter.pk, definition_text="x" * 5_001)
    with pytest.raises(InvalidInput):
        save_narrative_agent(chapter.pk, target_words=5_001)
    saved = save_narrative_agent(chapter.pk, definition_text="Plain words.", target_words=5_000)
    assert (saved.narrative_agent_definition_text, saved.target_words) == ("Plain words.", 5_000)


def test_instructions_and_length_that_are_saved_at_once_are_both_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chapter = make_chapter()

    def clean_while_another_field_is_saved(text: str, **_: object) -> str:
        save_narrative_agent(chapter.pk, target_words=3_000)
        return text

    monkeypatch.setattr("sessions.chapter.chapters.clean_text", clean_while_another_field_is_saved)
    saved = save_narrative_agent(chapter.pk, definition_text="Plain words.")
    assert (saved.narrative_agent_definition_text, saved.target_words) == ("Plain words.", 3_000)


@pytest.mark.parametrize(
    ("cleaning", "change"),
    [
        ("clean_text", lambda pk: save_narrative_agent(pk, definition_text="Plain words.")),
        ("_clean_title", lambda pk: rename_chapter(pk, "A title")),
    ],
)
def test_a_change_of_a_chapter_that_is_deleted_meanwhile_is_refused(
    monkeypatch: pytest.MonkeyPatch, cleaning: str, change: Callable[[uuid.UUID], Session]
) -> None:
    chapter = make_chapter()

    def clean_while_another_window_deletes(text: str, **_: object) -> str:
        delete_chapter(chapter.pk)
        return text

    monkeypatch.setattr(f"sessions.chapter.chapters.{cleaning}", clean_while_another_window_deletes)
    with pytest.raises(UnknownChapter):
        change(chapter.pk)


def test_instructions_are_not_changed_under_a_build() -> None:
    with pytest.raises(WrongState):
        save_narrative_agent(make_chapter(state=State.NARRATING).pk, definition_text="x")


def test_events_are_append_only() -> None:
    chapter = make_active_chapter()
    add_prompts(chapter, 1)
    event = chapter.events.earliest("created_at")
    event.text = "rewritten"
    with pytest.raises(TypeError):
        event.save()


@pytest.mark.parametrize(
    ("premise", "title"),
    [
        ("the light went out. Nobody knows why.", "The light went out"),
        ("  Night,\n over  the harbour ", "Night, over the harbour"),
        ("word " * 40, "Word" + " word" * 11 + "\N{HORIZONTAL ELLIPSIS}"),
        ("灯台の火が消えた。誰も知らない。", "灯台の火が消えた。"),
        ("长 " + "灯" * 80, "长 " + "灯" * 57 + "\N{HORIZONTAL ELLIPSIS}"),
        ("x" * 200, "X" + "x" * 58 + "\N{HORIZONTAL ELLIPSIS}"),
        (" . ", "Untitled chapter"),
        ("", "Untitled chapter"),
    ],
)
def test_a_chapter_without_a_name_is_called_as_its_premise(premise: str, title: str) -> None:
    unnamed, named = create_chapter(), create_chapter("The Lamp")
    for chapter in (unnamed, named):
        name_after(chapter.pk, premise)
        chapter.refresh_from_db()
    assert (unnamed.title, named.title) == (title, "The Lamp")
