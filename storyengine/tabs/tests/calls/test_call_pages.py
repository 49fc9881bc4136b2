from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from agents.flows.tests.playing import play, play_many, reroll
from agents.llm.providers.failures.call_errors import ProviderRefused
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import LLMArtifact
from sessions.models import Attempt, Session
from sessions.tests.factories import add_prompts, make_active_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id

HOSTILE = "<script>alert('no')</script>"

pytestmark = pytest.mark.django_db


@pytest.fixture
def played(provider: ScriptedProvider) -> Session:
    """Return a chapter with three attempts at its first prompt, the first of which failed."""
    chapter = make_active_chapter(agent_names={"1": f"Mara {HOSTILE}"})
    provider.enqueue(
        ProviderRefused(f"No line. {HOSTILE}", said=f"Off. {HOSTILE}"),
        "I wait.",
        f"I go. {HOSTILE}",
    )
    play(chapter, f"The door opens. {HOSTILE}", key="same")
    play(chapter, f"The door opens. {HOSTILE}", key="same")
    reroll(chapter)
    return chapter


def html_of(client: Client, chapter: Session, name: str, *arguments: Any, query: str = "") -> str:
    response = client.get(address(chapter, name, *arguments) + query)
    assert response.status_code == 200
    return response.content.decode()


def shown_texts(html: str) -> list[str]:
    return [one.text for one in all_of(html, "pre", "as-sent")]


def chosen_call(html: str) -> str:
    [call] = [one for one in all_of(html, "a") if one.attributes.get("aria-current") == "true"]
    return call.words


def costs_in(html: str) -> dict[str, str]:
    """Return the costs on the page. The keys are their labels."""
    names, figures = ([one.words for one in all_of(html, tag)] for tag in ("dt", "dd"))
    return {name: at for name, at in zip(names, figures, strict=True) if "Cost" in name}


class TestLinks:
    @pytest.mark.parametrize("name", ["play", "transcript"])
    def test_each_turn_has_one(self, client: Client, name: str) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 2)
        html = html_of(client, chapter, name)
        links = [one for one in all_of(html, "a", "act") if "calls" in one.attributes["href"]]
        assert [link.attributes["href"] for link in links] == [
            address(chapter, "prompt-calls", number) for number in (1, 2)
        ]
        assert [link.words for link in links] == ["Why this reply?"] * 2
        assert links[1].attributes["aria-label"] == "Why this reply? Prompt 2"


class TestBehindAReply:
    def test_each_call_is_listed_and_the_chosen_reply_is_named(
        self, client: Client, played: Session
    ) -> None:
        html = html_of(client, played, "prompt-calls", 1)
        entries = [one.words for one in all_of(html, "li") if "Call" in one.words]
        assert ["failed" in one for one in entries] == [True, False, False]
        assert ["Another reply" in one for one in entries] == [False, True, False]
        assert ["The chosen reply" in one for one in entries] == [False, False, True]
        assert chosen_call(html) == "Call 3"

    def test_the_prompt_and_the_reply_are_shown_word_for_word(
        self, client: Client, played: Session, provider: ScriptedProvider
    ) -> None:
        *layers, reply = shown_texts(html_of(client, played, "prompt-calls", 1))
        messages = provider.history[-1].messages
        assert "\n\n".join(layers) == "\n\n".join(message.content for message in messages)
        assert reply == f"I go. {HOSTILE}"

    def test_what_was_taken_off_is_shown_beside_the_reply(
        self, client: Client, provider: ScriptedProvider
    ) -> None:
        chapter = make_active_chapter()
        provider.enqueue(f"<think>He lies. {HOSTILE}</think>\n\nI go.<|im_end|>")
        play(chapter)
        [call] = LLMArtifact.objects.filter(agent_id=1)
        assert (call.raw_output_ref, "He lies." in call.taken_off) == ("I go.", True)
        html = html_of(client, chapter, "prompt-calls", 1)
        assert shown_texts(html)[-2:] == ["I go.", call.taken_off]
        assert HOSTILE not in html

    def test_a_server_that_read_too_little_is_told_with_what_to_do(
        self, client: Client, played: Session
    ) -> None:
        assert "far fewer than this request has" not in html_of(client, played, "prompt-calls", 1)
        LLMArtifact.objects.update(token_counts={"too_few": 1_024})
        html = html_of(client, played, "prompt-calls", 1)
        assert "it read 1,024 tokens, far fewer than this request has" in html
        assert "The reply is kept." in html
        assert "STORYENGINE_CONTEXT_WINDOW" in html
        [listed, *_] = client.get(f"/api/session/{played.pk}/calls").json()["items"]
        assert (listed["told_too_few"], listed["input_tokens"]) == (1_024, None)

    @pytest.mark.parametrize("call", ["", "x", "%00", "7b9c6b7e-0000-4000-8000-000000000000"])
    def test_an_unknown_call_is_the_chosen_one(
        self, client: Client, played: Session, call: str
    ) -> None:
        html = html_of(client, played, "prompt-calls", 1, query=f"?call={call}")
        assert chosen_call(html) == "Call 3"

    def test_long_texts_scroll_and_are_named_for_those_who_cannot_see(
        self, client: Client, played: Session
    ) -> None:
        html = html_of(client, played, "prompt-calls", 1)
        texts = all_of(html, "pre", "as-sent")
        assert texts
        for one in texts:
            assert one.attributes["tabindex"] == "0"
            assert one.attributes["role"] == "group"
            assert by_id(html, one.attributes["aria-labelledby"]).words

    @pytest.mark.parametrize("number", [0, 9, 10**9])
    def test_an_unknown_prompt_is_not_found(
        self, client: Client, chapter: Session, number: int
    ) -> None:
        assert client.get(address(chapter, "prompt-calls", number)).status_code == 404

    def test_the_number_of_queries_is_bounded(
        self, client: Client, played: Session, django_assert_max_num_queries: Any
    ) -> None:
        for _ in range(3):
            # One of the queries reads the choices of models and the servers.
            with django_assert_max_num_queries(12):
                html_of(client, played, "prompt-calls", 1)
            reroll(played)


class TestBehindMemoryAndDrafts:
    @pytest.mark.parametrize("number", [0, 3])
    def test_an_unknown_block_is_not_found(
        self, client: Client, chapter: Session, number: int
    ) -> None:
        assert client.get(address(chapter, "memory-calls", number)).status_code == 404


class TestDryRun:
    def look(self, client: Client, chapter: Session, text: str, slot: str = "1") -> Any:
        return client.post(
            address(chapter, "next-call"),
            {"agent_slot": slot, "user_text": text, "submission_key": "k", "shape": "playing"},
        )

    def test_the_words_in_the_box_are_shown_as_they_would_be_sent(
        self, client: Client, chapter: Session, provider: ScriptedProvider
    ) -> None:
        response = self.look(client, chapter, f"The door opens. {HOSTILE}", slot="2")
        html = response.content.decode()
        assert response.status_code == 200
        assert shown_texts(html)[-2] == f"## USER_PROMPT\nThe door opens. {HOSTILE}"
        assert "2 Agent Orange" in html
        assert HOSTILE not in html
        assert provider.history == []
        assert not Attempt.objects.filter(words__contains="The door opens.").exists()

    def test_a_prompt_that_cannot_fit_is_shown_with_the_reason(
        self, client: Client, chapter: Session, settings: Any
    ) -> None:
        settings.MODEL = "a-model-nobody-knows"
        settings.CONTEXT_WINDOW, settings.MAX_OUTPUT = 2_800, 700
        html = self.look(client, chapter, "door " * 900).content.decode()
        [why] = all_of(html, "div", "message-error", role="alert")
        assert "too long" in why.words
        assert "your prompt" in why.words
        assert shown_texts(html)[-2].count("door") == 900
        assert "Cost" not in costs_in(html)

    def test_words_that_could_not_be_sent_are_given_back(
        self, client: Client, chapter: Session
    ) -> None:
        response = self.look(client, chapter, "x" * 5_001)
        assert response.status_code == 422
        assert "x" * 5_001 in response.content.decode()

    def test_its_button_is_not_the_one_that_enter_presses(
        self, client: Client, chapter: Session
    ) -> None:
        html = html_of(client, chapter, "play")
        form = by_id(html, "prompt-form")
        buttons = [
            one
            for one in all_of(html, "button", type="submit")
            if form.attributes in [parent.attributes for parent in one.parents]
        ]
        assert "data-send" in buttons[0].attributes
        assert buttons[-1].attributes["formaction"] == address(chapter, "next-call")


class TestUsage:
    @pytest.fixture
    def uncapped(self, settings: Any) -> None:
        """Set a cap in dollars, and a model whose price is unknown. The cap cannot be enforced for
        this model."""
        settings.LLM, settings.MODEL = "openai", f"mine{HOSTILE}"
        settings.MODEL_BY_AGENT = {}
        settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS = Decimal(1), 0

    def test_tokens_and_calls_stand_by_agent_with_failures_apart(
        self, client: Client, played: Session
    ) -> None:
        html = html_of(client, played, "usage")
        spent = sum(one.token_counts.get("input", 0) for one in LLMArtifact.objects.all())
        cells = [one.words for one in all_of(html, "td")]
        # The columns are: in, cached, out, cost, finished, stopped, failed, warm-ups. The second
        # row is the sum of all agents.
        assert cells[:8] == [f"{spent:,}", "0", cells[2], "under $0.01", "2", "0", "1", "0"]
        assert cells[8:] == cells[:8]
        assert "o4-mini" in html
        assert HOSTILE not in html

    @pytest.mark.usefixtures("uncapped")
    def test_a_model_that_the_cap_cannot_stop_is_named_with_a_way_out(
        self, client: Client, chapter: Session
    ) -> None:
        html = html_of(client, chapter, "usage")
        note = by_id(html, "uncapped").words
        assert f"mine{HOSTILE}" in note
        assert HOSTILE not in html
        assert "STORYENGINE_CHAPTER_TOKENS" in note
        assert "STORYENGINE_MODELS_FILE" in note

    def test_the_number_of_queries_is_bounded(
        self, client: Client, provider: ScriptedProvider, django_assert_max_num_queries: Any
    ) -> None:
        chapter = make_active_chapter()
        play_many(chapter, 5)
        with django_assert_max_num_queries(6):
            html_of(client, chapter, "usage")
