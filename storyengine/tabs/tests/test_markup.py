"""Tests of the HTML of every page.

No page has an inline script or style, every field has a label, and every form works without
scripts.
"""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from agents.calling.chapter_models import save_models
from agents.flows.replies.tests.trying import try_again
from agents.flows.tests.playing import play as play_a_prompt
from agents.models import Job
from agents.prompting.own_settings import OwnSettings
from agents.tests.replies import turn_delta
from memory.models import MemoryBlock, NarrativeDraft
from memory.prose.editing.working_copies import save_working_copy
from memory.prose.tests.told_chapters import TOLD, add_draft, make_told_chapter
from sessions.chapter.chapters import create_chapter
from sessions.chapter.example import fill_example
from sessions.chapter.stories import hide_chapter
from sessions.models import Attempt, Session, State
from sessions.tests.factories import (
    add_attempt,
    add_prompts,
    add_reply,
    make_active_chapter,
    make_chapter,
)
from storyengine.tabs.chapter.now_pages import text_key
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, read

pytestmark = pytest.mark.django_db


def a_draft() -> str:
    return address(make_chapter(), "world")


def a_locked_one() -> str:
    return address(make_active_chapter(), "world")


def a_question() -> str:
    return address(make_chapter(), "play")


def a_lock() -> str:
    return address(make_chapter(state=State.LOCKING), "play")


def play() -> str:
    chapter = make_active_chapter()
    add_prompts(chapter, 2)
    return address(chapter, "play")


def a_choice() -> str:
    chapter = make_active_chapter(shows_all_replies=True)
    add_prompts(chapter, 2)
    for text in ("again", "and again"):
        add_reply(chapter, 2, text)
    return address(chapter, "play")


def a_running_reply() -> str:
    return _with_turn(Attempt.Status.RUNNING)


def a_broken_reply() -> str:
    return _with_turn(Attempt.Status.FAILED)


def _with_turn(status: Attempt.Status) -> str:
    chapter = make_active_chapter()
    add_attempt(chapter, status=status, partial_text="Text.")
    return address(chapter, "play")


def a_prompt_set_aside() -> str:
    return _with_turn(Attempt.Status.SET_ASIDE)


def an_edit() -> str:
    chapter = make_active_chapter()
    add_prompts(chapter, 2)
    return address(chapter, "edit", 2)


def an_untouched_example() -> str:
    chapter = fill_example(create_chapter().pk)
    Session.objects.filter(pk=chapter.pk).update(state=State.ACTIVE, tab1_locked=True)
    return address(chapter, "play")


def an_end() -> str:
    return address(make_active_chapter(), "confirm-end")


def a_deletion() -> str:
    chapter = make_chapter()
    hide_chapter(chapter.pk)
    return f"/?deleted={chapter.pk}"


def an_ended_one() -> str:
    return address(make_chapter(state=State.ENDED, tab1_locked=True), "play")


def a_chapter() -> str:
    chapter = make_chapter(state=State.ENDED, tab1_locked=True)
    NarrativeDraft.objects.create(
        session=chapter, target_words=100, source_snapshot={}, chapter_text="Prose."
    )
    return address(chapter, "draft")


def a_build() -> str:
    chapter = make_chapter(state=State.NARRATING, tab1_locked=True)
    Job.objects.create(session=chapter, kind="narrate", key="n", partial_text="So far.")
    return address(chapter, "draft")


def _with_a_question() -> tuple[Session, str]:
    chapter = make_active_chapter()
    question = "Is the lamp lit?"
    MemoryBlock.objects.create(
        session=chapter,
        type=MemoryBlock.Type.TURN_DELTA,
        from_prompt_index=1,
        to_prompt_index=7,
        json_payload=turn_delta(1, 7, contradictions_or_questions=[question]),
    )
    return chapter, text_key(question)


def a_draft_beside_a_build() -> str:
    chapter = make_chapter(state=State.NARRATING, tab1_locked=True)
    NarrativeDraft.objects.create(
        session=chapter, target_words=100, source_snapshot={}, chapter_text="Prose."
    )
    Job.objects.create(session=chapter, kind="narrate", key="n", partial_text="So far.")
    return address(chapter, "draft") + "?draft=1"


def receipts() -> str:
    chapter = make_told_chapter()
    add_draft(chapter, *TOLD, ends=(1, 2, 3, 4))
    return address(chapter, "draft") + "?paragraph=2&prompt=3"


def an_edited_draft() -> str:
    chapter = make_told_chapter()
    draft = add_draft(chapter, *TOLD)
    save_working_copy(chapter.pk, draft.pk, "Other words.")
    return address(chapter, "edit-draft", draft.pk)


def differences() -> str:
    chapter = make_told_chapter()
    add_draft(chapter, *TOLD)
    return address(chapter, "differences", add_draft(chapter, *TOLD[:3], "Other words.").pk)


def a_book() -> str:
    chapter = make_told_chapter()
    add_draft(chapter, "# One", *TOLD, "***", "The end.")
    return address(chapter, "read")


def a_rebuild() -> str:
    chapter = make_told_chapter(state=State.ENDED)
    told = add_draft(chapter, *TOLD, ends=(1, 2, 3, 4))
    return address(chapter, "rebuild-scene", told.pk, 2)


def a_memory() -> str:
    return address(_with_a_question()[0], "draft")


def a_correction() -> str:
    return address(make_active_chapter(), "canon")


def a_memorys_question() -> str:
    chapter, key = _with_a_question()
    return address(chapter, "question", key)


def a_transcript() -> str:
    chapter = make_active_chapter()
    add_prompts(chapter, 2)
    return address(chapter, "transcript")


def a_model_call() -> str:
    chapter = make_active_chapter()
    play_a_prompt(chapter)
    return address(chapter, "prompt-calls", 1)


def a_layer_to_change() -> str:
    chapter = make_active_chapter()
    play_a_prompt(chapter)
    return address(chapter, "try", 1) + "?layer=2"


def a_trial() -> str:
    chapter = make_active_chapter()
    play_a_prompt(chapter)
    return address(chapter, "trial", try_again(chapter, "Mara.", number=2).pk)


def a_running_trial() -> str:
    page = a_trial()
    lease = timezone.now() + timedelta(minutes=1)
    trials = Attempt.objects.filter(kind=Attempt.Kind.TRIAL)
    trials.update(status=Attempt.Status.RUNNING, lease_until=lease)
    return page


def what_was_used() -> str:
    chapter = make_active_chapter()
    play_a_prompt(chapter)
    return address(chapter, "usage")


def own_models() -> str:
    chapter = make_active_chapter()
    save_models(
        chapter.pk, {"AGENT_9": OwnSettings(model="mine", output_tokens=100, stop=("END",))}
    )
    return address(chapter, "chapter-models") + "?each=1"


def the_library() -> str:
    make_chapter()
    return "/"


NOWHERE = "/nothing/here"
PAGES: list[Callable[[], str]] = [
    *(a_draft, a_locked_one, a_question, a_lock, play, a_choice, a_running_reply, a_broken_reply),
    *(a_prompt_set_aside, an_edit, an_ended_one, a_chapter, a_build, a_transcript, the_library),
    *(an_untouched_example, an_end, a_deletion, a_draft_beside_a_build),
    *(
        receipts,
        an_edited_draft,
        differences,
        a_book,
        a_rebuild,
        a_memory,
        a_correction,
        a_memorys_question,
    ),
    *(a_model_call, what_was_used, own_models, a_layer_to_change, a_running_trial, a_trial),
    *(lambda: "/", lambda: "/consent/", lambda: NOWHERE),
]

EVALUATED = ("hx-on", "hx-vars", "onclick", "onload", "onerror")


@pytest.fixture(params=PAGES, ids=lambda build: build.__name__)
def html(request: pytest.FixtureRequest, client: Client) -> str:
    page = request.param()
    response = client.get(page)
    assert response.status_code == (404 if page == NOWHERE else 200)
    return response.content.decode()


def test_nothing_is_inline_or_evaluated(html: str) -> None:
    for element in read(html):
        assert element.tag != "style"
        assert "style" not in element.attributes
        assert element.tag != "script" or not element.text.strip()
        for name, value in element.attributes.items():
            assert not name.startswith(EVALUATED)
            assert not value.startswith(("javascript:", "js:"))
            assert name != "hx-trigger" or "[" not in value


def test_ids_are_unique(html: str) -> None:
    ids = [one.attributes["id"] for one in read(html) if "id" in one.attributes]
    assert len(ids) == len(set(ids))


def test_every_field_has_a_name_for_those_who_cannot_see_it(html: str) -> None:
    elements = read(html)
    labelled = {one.attributes.get("for") for one in elements if one.tag == "label"}
    for field in elements:
        is_field = field.tag in ("input", "select", "textarea")
        if not is_field or field.attributes.get("type") == "hidden" or "hidden" in field.attributes:
            continue
        is_named = (
            field.attributes.get("id") in labelled
            or "aria-label" in field.attributes
            or any(parent.tag == "label" for parent in field.parents)
        )
        assert is_named, field.attributes


def test_every_form_works_without_script_and_carries_its_token(html: str) -> None:
    elements = read(html)
    for form in all_of(html, "form"):
        if form.attributes.get("method") == "dialog":
            continue
        assert form.attributes["action"].startswith("/")
        inside = [one for one in elements if _is_inside(one, form)]
        has_token = any(one.attributes.get("name") == "csrfmiddlewaretoken" for one in inside)
        if form.attributes["method"] == "get":
            # The browser puts the fields of a GET form into an address, where a token would be
            # visible.
            assert not has_token
            continue
        assert form.attributes["method"] == "post"
        assert (
            form.attributes.get("hx-post", form.attributes["action"]) == form.attributes["action"]
        )
        assert has_token


def test_what_sends_has_a_place_for_refusals(html: str) -> None:
    elements = read(html)
    for at, element in enumerate(elements):
        if "hx-post" in element.attributes:
            assert any(one.has_class("refusal") for one in elements[at:])


def test_every_page_has_a_title_and_one_main_part(html: str) -> None:
    assert next(one.words for one in all_of(html, "title")).endswith("Story Engine")
    assert len(all_of(html, "main")) == 1
    for image in all_of(html, "img"):
        assert "alt" in image.attributes


def test_the_tabs_are_links_and_the_open_one_is_marked(client: Client, chapter: Session) -> None:
    for name, label in (("world", "1 World"), ("play", "2 Play"), ("draft", "3 Chapter")):
        html = client.get(address(chapter, name)).content.decode()
        [tabs] = all_of(html, "nav", "tabs")
        links = [one for one in read(html) if one.tag == "a" and _is_inside(one, tabs)]
        assert [one.words for one in links] == ["1 World", "2 Play", "3 Chapter"]
        assert [one.words for one in links if "aria-current" in one.attributes] == [label]


def test_htmx_is_told_to_evaluate_nothing_and_to_show_refusals(client: Client) -> None:
    [meta] = [one for one in all_of(client.get("/").content.decode(), "meta", name="htmx-config")]
    config = json.loads(meta.attributes["content"])
    assert config["allowEval"] is False
    assert config["selfRequestsOnly"] is True
    assert config["includeIndicatorStyles"] is False
    assert config["responseHandling"][-1] == {"code": "...", "swap": True, "error": True}


def _is_inside(element: Element, outer: Element) -> bool:
    return any(
        parent.tag == outer.tag and parent.attributes == outer.attributes
        for parent in element.parents
    )
