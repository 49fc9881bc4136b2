"""Tests of trials on Tab 2: the form, the trial's page, and its buttons."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from agents.flows.replies.layers_to_try import LAYER_CHAR_LIMIT, read_reply
from agents.flows.replies.tests.trying import number_of, running_elsewhere, trials_of
from agents.flows.replies.trials import adopt_trial
from agents.flows.tests.playing import play, replies_are_over
from agents.llm.providers.failures.call_errors import ProviderError
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import LLMArtifact
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id, read
from testing.refusals import PLAY_HAS_GONE_ON

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert('no')</script>"


@pytest.fixture
def played(provider: ScriptedProvider) -> Session:
    chapter = make_active_chapter(agent_names={"1": f"Mara {HOSTILE}"})
    provider.enqueue(f"I wait. {HOSTILE}")
    play(chapter, "The door opens.")
    return chapter


def form_of(client: Client, chapter: Session, query: str = "") -> dict[str, str]:
    """Return the fields that a browser would send with the form of a trial."""
    query = query or f"?layer={number_of(chapter, 'AGENT_IDENTITY')}"
    html = client.get(address(chapter, "try", 1) + query).content.decode()
    [text] = all_of(html, "textarea", name="text")
    hidden = all_of(html, "input", type="hidden")
    fields = {one.attributes["name"]: one.attributes["value"] for one in hidden}
    return fields | {"text": text.text.removeprefix("\n")}


def send(chapter: Session, *forms: dict[str, str], gate: asyncio.Event | None = None) -> list[Any]:
    """Send the forms one after the other, let the replies end, and return the answers."""

    async def scenario() -> list[Any]:
        browser = AsyncClient()
        answers = [await browser.post(address(chapter, "run-trial", 1), form) for form in forms]
        if gate is not None:
            gate.set()
        await replies_are_over()
        return answers

    return async_to_sync(scenario)()


def run(client: Client, chapter: Session, **fields: str) -> Any:
    [answer] = send(chapter, form_of(client, chapter) | fields)
    return answer


def run_one(client: Client, chapter: Session, text: str = "Mara, who laughs.") -> Attempt:
    response = run(client, chapter, text=text)
    assert response.status_code == 302
    trial = trials_of(chapter)[-1]
    assert response.headers["Location"] == address(chapter, "trial", trial.pk)
    return trial


def page_of(client: Client, chapter: Session, trial: Attempt) -> str:
    response = client.get(address(chapter, "trial", trial.pk))
    assert response.status_code == 200
    return response.content.decode()


def buttons(html: str) -> list[str]:
    return [one.words for one in all_of(html, "button") if one.words]


class TestTheLink:
    def test_the_latest_reply_has_one(self, client: Client, played: Session) -> None:
        html = client.get(address(played, "prompt-calls", 1)).content.decode()
        [link] = [one for one in all_of(html, "a") if one.words.startswith("Try again")]
        assert link.attributes["href"] == address(played, "try", 1)

    def test_an_earlier_one_says_why_not(self, client: Client, played: Session) -> None:
        play(played, "On we go.")
        html = client.get(address(played, "prompt-calls", 1)).content.decode()
        assert PLAY_HAS_GONE_ON in html
        assert address(played, "try", 1) not in html
        assert client.get(address(played, "try", 1)).status_code == 409


class TestChoosing:
    def test_every_layer_stands_collapsed_and_can_be_chosen(
        self, client: Client, played: Session, provider: ScriptedProvider
    ) -> None:
        html = client.get(address(played, "try", 1)).content.decode()
        sent = "".join(message.content for message in provider.history[-1].messages)
        texts = [one.text for one in all_of(html, "pre", "as-sent")]
        count = len(read_reply(played.pk).layers)
        assert len(texts) == len(all_of(html, "details", "layer-text")) == count
        assert all(text in sent for text in texts)
        assert not any("open" in one.attributes for one in all_of(html, "details", "layer-text"))
        links = [one for one in all_of(html, "a") if one.words.startswith("Change this one")]
        assert [one.attributes["href"] for one in links] == [
            f"{address(played, 'try', 1)}?layer={number}#layer-{number}"
            for number in range(1, count + 1)
        ]

    def test_the_chosen_one_can_be_written_in(self, client: Client, played: Session) -> None:
        number = number_of(played, "AGENT_IDENTITY")
        html = client.get(address(played, "try", 1) + f"?layer={number}").content.decode()
        assert form_of(client, played)["text"].endswith("A ferrywoman.")
        assert len(all_of(html, "details", "layer-text")) == len(read_reply(played.pk).layers) - 1
        assert HOSTILE not in html
        assert by_id(html, "layer-text").attributes["data-limit"] == str(LAYER_CHAR_LIMIT)

    @pytest.mark.parametrize("layer", ["0", "9", "x"])
    def test_an_unknown_layer_is_refused(self, client: Client, played: Session, layer: str) -> None:
        assert client.get(address(played, "try", 1) + f"?layer={layer}").status_code == 422

    @pytest.mark.parametrize(
        "text",
        [
            "x" * (LAYER_CHAR_LIMIT + 1),
            "Mara\x00",
        ],
    )
    def test_what_cannot_be_accepted_is_given_back_with_the_reason(
        self, client: Client, played: Session, text: str
    ) -> None:
        response = run(client, played, text=text)
        html = response.content.decode()
        assert response.status_code == 422
        assert all_of(html, "div", "message-error", role="alert")
        assert by_id(html, "layer-text").text.removeprefix("\n") == text
        assert trials_of(played) == []

    def test_without_permission_the_words_stay_and_the_way_is_shown(
        self, client: Client, played: Session, provider: ScriptedProvider
    ) -> None:
        provider.host = "models.example"
        response = run(client, played, text="Mara, who laughs.")
        html = response.content.decode()
        assert response.status_code == 403
        assert by_id(html, "layer-text").text.strip() == "Mara, who laughs."
        assert "See what would be sent" in html


class TestTheTrial:
    def test_the_form_sent_again_is_one_trial(
        self, client: Client, played: Session, provider: ScriptedProvider
    ) -> None:
        fields = form_of(client, played) | {"text": "Mara, who laughs."}
        gate = asyncio.Event()
        provider.enqueue(Script("I go.", gate=gate))
        # The form is sent twice while the reply of the trial is being written, and once after its
        # end.
        answers = [*send(played, fields, fields, gate=gate), *send(played, fields)]
        assert len({answer.headers["Location"] for answer in answers}) == 1
        assert LLMArtifact.objects.count() == 2

    def test_while_it_runs_the_page_asks_and_can_stop_it(
        self, client: Client, htmx: Client, played: Session
    ) -> None:
        trial = running_elsewhere(played, "Mara, who laughs.")
        html = page_of(client, played, trial)
        asked = by_id(html, "trial").attributes["hx-get"]
        assert buttons(html) == ["Stop"]
        assert htmx.get(asked).status_code == 204
        Attempt.objects.filter(pk=trial.pk).update(partial_text="I run to")
        assert "I run to" in htmx.get(asked).content.decode()
        assert client.post(address(played, "stop-trial", trial.pk)).status_code == 302
        update = htmx.get(asked).content.decode()
        assert "hx-get" not in by_id(update, "trial").attributes
        assert by_id(update, "trial-said").words == "The trial was not finished."
        assert "You stopped the trial" in page_of(client, played, trial)
        assert buttons(page_of(client, played, trial)) == []

    def test_the_update_says_when_it_is_done(
        self, client: Client, htmx: Client, played: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I go.")
        trial = run_one(client, played)
        update = htmx.get(address(played, "trial-status", trial.pk)).content.decode()
        assert by_id(update, "trial-said").words == "The trial is done: I go."

    def test_both_replies_stand_side_by_side_with_what_was_changed(
        self, client: Client, played: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(f"I go. {HOSTILE}")
        trial = run_one(client, played, f"Mara, who laughs. {HOSTILE}")
        html = page_of(client, played, trial)
        shown = [one.text for one in all_of(html, "div", "trial-reply")]
        assert shown == [f"I wait. {HOSTILE}", f"I go. {HOSTILE}"]
        before, after = (one.text for one in all_of(html, "pre", "as-sent"))
        assert before.endswith("A ferrywoman.")
        assert after == f"Mara, who laughs. {HOSTILE}"
        assert by_id(html, "change-label").words == "What was changed: the identity"
        figures = [one.words for one in all_of(html, "dt")]
        assert figures == ["Model", "Output limit", "Ended", *_FIGURES] * 2
        assert HOSTILE not in html
        read(html)

    def test_a_failure_is_told_and_leads_back_to_the_words(
        self, client: Client, played: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(ProviderError(f"No line. {HOSTILE}"))
        trial = run_one(client, played)
        html = page_of(client, played, trial)
        assert "No line." in all_of(html, "div", "message-error", role="alert")[0].words
        assert HOSTILE not in html
        [link] = [one for one in all_of(html, "a") if one.words == "Change it further"]
        again = form_of(client, played, query="?" + link.attributes["href"].split("?")[1])
        assert again["text"] == "Mara, who laughs."

    def test_the_number_of_queries_is_bounded(
        self, client: Client, played: Session, django_assert_max_num_queries: Any
    ) -> None:
        trial = run_one(client, played)
        with django_assert_max_num_queries(14):
            page_of(client, played, trial)


_FIGURES = ["Tokens in", "Tokens out", "First words after", "Took", "Cost"]


class TestUsingIt:
    @pytest.fixture
    def trial(self, client: Client, played: Session, provider: ScriptedProvider) -> Attempt:
        provider.enqueue("I go.")
        return run_one(client, played)

    def test_it_leads_to_tab_2_where_the_new_reply_stands(
        self, client: Client, played: Session, trial: Attempt
    ) -> None:
        response = client.post(address(played, "adopt-trial", trial.pk))
        assert response.headers["Location"] == address(played, "play")
        entries = [
            one.words
            for one in all_of(client.get(address(played, "play")).content.decode(), "p", "entry")
        ]
        assert entries[-1].endswith("I go.")
        html = page_of(client, played, trial)
        assert "You used this reply" in html
        assert "Use this reply" not in buttons(html)

    def test_what_is_no_trial_of_this_chapter_is_not_found(
        self, client: Client, chapter: Session, trial: Attempt
    ) -> None:
        for name in ("trial", "trial-status"):
            assert client.get(address(chapter, name, trial.pk)).status_code == 404
        for name in ("stop-trial", "adopt-trial"):
            assert client.post(address(chapter, name, trial.pk)).status_code == 404

    def test_the_calls_name_the_trial_before_and_after(
        self, client: Client, played: Session, trial: Attempt
    ) -> None:
        def listed() -> list[str]:
            html = client.get(address(played, "prompt-calls", 1)).content.decode()
            return [one.words for one in all_of(html, "strong", "call-use")]

        changed = "trial with the identity changed"
        assert listed() == ["The reply", f"A {changed}, not used"]
        adopt_trial(played.pk, trial.pk)
        assert listed() == ["Another reply", f"The chosen reply, a {changed}"]
