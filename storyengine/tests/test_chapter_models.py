"""Tests of the models that a chapter sets for its agents: they win in this chapter alone, and go
where the user expects them."""

import json
from collections.abc import Callable
from decimal import Decimal

import pytest
from pytest_django import Settings

from agents.calling.calls import check_allowed
from agents.calling.chapter_models import save_models
from agents.calling.consent import grant
from agents.calling.servers.changing import add_server, choose_models
from agents.calling.servers.choices import choice_of
from agents.exceptions import PriceUnknown
from agents.flows.beginning.locking import request_lock
from agents.flows.telling.narrating import request_build
from agents.flows.tests.playing import play, reroll
from agents.llm.facts.reported_windows import store_reports
from agents.llm.providers.scripted import ScriptedProvider
from agents.llm.providers.windows import WindowReport
from agents.modes.registry import agents_in
from agents.prompting.agent import in_chapter
from agents.prompting.declarations import NARRATOR
from agents.prompting.own_settings import NOTHING_SET, OwnSettings
from agents.tests.replies import world_lock
from memory.tests.factories import add_lock
from sessions.chapter.chapters import copy_setup, reset_chapter
from sessions.chapter.stories import begin_next_chapter
from sessions.exceptions import InvalidInput
from sessions.models import Session
from sessions.tests.factories import make_active_chapter, make_chapter
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.file_errors import BadChapterFile
from storyengine.exchange.forking import fork_chapter
from storyengine.exchange.importing import import_chapter

pytestmark = pytest.mark.django_db
OWN = OwnSettings(
    model="mine-14b", temperature=0.25, top_p=0.5, output_tokens=321, stop=("\n\n", "END")
)


@pytest.fixture(autouse=True)
def _hosted(settings: Settings) -> None:
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = "openai", "plain-7b", {}
    settings.OPENAI_BASE_URL = "http://127.0.0.1:9/v1"
    settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS = Decimal(0), 0


@pytest.fixture
def chapter() -> Session:
    return save_models(make_active_chapter().pk, {"AGENT_1": OWN})


def own(chapter: Session) -> OwnSettings:
    [agent] = [one for one in agents_in(chapter) if one.agent_id == 1]
    return agent.own


class TestCalls:
    def test_a_reply_is_asked_for_as_the_chapter_says_and_the_record_says_so(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        play(chapter, slot=1)
        asked = provider.history[-1]
        assert (asked.model, asked.temperature, asked.top_p) == ("mine-14b", 0.25, 0.5)
        assert asked.max_output_tokens == 321
        assert asked.extra_body["stop"] == ["\n\n", "END"]
        record = chapter.llm_artifacts.get()
        assert record.model == "mine-14b"
        assert record.sent_options == {
            "temperature": 0.25,
            "top_p": 0.5,
            "max_output_tokens": 321,
            "stop": ["\n\n", "END"],
        }

    def test_a_change_counts_from_the_next_attempt(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        play(chapter, slot=1)
        save_models(chapter.pk, {"AGENT_1": OwnSettings(model="other-8b")})
        reroll(chapter)
        assert [one.model for one in provider.history] == ["mine-14b", "other-8b"]
        save_models(chapter.pk, {"AGENT_1": NOTHING_SET})
        reroll(chapter)
        assert provider.history[-1].model == "plain-7b"
        assert Session.objects.get(pk=chapter.pk).model_settings == {}

    def test_the_lock_the_memory_and_the_narrator_follow_too(
        self, provider: ScriptedProvider, run_jobs: Callable[[], int]
    ) -> None:
        chapter = make_chapter(chunk_size_prompts=3)
        models = {f"AGENT_{number}": OwnSettings(model=f"m{number}") for number in (0, 8, 9)}
        save_models(chapter.pk, models)
        request_lock(chapter.pk)
        run_jobs()
        for _ in range(3):
            play(chapter, slot=1)
        run_jobs()
        chapter.refresh_from_db()
        Session.objects.filter(pk=chapter.pk).update(state="ENDED")
        request_build(chapter.pk)
        run_jobs()
        used = set(chapter.llm_artifacts.values_list("agent", "model"))
        assert used == {
            ("world_lock", "m0"),
            ("character", "plain-7b"),
            ("memory", "m8"),
            ("narrator", "m9"),
        }

    def test_a_model_of_another_server_does_not_count(self, chapter: Session) -> None:
        add_server("Ollama", "http://127.0.0.1:11434/v1")
        choose_models({"AGENT_1": ("ollama", "small")})
        [agent] = [one for one in agents_in(chapter) if one.agent_id == 1]
        assert (choice_of(agent).model, choice_of(agent).source) == ("small", "agent")
        choose_models({"AGENT_1": None})
        assert (choice_of(agent).model, choice_of(agent).source) == ("mine-14b", "chapter")

    def test_a_model_without_a_price_passes_no_cap_in_dollars(
        self, chapter: Session, settings: Settings
    ) -> None:
        settings.OPENAI_BASE_URL, settings.MODEL = "https://api.openai.com/v1", "gpt-5.2"
        settings.CHAPTER_BUDGET = Decimal(1)
        grant("api.openai.com")
        check_allowed(chapter.pk, in_chapter(NARRATOR, chapter))
        chapter = save_models(chapter.pk, {"AGENT_9": OwnSettings(model="nobody-knows")})
        with pytest.raises(PriceUnknown, match="nobody-knows"):
            check_allowed(chapter.pk, in_chapter(NARRATOR, chapter))


class TestLimits:
    @pytest.mark.parametrize(
        "wrong",
        [
            OwnSettings(temperature=2.1),
            OwnSettings(temperature=-0.1),
            OwnSettings(temperature=float("nan")),
            OwnSettings(top_p=0.0),
            OwnSettings(top_p=1.5),
            OwnSettings(output_tokens=49),
            # An unknown model writes at most 2,048 tokens.
            OwnSettings(output_tokens=2_049),
            OwnSettings(stop=("a", "b", "c", "d", "e")),
            OwnSettings(stop=("x" * 101,)),
            OwnSettings(stop=(" ",)),
            OwnSettings(stop=("\0",)),
            OwnSettings(stop=("\ud800",)),
            OwnSettings(model="x" * 201),
            OwnSettings(model="gpt-5.2", temperature=0.5),
            OwnSettings(model="gpt-5.2", top_p=0.5),
            OwnSettings(model="gpt-5.2", stop=("END",)),
            OwnSettings(model="gpt-5.2", output_tokens=128_001),
        ],
    )
    def test_what_the_model_does_not_take_is_refused_and_nothing_changes(
        self, chapter: Session, wrong: OwnSettings
    ) -> None:
        good = OwnSettings(temperature=1.0)
        with pytest.raises(InvalidInput, match=r"Nothing was (changed|saved)"):
            save_models(chapter.pk, {"AGENT_2": good, "AGENT_1": wrong})
        chapter.refresh_from_db()
        assert own(chapter).temperature == 0.25
        assert "AGENT_2" not in chapter.model_settings

    def test_a_window_that_the_server_reports_raises_and_lowers_the_limit(
        self, chapter: Session, settings: Settings
    ) -> None:
        settings.MAX_OUTPUT = 20_000
        store_reports(settings.OPENAI_BASE_URL, {"plain-7b": WindowReport(131_072)})
        save_models(chapter.pk, {"AGENT_2": OwnSettings(output_tokens=20_000)})
        store_reports(settings.OPENAI_BASE_URL, {"mine-14b": WindowReport(4_096)})
        with pytest.raises(InvalidInput, match="50 to 2,048"):
            save_models(chapter.pk, {"AGENT_1": OwnSettings(model="mine-14b", output_tokens=2_049)})

    def test_what_was_set_for_another_model_is_not_sent(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        """The environment may name a model later that takes no temperature."""
        stored = {"AGENT_1": {"temperature": 0.3, "stop": ["END"], "max_output_tokens": 900_000}}
        Session.objects.filter(pk=chapter.pk).update(model_settings=stored)
        choose_models({"": ("environment", "gpt-5.2")})
        play(chapter, slot=1)
        asked = provider.history[-1]
        assert (asked.temperature, asked.extra_body) == (None, {})
        assert asked.max_output_tokens == 128_000


class TestOtherChapters:
    def test_forks_copies_resets_and_the_next_chapter_keep_them(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        play(chapter, slot=1)
        chapter.refresh_from_db()
        stored = chapter.model_settings
        assert fork_chapter(chapter.pk, 1).model_settings == stored
        assert copy_setup(chapter.pk).model_settings == stored
        assert begin_next_chapter(chapter.story_id).model_settings == stored
        assert reset_chapter(chapter.pk).model_settings == stored

    def test_no_file_has_them_and_no_file_brings_them_in(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        add_lock(chapter, world_lock())
        play(chapter, slot=1)
        file = export_chapter(chapter.pk).model_dump(mode="json")
        assert "mine-14b" not in json.dumps(file)
        assert import_chapter(json.dumps(file).encode()).model_settings == {}
        file["chapter"]["model_settings"] = chapter.model_settings
        with pytest.raises(BadChapterFile, match="no key of this format"):
            import_chapter(json.dumps(file).encode())
