"""A story is exported and imported as one file, on both databases."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from agents.flows.remembering.memory_calls import CallsNotAccepted, find_memory_behind
from agents.flows.telling.ending import request_end
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from memory.before.changes_before import changes_before
from memory.before.story_so_far import write_story_so_far
from memory.recall.recalling import Reader, recall
from memory.tests.factories import add_delta, add_lock
from sessions.chapter.stories import (
    begin_next_chapter,
    chapters_of,
    choose_chapter,
    hide_chapter,
    rename_story,
)
from sessions.models import CastMember, Session, State, Story
from sessions.tests.factories import add_prompts, add_reply, add_turn, make_active_chapter
from storyengine.exchange.file_errors import BadChapterFile
from storyengine.exchange.forking import fork_chapter
from storyengine.exchange.story_exporting import export_story
from storyengine.exchange.story_importing import import_story

pytestmark = [pytest.mark.django_db, pytest.mark.servers]


@pytest.fixture
def story() -> Story:
    """A story of three places. The first chapter has a fork, by which the story goes, and in the
    second one two people have changed their slots and somebody is new."""
    first = make_active_chapter(
        title="The Lamp", agent_names={"1": "Mara", "2": "Tom", "3": "Ilse"}
    )
    add_lock(first, {})
    add_prompts(first, 2)
    first.refresh_from_db()
    add_turn(first, 3, words="A ruby is hidden.", reply="I see.", witnesses=[1])
    Session.objects.filter(pk=first.pk).update(prompt_index=3, last_summarized_prompt_index=3)
    add_reply(first, 3, "I look away.", is_chosen=False)
    add_delta(first, 1, 3, {"canon_locks": ["The lamp is lit."]})
    fork = fork_chapter(first.pk, 3)
    choose_chapter(fork.pk)
    second = begin_next_chapter(first.story_id)
    one, two, three = second.cast
    for member, origin, name in ((one, two, "Tom"), (two, one, "Mara"), (three, None, "Nils")):
        changes = {"origin": origin.origin if origin else None, "name": name}
        CastMember.objects.filter(pk=member.pk).update(**changes)
    write_story_so_far(Session.objects.get(pk=second.pk))
    add_lock(second, {})
    Session.objects.filter(pk=second.pk).update(state=State.ACTIVE, tab1_locked=True)
    add_prompts(Session.objects.get(pk=second.pk), 1)
    begin_next_chapter(first.story_id)
    return rename_story(first.story_id, "The Coast")


def written(story: Story) -> Any:
    content = json.loads(export_story(story.pk).to_json())
    del content["exported_at"]
    return content


def named(story: Story, place: int) -> Session:
    return next(one for one in chapters_of(story) if one.place == place and one.is_chosen)


def test_a_story_comes_back_as_it_was(story: Story) -> None:
    Story.objects.filter(pk=story.pk).update(archived_at=timezone.now())
    copy = import_story(export_story(story.pk).to_json())
    assert copy.pk != story.pk
    assert written(copy) == written(story)
    chapters = chapters_of(copy)
    assert [(one.place, one.is_chosen) for one in chapters] == [
        (1, True),
        (1, False),
        (2, True),
        (3, True),
    ]
    assert chapters[0].origin == chapters[1]
    assert chapters[2].follows == chapters[0]
    assert all(one.imported_at for one in chapters)


def test_everybody_finds_the_same_in_the_copy(story: Story) -> None:
    copy = import_story(export_story(story.pk).to_json())
    for one in (story, copy):
        second = named(one, 2)
        for slot, finds in ((1, False), (2, True), (3, False)):
            assert bool(recall(Reader(second, (slot,)), "ruby", 5)) is finds
        assert changes_before(second) is None


def test_what_is_deleted_is_left_out(story: Story) -> None:
    hide_chapter(named(story, 1).pk)
    copy = import_story(export_story(story.pk).to_json())
    assert [one.place for one in chapters_of(copy)] == [1, 2, 3]
    assert named(copy, 2).follows is None
    assert written(copy) == written(story)


def change_first(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(story: dict[str, Any]) -> None:
        story["chapters"][0][name] = value

    return change


def change_second(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(story: dict[str, Any]) -> None:
        story["chapters"][1][name] = value

    return change


def change_third(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(story: dict[str, Any]) -> None:
        story["chapters"][2][name] = value

    return change


def damage_turn(story: dict[str, Any]) -> None:
    story["chapters"][1]["chapter"]["turns"][0]["number"] = 7


def damage_mode(story: dict[str, Any]) -> None:
    story["chapters"][1]["chapter"]["mode"] = "nobody_knows"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda story: story.update(title="x" * 121), "story.title is longer than 120"),
        (lambda story: story.update(chapters=[]), "story.chapters must have an entry"),
        (lambda story: story.update(chapters=story["chapters"] * 200), "story.chapters has more"),
        (change_second("is_chosen", True), "story.chapters[1].is_chosen is true for two chapters"),
        (change_first("is_chosen", False), "story.chapters[0].is_chosen is true for no chapter"),
        (change_first("place", 0), "story.chapters[0].place must be at least 1"),
        (change_first("origin", 9), "story.chapters[0].origin is no other chapter"),
        (change_first("origin", 2), "story.chapters[0].origin is no chapter that this one is"),
        (change_first("forked_at_prompt", 9), "story.chapters[0].forked_at_prompt is beyond"),
        (change_third("is_chosen", "yes"), "story.chapters[2].is_chosen"),
        (change_third("follows", 3), "story.chapters[2].follows is no chapter before"),
        (change_third("people", []), "story.chapters[2].people must have an entry for each"),
        (
            change_third("people", [{"chapter": 0, "member": 9}, None, None]),
            "story.chapters[2].people[0] is nobody of a chapter before",
        ),
        (damage_turn, "story.chapters[1].chapter.turns[0].number"),
        (damage_mode, 'story.chapters[1].chapter.mode is "nobody_knows"'),
        (lambda story: story.update(nothing=1), "story.?"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place_and_changes_nothing(
    story: Story, damage: Callable[[dict[str, Any]], None], said: str
) -> None:
    content = json.loads(export_story(story.pk).to_json())
    damage(content["story"])
    before = Story.objects.count(), Session.everything.count()
    with pytest.raises(BadChapterFile) as refused:
        import_story(json.dumps(content).encode())
    assert str(refused.value).startswith(said)
    assert (Story.objects.count(), Session.everything.count()) == before


def test_what_a_chapter_of_it_would_spend_on_memory_is_asked_before(
    story: Story, provider: ScriptedProvider
) -> None:
    behind = named(story, 2)
    add_prompts(behind, 3 * behind.chunk_size_prompts)
    copy = import_story(export_story(story.pk).to_json())
    chapter = named(copy, 2)
    asks = find_memory_behind(chapter, is_ending=False)
    assert asks is not None
    assert asks.calls == 3
    assert find_memory_behind(named(copy, 1), is_ending=False) is None
    with pytest.raises(CallsNotAccepted):
        request_end(chapter.pk)
    assert not Job.objects.filter(session__story=copy).exists()
    assert not provider.history


def test_a_later_version_and_another_format_are_refused(story: Story) -> None:
    content = json.loads(export_story(story.pk).to_json())
    for change in ({"version": 3}, {"format": "storyengine-chapter"}, {"version": "2"}):
        with pytest.raises(BadChapterFile):
            import_story(json.dumps(content | change).encode())
