"""Tests of the page on which servers and models are chosen."""

import re
from decimal import Decimal
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from agents.calling.offered_models import Found
from agents.calling.servers.addresses import Preset
from agents.calling.servers.changing import choose_models
from agents.calling.servers.refused_fields import note_refused_fields
from agents.llm.providers.model_lists import Listing
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import ModelChoice, ModelServer
from sessions.models import Session
from sessions.tests.factories import make_active_chapter
from testing.refusals import NOTHING_CHANGED

pytestmark = pytest.mark.django_db
MARKED = "sk-marked-key-of-the-test"


@pytest.fixture(autouse=True)
def _nothing_found(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> None:
    monkeypatch.setattr("storyengine.tabs.models.models_page.find_servers", list)
    settings.DATA_FOLDER = tmp_path
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = "openai", "", {}
    settings.OPENAI_BASE_URL = "https://user:hidden-password@api.openai.com/v1"
    settings.CELERY_BROKER_URL = "filesystem://localhost"


def test_a_server_is_added_and_chosen_without_scripts(client: Client) -> None:
    address = "http://127.0.0.1:11434/v1"
    client.post("/models/servers/add", {"title": "Ollama", "address": address})
    client.post("/models/choose", {"agent": "AGENT_9", "server": "ollama", "model": "small"})
    page = client.get("/models/").content.decode()
    assert "Chosen here." in page
    assert 'value="small"' in page
    client.post("/models/choose", {"agent": "AGENT_9", "back": "1"})
    assert not ModelChoice.objects.exists()
    client.post("/models/servers/remove", {"server": "ollama"})
    assert ModelServer.objects.get().is_removed


def test_a_server_that_was_added_is_offered_for_all_agents(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "storyengine.tabs.models.models_page.names_at", lambda _server: Listing(["the-only-model"])
    )
    sent = {"title": "LM Studio", "address": "http://127.0.0.1:1234/v1"}
    page = client.post("/models/servers/add", sent, follow=True).content.decode()
    assert "LM Studio is added." in page
    assert "It has 1 model." in page
    form = page[page.index('id="for-all"') : page.index('class="roles"')]
    assert '<option value="lm-studio" selected>' in form
    assert 'value="the-only-model"' in form
    far = {"title": "Far", "address": "https://far.example/v1"}
    page = client.post("/models/servers/add", far, follow=True).content.decode()
    assert "Nothing is sent there yet." in page
    assert '<option value="far" selected>' not in page


def test_the_choice_for_all_agents_is_tested_with_an_agent_that_goes_by_it(
    client: Client, provider: ScriptedProvider
) -> None:
    assert client.post("/models/test", {"agent": ""}).status_code == 422
    choose_models({"": ("environment", "for-all"), "AGENT_0": ("environment", "own")})
    provider.enqueue("Ready.")
    page = client.post("/models/test", {"agent": ""}).content.decode()
    assert provider.history[-1].model == "for-all"
    form = page[page.index('id="for-all"') : page.index('class="roles"')]
    assert "Works." in form
    assert page.count("Works.") == 1


def test_no_page_and_no_answer_shows_a_secret(client: Client) -> None:
    client.post("/models/servers/add", {"title": "Mine", "address": "https://models.example/v1"})
    client.post("/models/servers/key", {"server": "mine", "key": MARKED})
    pages = [client.get(path) for path in ("/models/", "/api/servers", "/api/models")]
    pages.append(client.get("/models/?list=mine"))
    for answer in pages:
        assert answer.status_code == 200
        assert MARKED not in answer.content.decode()
        assert "hidden-password" not in answer.content.decode()
    assert "was pasted here" in pages[0].content.decode()


def test_a_refused_key_is_not_shown_again(client: Client) -> None:
    address = "http://models.example/v1"
    client.post("/models/servers/add", {"title": "Mine", "address": address})
    answer = client.post("/models/servers/key", {"server": "mine", "key": MARKED})
    assert answer.status_code == 422
    assert "The key was not kept" in answer.content.decode()
    assert MARKED not in answer.content.decode()
    wrong = {"agent": "AGENT_9", "server": "mine", "model": "x" * 201}
    answer = client.post("/models/choose", wrong)
    assert answer.status_code == 422
    assert "x" * 201 in answer.content.decode()
    assert "AGENT_9" not in answer.content.decode()


def test_a_host_is_asked_nothing_before_it_is_allowed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "storyengine.tabs.models.models_page.names_at", lambda _server: pytest.fail("asked")
    )
    client.post("/models/servers/add", {"title": "Mine", "address": "https://models.example/v1"})
    assert "Not allowed yet" in client.get("/models/?list=mine").content.decode()
    assert "models.example" in client.get("/consent/?host=models.example").content.decode()


def test_this_machine_is_searched_for_servers_only_when_the_page_is_opened(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[str] = []

    def find() -> list[Found]:
        searches.append("searched")
        return [Found(Preset("ollama", "Ollama", "http://127.0.0.1:11434/v1"), ("small",))]

    monkeypatch.setattr("storyengine.tabs.models.models_page.find_servers", find)
    chapter = make_active_chapter()
    others = ("/", "/consent/", "/api/models", "/api/servers", f"/chapters/{chapter.pk}/models")
    assert {client.get(path).status_code for path in others} == {200}
    assert not searches
    assert "Ollama" in client.get("/models/").content.decode()
    assert len(searches) == 1


def test_a_test_says_its_result_in_words_and_escapes_the_models(
    client: Client, provider: ScriptedProvider
) -> None:
    provider.enqueue("<b>Ready</b>")
    page = client.post("/models/test", {"agent": "AGENT_9"}).content.decode()
    assert "Works." in page
    assert "&lt;b&gt;Ready" in page


class TestSpendingCap:
    def test_it_is_kept_and_taken_back(self, client: Client, settings: Settings) -> None:
        settings.CHAPTER_BUDGET = Decimal(5)
        assert "allows at most $5.00" in client.get("/models/").content.decode()
        client.post("/models/cap", {"dollars": "2.50", "tokens": "1000"})
        page = client.get("/models/").content.decode()
        assert 'value="2.50"' in page
        assert 'value="1000"' in page
        client.post("/models/cap", {"dollars": "", "tokens": ""})
        assert 'value="2.50"' not in client.get("/models/").content.decode()

    @pytest.mark.parametrize("dollars", ["5.01", "much", "nan", "-1", "0"])
    def test_a_wrong_one_is_refused(self, client: Client, settings: Settings, dollars: str) -> None:
        settings.CHAPTER_BUDGET = Decimal(5)
        answer = client.post("/models/cap", {"dollars": dollars})
        assert answer.status_code == 422
        assert NOTHING_CHANGED in answer.content.decode()


class TestPagesFollowTheChoice:
    """What only the embedded model needs is shown where an agent uses it, whatever the environment
    says."""

    @pytest.fixture
    def chapter(self) -> Session:
        return make_active_chapter()

    def test_another_server_was_chosen_for_all(
        self, client: Client, chapter: Session, settings: Settings
    ) -> None:
        settings.LLM = "embedded"
        play = f"/chapters/{chapter.pk}/play"
        assert "model-ready" in client.get(play).content.decode()
        assert "model-notice" in client.get(play).content.decode()
        client.post("/models/choose", {"agent": "", "server": "environment", "model": "m"})
        assert "model-ready" not in client.get(play).content.decode()
        assert "model-notice" not in client.get(play).content.decode()


class TestModelsOfAChapter:
    @pytest.fixture
    def address(self) -> str:
        return f"/chapters/{make_active_chapter().pk}/models"

    def test_a_role_is_set_and_taken_back_without_scripts(
        self, client: Client, address: str
    ) -> None:
        sent = {"agent": "AGENT_1", "model": "mine", "temperature": "0.25", "top_p": ""}
        sent |= {"max_output_tokens": "300", "stop": "END\r\n\\n\\n\r\n"}
        assert client.post(f"{address}/save", sent).status_code == 302
        stored = Session.objects.get().model_settings
        assert set(stored) == {"AGENT_1", "AGENT_2", "AGENT_3"}
        assert stored["AGENT_2"] == {
            "server": "environment",
            "model": "mine",
            "temperature": 0.25,
            "max_output_tokens": 300,
            "stop": ["END", "\n\n"],
        }
        page = client.get(address).content.decode()
        assert "Set for this chapter." in page
        assert "END\n\\n\\n</textarea>" in page
        client.post(f"{address}/save", {"agent": "AGENT_1", "back": "1"})
        assert Session.objects.get().model_settings == {}

    def test_one_character_can_be_set_on_its_own(self, client: Client, address: str) -> None:
        client.post(f"{address}/save", {"agent": "AGENT_2", "each": "1", "model": "m"})
        assert set(Session.objects.get().model_settings) == {"AGENT_2"}
        assert "2 Agent Orange" in client.get(address).content.decode()

    def test_one_thing_is_set_for_all_agents_and_nothing_else_changes(
        self, client: Client, address: str
    ) -> None:
        client.post(f"{address}/save", {"agent": "AGENT_9", "max_output_tokens": "300"})
        client.post(f"{address}/save", {"agent": "", "model": "mine", "temperature": "0.5"})
        stored = Session.objects.get().model_settings
        assert {"AGENT_0", "AGENT_1", "AGENT_3", "AGENT_8", "AGENT_9"} <= set(stored)
        assert all(one["model"] == "mine" and one["temperature"] == 0.5 for one in stored.values())
        assert stored["AGENT_9"]["max_output_tokens"] == 300
        client.post(f"{address}/save", {"agent": "", "temperature": "0.7"})
        assert Session.objects.get().model_settings["AGENT_8"]["model"] == "mine"
        client.post(f"{address}/save", {"agent": "", "back": "1"})
        assert Session.objects.get().model_settings == {}

    @pytest.mark.parametrize(
        "wrong",
        [
            {"temperature": "warm"},
            {"max_output_tokens": "99.5"},
        ],
    )
    def test_what_is_no_number_is_refused(
        self, client: Client, address: str, wrong: dict[str, str]
    ) -> None:
        sent = {"agent": "AGENT_9", "model": "m"} | wrong
        answer = client.post(f"{address}/save", sent)
        assert answer.status_code == 422
        assert NOTHING_CHANGED in answer.content.decode()
        assert Session.objects.get().model_settings == {}

    def test_a_field_that_the_server_refused_is_named_until_another_value_is_set(
        self, client: Client, address: str, settings: Settings
    ) -> None:
        settings.MODEL = "plain"
        note_refused_fields(settings.OPENAI_BASE_URL, "plain", {"temperature"})
        said = "The server has refused temperature, which is left out for a day"
        assert said in client.get(address).content.decode()
        answer = client.post(f"{address}/save", {"agent": "AGENT_9", "temperature": "0.4"})
        assert answer.status_code == 302
        assert said not in client.get(address).content.decode()


class TestTwoWindows:
    """A form of the pages of models overwrites nothing that its window has not seen."""

    @pytest.fixture
    def chapter(self) -> Session:
        return make_active_chapter()

    def marks(self, client: Client, address: str) -> list[str]:
        page = client.get(address).content.decode()
        return re.findall('name="seen" value="([^"]+)"', page)

    @pytest.mark.parametrize("agent", ["AGENT_9", ""])
    def test_a_choice_of_another_window_stays(self, client: Client, agent: str) -> None:
        marks = self.marks(client, "/models/")
        page = client.get("/models/").content.decode()
        agents = re.findall('name="agent" value="([^"]*)"><input type="hidden" name="seen"', page)
        sent = {"agent": agent, "server": "environment", "seen": marks[agents.index(agent)]}
        assert client.post("/models/choose", {**sent, "model": "mine"}).status_code == 302
        assert client.post("/models/choose", {**sent, "model": "other"}).status_code == 412
        assert client.post("/models/choose", {**sent, "back": "1"}).status_code == 412
        assert ModelChoice.objects.get(agent=agent).model == "mine"

    def test_what_another_window_has_set_for_a_chapter_stays(
        self, client: Client, chapter: Session
    ) -> None:
        address = f"/chapters/{chapter.pk}/models"
        sent = {"agent": "AGENT_1", "seen": self.marks(client, address)[1]}
        assert client.post(f"{address}/save", {**sent, "model": "mine"}).status_code == 302
        assert client.post(f"{address}/save", {**sent, "model": "mine"}).status_code == 302
        assert client.post(f"{address}/save", {**sent, "temperature": "0.5"}).status_code == 412
        chapter.refresh_from_db()
        assert chapter.model_settings["AGENT_1"]["model"] == "mine"
        sent["seen"] = self.marks(client, address)[1]
        assert client.post(f"{address}/save", {**sent, "back": "1"}).status_code == 302


def test_the_page_says_that_the_file_of_keys_cannot_be_used(client: Client, tmp_path: Path) -> None:
    client.post("/models/servers/add", {"title": "Mine", "address": "http://127.0.0.1:1/v1"})
    (tmp_path / "model-keys.json").touch(mode=0o600)
    page = client.get("/models/?list=mine")
    assert page.status_code == 200
    assert "model-keys.json in the data folder is damaged" in page.content.decode()
    assert "model-keys.json" in client.get("/api/servers").json()["keys_problem"]
    client.post("/models/servers/remove", {"server": "mine"})
    assert ModelServer.objects.get().is_removed
