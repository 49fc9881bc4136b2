"""Tests that Tab 2 asks who witnesses a prompt, and shows the witnesses of a turn."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from agents.flows.tests.playing import replies_are_over
from agents.llm.providers.failures.call_errors import ProviderRefused
from agents.llm.providers.scripted import ScriptedProvider
from sessions.models import Attempt, Session
from sessions.record.transcript import read_transcript
from sessions.tests.factories import add_prompts, add_turn, make_active_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter(provider: ScriptedProvider) -> Session:
    return make_active_chapter(agent_names={"1": "Mara", "3": "<b>Kit</b>"})


def send(chapter: Session, **fields: Any) -> Attempt:
    sent = {"agent_slot": "2", "user_text": "The ice cracks.", "shape": "playing", **fields}

    async def run() -> Any:
        headers = {"HX-Request": "true"}
        response = await AsyncClient().post(address(chapter, "prompt"), sent, headers=headers)
        await replies_are_over()
        return response

    response = async_to_sync(run)()
    assert response.status_code == 200, response.content
    return chapter.attempts.latest("submitted_at")


def page(chapter: Session, query: str = "") -> str:
    return Client().get(address(chapter, "play") + query).content.decode()


@pytest.mark.parametrize(
    ("ticked", "witnesses"),
    [
        ({}, None),
        ({"witnesses_of": "3", "witnesses": ["1", "2", "3"]}, None),
        ({"witnesses_of": "3", "witnesses": ["1"]}, [1, 2]),
        # The user has ticked nobody. The character who answers is a witness all the same.
        ({"witnesses_of": "3"}, [2]),
    ],
)
def test_a_prompt_is_perceived_by_those_who_are_ticked(
    chapter: Session, ticked: dict[str, Any], witnesses: list[int] | None
) -> None:
    attempt = send(chapter, submission_key="k", **ticked)
    assert (attempt.status, attempt.witnesses) == (Attempt.Status.COMMITTED, witnesses)
    heard = list(chapter.events.values_list("witnesses", flat=True))
    assert heard == [witnesses or [1, 2, 3]] * 2


def test_a_retry_keeps_them_and_words_that_are_put_back_too(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(ProviderRefused("401"))
    broken = send(chapter, submission_key="k", witnesses_of="3", witnesses=["1"])
    inputs = [
        one
        for one in all_of(page(chapter), "input")
        if any(parent.attributes.get("id") == "broken" for parent in one.parents)
    ]
    hidden = {
        name: [one.attributes["value"] for one in inputs if one.attributes.get("name") == name]
        for name in ("witnesses", "witnesses_of", "submission_key")
    }
    assert hidden["witnesses"] == ["1", "2"]
    ticks = [
        "checked" in tag.attributes
        for tag in all_of(page(chapter, f"?words={broken.pk}"), "input")
        if (tag.attributes.get("type"), tag.attributes.get("name")) == ("checkbox", "witnesses")
    ]
    assert ticks == [True, True, False]
    again = send(chapter, **hidden)
    assert (again.pk, again.status, again.witnesses) == (broken.pk, "committed", [1, 2])


def test_whoever_answers_has_a_ticked_box_that_sends_nothing(chapter: Session) -> None:
    html = page(chapter)
    [choice] = all_of(html, "details", "witnesses")
    found = [one for one in all_of(html, "input", type="checkbox") if choice in one.parents]
    boxes = [one.attributes for one in found]
    assert [one.get("name") for one in boxes] == ["witnesses", None] * 3
    assert all("checked" in one and "disabled" in one for one in boxes[1::2])


def test_the_page_says_who_perceived_a_turn_that_not_everybody_did(chapter: Session) -> None:
    add_prompts(chapter, 1)
    add_turn(chapter, 2, words="Psst.", reply="Yes.", actor=3, witnesses=[1, 3])
    chapter.prompt_index = 2
    chapter.save()
    plain, shown = read_transcript(chapter).plain_text, page(chapter)
    assert shown.count('class="perceived"') == 1
    assert 'data-by="Mara, &lt;b&gt;Kit&lt;/b&gt;"' in shown
    # A copied or downloaded transcript has no names of witnesses.
    assert "perceived" not in plain
    assert ">perceived" not in shown
