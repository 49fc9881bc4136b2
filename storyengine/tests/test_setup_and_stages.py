"""Tests of the setup, the stages and the memory of a mode."""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from pydantic import BaseModel, ConfigDict, Field
from pytest_django import Settings

from agents.flows.telling.ending import find_setback
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.modes.declaration import Memory, Mode, Setup, Stage
from agents.modes.fields import setup_of
from agents.modes.world_rules import NO_WORLD
from agents.running.jobs import due_jobs
from agents.running.work import work_on
from agents.tests.replies import answer_in_form
from agents.tests.second_mode import VOYAGER, install
from memory.blocks.blocks import counting_blocks, counting_deltas, knows
from memory.blocks.stretches import StretchRule
from sessions.chapter.access import get_chapter
from sessions.exceptions import InvalidInput
from sessions.models import Attempt, Session
from sessions.play.attempts import Writer
from sessions.play.played_world import NewChange, add_changes
from sessions.tests.factories import act, add_prompts, make_active_chapter
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.file_errors import BadChapterFile
from storyengine.exchange.importing import import_chapter
from testing.refusals import NOTHING_CHANGED

pytestmark = pytest.mark.django_db

JSON = "application/json"


class Berth(BaseModel):
    model_config = ConfigDict(extra="forbid")
    depth: int = Field(3, ge=1, le=9)
    name: str = "North"


class Harbour(BaseModel):
    model_config = ConfigDict(extra="forbid")
    season: str = "spring"
    berths: list[Berth] = []


SET_UP = replace(VOYAGER, setup=Setup(fields=Harbour))
LOCKED = replace(SET_UP, stages=frozenset(Stage))
AUTUMN = {"season": "autumn", "berths": [{"depth": 4, "name": "North"}]}

Install = Callable[[Mode], None]


@pytest.fixture
def with_mode(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Install]:
    yield lambda mode: install(monkeypatch, settings, voyager=mode)
    monkeypatch.undo()
    install(monkeypatch, settings)


def call(client: Client, verb: str, address: str, body: Any = None) -> Any:
    send = getattr(client, verb)
    if verb == "get":
        return send(f"/api/session{address}")
    return send(f"/api/session{address}", json.dumps(body or {}), content_type=JSON)


def begin(client: Client) -> str:
    return str(call(client, "post", "", {"mode": "voyager"}).json()["session_id"])


def play(client: Client, provider: ScriptedProvider, key: str, words: str = "I look.") -> None:
    provider.enqueue("Masts, and gulls.")
    sent = {"agent_slot": None, "user_text": words}
    answer = call(client, "post", f"/{key}/prompt", sent)
    assert answer.status_code == 201, answer.json()


def file_of(key: str | UUID) -> dict[str, Any]:
    return dict(json.loads(export_chapter(UUID(str(key))).to_json()))


def page(client: Client, name: str, key: str) -> str:
    return client.get(reverse(f"pages:{name}", args=[key])).content.decode()


class TestSetup:
    def test_it_has_defaults_and_is_saved_whole(self, client: Client, with_mode: Install) -> None:
        with_mode(SET_UP)
        key = begin(client)
        assert call(client, "get", f"/{key}/setup").json() == {"season": "spring", "berths": []}
        answer = call(
            client, "put", f"/{key}/setup", {"season": "autumn", "berths": [{"depth": 4}]}
        )
        assert (answer.status_code, answer.json()) == (200, AUTUMN)
        assert call(client, "get", f"/{key}/setup").json() == AUTUMN
        assert setup_of(get_chapter(UUID(key))) == Harbour.model_validate(AUTUMN)
        # The request leaves out the season, so the season has its default again.
        answer = call(client, "put", f"/{key}/setup", {"berths": []})
        assert answer.json() == {"season": "spring", "berths": []}

    @pytest.mark.parametrize(
        ("body", "loc"),
        [
            ({"berths": [{"depth": 4}, {"depth": 12}]}, ["body", "berths", 1, "depth"]),
            ({"tide": "high"}, ["body", "tide"]),
            ({"season": "a\0b"}, ["body"]),
        ],
    )
    def test_a_bad_one_is_refused_with_its_place_and_changes_nothing(
        self, client: Client, with_mode: Install, body: Any, loc: list[Any]
    ) -> None:
        with_mode(SET_UP)
        key = begin(client)
        call(client, "put", f"/{key}/setup", AUTUMN)
        answer = call(client, "put", f"/{key}/setup", body)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["loc"] == loc
        assert NOTHING_CHANGED in answer.json()["detail"]
        assert call(client, "get", f"/{key}/setup").json() == AUTUMN

    def test_a_mode_without_one_takes_none(self, client: Client) -> None:
        key = str(call(client, "post", "").json()["session_id"])
        assert call(client, "get", f"/{key}/setup").json() == {}
        assert call(client, "put", f"/{key}/setup", {}).json() == {}
        answer = call(client, "put", f"/{key}/setup", {"season": "autumn"})
        assert answer.status_code == 422
        assert "Lead the game adds nothing to Tab 1" in answer.json()["detail"]

    def test_the_lock_freezes_it(self, client: Client, with_mode: Install) -> None:
        with_mode(LOCKED)
        key = begin(client)
        call(client, "put", f"/{key}/setup", AUTUMN)
        Session.objects.filter(pk=key).update(state="ACTIVE", tab1_locked=True)
        assert call(client, "put", f"/{key}/setup", {}).status_code == 409
        assert call(client, "get", f"/{key}/setup").json() == AUTUMN

    def test_it_goes_into_copies_forks_and_files(
        self, client: Client, provider: ScriptedProvider, with_mode: Install
    ) -> None:
        with_mode(SET_UP)
        key = begin(client)
        call(client, "put", f"/{key}/setup", AUTUMN)
        copy = call(client, "post", f"/{key}/copy").json()["session_id"]
        play(client, provider, key)
        fork = call(client, "post", f"/{key}/fork", {"number": 1}).json()["session_id"]
        content = file_of(key)
        assert content["chapter"]["mode_content"] == {"setup": AUTUMN}
        read_back = import_chapter(json.dumps(content).encode()).pk
        for other in (copy, fork, read_back):
            assert call(client, "get", f"/{other}/setup").json() == AUTUMN
        assert file_of(read_back)["chapter"] == content["chapter"]
        # A reset deletes the texts and the setup of Tab 1.
        fresh = call(client, "post", f"/{key}/reset").json()["session_id"]
        assert call(client, "get", f"/{fresh}/setup").json() == {"season": "spring", "berths": []}

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            ({"setup": {"season": 7}}, "chapter.mode_content.setup.season is not as voyager has"),
            ({"setup": {"SECRET": 7}}, "chapter.mode_content.setup is not as voyager has it"),
            ({"SECRET": {}}, "chapter.mode_content may hold nothing but setup"),
        ],
    )
    def test_a_file_with_a_bad_one_is_refused_without_its_words(
        self, client: Client, with_mode: Install, content: Any, problem: str
    ) -> None:
        with_mode(SET_UP)
        changed = file_of(begin(client))
        changed["chapter"]["mode_content"] = content
        with pytest.raises(BadChapterFile, match=problem) as refusal:
            import_chapter(json.dumps(changed).encode())
        assert "SECRET" not in str(refusal.value)
        assert Session.everything.count() == 1

    def test_a_file_without_one_has_the_defaults(self, client: Client, with_mode: Install) -> None:
        with_mode(SET_UP)
        read_back = import_chapter(json.dumps(file_of(begin(client))).encode())
        assert setup_of(read_back) == Harbour()


class TestStages:
    def test_without_a_lock_tab_1_is_open_until_the_first_prompt(
        self, client: Client, provider: ScriptedProvider, with_mode: Install
    ) -> None:
        with_mode(SET_UP)
        key = begin(client)
        world = page(client, "world", key)
        assert "After the first prompt, this page can be read" in world
        assert "lock-dialog" not in world
        save = reverse("pages:save-world", args=[key])
        headers = {"HX-Request": "true"}
        assert client.post(save, {"world_text": "A harbour."}, headers=headers).status_code == 204
        body = {"chapter_text": "Dawn."}
        assert call(client, "put", f"/{key}/tab1", body).json()["world_text"] == "A harbour."
        play(client, provider, key)
        assert "A harbour." in provider.history[0].messages[0].content
        for name in ("tab1", "setup"):
            answer = call(client, "put", f"/{key}/{name}", {})
            assert answer.status_code == 409
            assert "Tab 1 takes no changes after the first prompt" in answer.json()["detail"]
        assert client.post(save, {"world_text": "No."}, headers=headers).status_code == 423
        assert "The first prompt freezes" not in page(client, "world", key)
        assert get_chapter(UUID(key)).tab1.world_text == "A harbour."

    def test_a_first_prompt_that_fails_freezes_too(
        self, client: Client, provider: ScriptedProvider, with_mode: Install
    ) -> None:
        with_mode(SET_UP)
        key = begin(client)
        provider.enqueue(RuntimeError("no"))
        sent = {"agent_slot": None, "user_text": "I look."}
        assert call(client, "post", f"/{key}/prompt", sent).status_code == 502
        assert call(client, "put", f"/{key}/setup", AUTUMN).status_code == 409

    def test_without_narration_the_end_says_that_there_is_no_prose(
        self, client: Client, provider: ScriptedProvider, with_mode: Install
    ) -> None:
        with_mode(replace(VOYAGER, stages=frozenset({Stage.SET_UP, Stage.PLAY})))
        key = begin(client)
        play(client, provider, key)
        question = page(client, "confirm-end", key)
        assert "Play ends. No prose is made of it." in question
        assert "summarised" not in question
        assert call(client, "post", f"/{key}/end").json()["state"] == "ENDED"
        assert "This chapter is ended. No prose is made of it." in page(client, "play", key)
        answer = call(client, "post", f"/{key}/build-narrative")
        assert answer.status_code == 409
        assert 'played as "Voyager" has no narration' in answer.json()["detail"]
        # This mode has no Tab 3. Therefore an ended chapter opens on Tab 2.
        opened = client.get(reverse("pages:chapter", args=[key]))
        assert opened["Location"] == reverse("pages:play", args=[key])

    def test_without_memory_no_calls_for_it_are_asked_for(
        self, client: Client, with_mode: Install
    ) -> None:
        with_mode(replace(VOYAGER, stages=frozenset({Stage.SET_UP, Stage.PLAY})))
        chapter = make_active_chapter(mode="voyager", chunk_size_prompts=3)
        add_prompts(chapter, 12)
        key = str(chapter.pk)
        assert call(client, "get", f"/{key}").json()["calls_to_accept"] == 0
        assert 'data-opens="end-dialog"' in page(client, "play", key)
        question = page(client, "confirm-end", key)
        assert "Play ends. No prose is made of it." in question
        assert "accept" not in question
        # The mode may have had memory earlier, and the user may have accepted calls for this
        # memory. The page does not mention such calls.
        Session.objects.update(accepted_calls=2)
        assert "catching up" not in page(client, "play", key)
        Session.objects.update(accepted_calls=0)
        answer = call(client, "post", f"/{key}/end", {"accept_calls": True})
        assert answer.json()["state"] == "ENDED"
        assert Session.objects.get(pk=chapter.pk).accepted_calls == 0
        assert not chapter.jobs.exists()


class TestRefusedPrompts:
    """Tests of a mode that refuses each prompt but the first one."""

    @pytest.fixture(autouse=True)
    def _refusing(self, with_mode: Install) -> None:
        def answers(chapter: Session, actor: int | None) -> Writer:
            if chapter.prompt_index:
                raise InvalidInput("All is told. Nothing was sent.")
            return VOYAGER.play.answers(chapter, actor)

        with_mode(replace(VOYAGER, play=replace(VOYAGER.play, answers=answers)))

    @pytest.mark.django_db(transaction=True)
    def test_nothing_is_read_ahead_for_one_and_no_log_says_so(
        self, client: Client, provider: ScriptedProvider, caplog: pytest.LogCaptureFixture
    ) -> None:
        play(client, provider, begin(client))
        assert [one.getMessage() for one in caplog.records if one.levelno > logging.INFO] == []

    def test_the_one_that_was_answered_can_be_sent_again(
        self, client: Client, provider: ScriptedProvider
    ) -> None:
        key = begin(client)
        provider.enqueue("Masts, and gulls.")
        sent = json.dumps({"agent_slot": None, "user_text": "I look."})

        def send(name: str) -> Any:
            headers = {"Idempotency-Key": name}
            path = f"/api/session/{key}/prompt"
            return client.post(path, sent, content_type=JSON, headers=headers)

        first, again, other = send("k"), send("k"), send("other")
        assert (first.status_code, again.status_code, other.status_code) == (201, 201, 422)
        assert again.json() == first.json()


class TestMemory:
    """Tests of a mode in which a stretch of memory ends with a scene, at every third turn."""

    @pytest.fixture
    def told(self, provider: ScriptedProvider) -> list[str]:
        """Return a list that gets the text of each request for a delta."""
        sent: list[str] = []

        def answer(request: ModelRequest) -> str:
            words = " ".join(message.content for message in request.messages)
            if "turn_delta" in request.messages[0].content:
                sent.append(words)
            return answer_in_form(request)

        provider.fallback = answer
        return sent

    def play(self, client: Client, provider: ScriptedProvider, key: str, *, until: int) -> None:
        chapter = get_chapter(UUID(key))
        for number in range(chapter.prompt_index + 1, until + 1):
            play(client, provider, key, f"Beat {number}.")
            work_on_all()

    def test_a_stretch_ends_with_a_scene_and_is_the_narrator_s(
        self,
        client: Client,
        provider: ScriptedProvider,
        told: list[str],
        with_mode: Install,
    ) -> None:
        rule = StretchRule(ended_by=frozenset({"scene_over"}), for_characters=False)
        with_mode(in_scenes(rule, after_commit=end_third))
        key = begin(client)
        self.play(client, provider, key, until=11)
        chapter = get_chapter(UUID(key))
        stretches = [
            (one.from_prompt_index, one.to_prompt_index, one.audience)
            for one in counting_deltas(chapter)
        ]
        assert stretches == [(1, 3, []), (4, 6, []), (7, 9, [])]
        assert chapter.last_summarized_prompt_index == 9
        assert len(told) == 3
        assert "Beat 4." in told[1]
        assert "Beat 3." not in told[1]
        # Only the narrator and the user read the memory of this mode. No character is told any of
        # it.
        assert chapter.differs_by_reader
        for slot in chapter.selected_agent_slots:
            assert not any(knows(one.audience, [slot]) for one in counting_blocks(chapter))
        assert counting_blocks(chapter).count() == 3
        # An export of the copy gives the same file as an export of the original. Play goes on in
        # the copy.
        copy = import_chapter(json.dumps(file_of(key)).encode())
        assert file_of(copy.pk)["chapter"] == file_of(key)["chapter"]
        self.play(client, provider, str(copy.pk), until=12)
        copy.refresh_from_db()
        assert copy.last_summarized_prompt_index == 12
        fork = call(client, "post", f"/{key}/fork", {"number": 5}).json()["session_id"]
        assert get_chapter(UUID(fork)).last_summarized_prompt_index == 3
        self.play(client, provider, fork, until=6)
        assert get_chapter(UUID(fork)).last_summarized_prompt_index == 6

    def test_memory_follows_the_choice_of_where_a_scene_ends(
        self,
        client: Client,
        provider: ScriptedProvider,
        told: list[str],
        with_mode: Install,
    ) -> None:
        rule = StretchRule(ended_by=frozenset({"scene_over"}))
        with_mode(in_scenes(rule, after_commit=end_third))
        key = begin(client)
        self.play(client, provider, key, until=3)
        assert get_chapter(UUID(key)).last_summarized_prompt_index == 3
        first = call(client, "get", f"/{key}/turns/3").json()["attempts"][0]["attempt_id"]
        # The re-rolled attempt at turn 3 does not end the scene.
        provider.enqueue("The fog goes on.")
        assert call(client, "post", f"/{key}/reroll").status_code == 201
        work_on_all()
        assert get_chapter(UUID(key)).last_summarized_prompt_index == 0
        answer = call(client, "post", f"/{key}/turns/3/choose", {"attempt_id": first})
        assert answer.status_code == 200
        assert get_chapter(UUID(key)).last_summarized_prompt_index == 3
        other = call(client, "get", f"/{key}/turns/3").json()["attempts"][1]["attempt_id"]
        call(client, "post", f"/{key}/turns/3/choose", {"attempt_id": other})
        self.play(client, provider, key, until=6)
        chapter = get_chapter(UUID(key))
        stretches = [
            (one.from_prompt_index, one.to_prompt_index) for one in counting_deltas(chapter)
        ]
        assert stretches == [(1, 6)]

    def test_an_act_ends_a_stretch(
        self,
        client: Client,
        provider: ScriptedProvider,
        told: list[str],
        with_mode: Install,
    ) -> None:
        rule = StretchRule(ended_by=frozenset({"scene_over"}))
        with_mode(in_scenes(rule))
        key = begin(client)
        self.play(client, provider, key, until=1)
        page = reverse("pages:draft", args=[key])
        assert "is written after prompt 7 at the latest." in client.get(page).content.decode()
        self.play(client, provider, key, until=2)
        act(UUID(key), [NewChange("scene_over", {})])
        assert "is written after prompt 3." in client.get(page).content.decode()
        assert not told
        # The scene has ended, and the next prompt asks for its summary.
        self.play(client, provider, key, until=3)
        chapter = get_chapter(UUID(key))
        assert chapter.last_summarized_prompt_index == 2
        assert "is written after prompt 9 at the latest." in client.get(page).content.decode()
        # A failed summary of a scene is not reported as a failure of ending the chapter.
        job = Job.objects.get(session=chapter)
        Job.objects.filter(pk=job.pk).update(status=Job.Status.FAILED, error="No such model.")
        job.refresh_from_db()
        setback = find_setback(chapter, {Job.Kind.SUMMARIZE: job})
        assert setback is not None
        assert not setback.is_of_end


def in_scenes(rule: StretchRule, after_commit: Callable[[Attempt], None] | None = None) -> Mode:
    """Make a mode whose stretches of memory end by this rule."""
    return replace(
        VOYAGER,
        play=replace(VOYAGER.play, after_commit=after_commit),
        world=replace(NO_WORLD, change_kinds=rule.ended_by),
        memory=Memory(stretches=rule),
    )


def end_third(attempt: Attempt) -> None:
    """End the scene at every third turn, if the attempt answers a prompt. A re-roll does not end
    the scene."""
    if attempt.turn and attempt.turn.number % 3 == 0 and attempt.kind == Attempt.Kind.PROMPT:
        add_changes(attempt, [NewChange("scene_over", {})], run_id=attempt.run_id)


def work_on_all() -> None:
    while job_id := due_jobs().values_list("pk", flat=True).first():
        work_on(job_id)


class TestThePageThatOffersTheModes:
    def test_one_mode_is_begun_at_once(self, client: Client, settings: Settings) -> None:
        settings.MODES = ["gamemaster"]
        library = client.get(reverse("pages:library")).content.decode()
        assert reverse("pages:modes") not in library
        client.post(reverse("pages:new"))
        assert Session.objects.get().mode == "gamemaster"
        assert reverse("pages:modes") not in client.get(reverse("pages:library")).content.decode()

    def test_of_several_one_is_chosen(self, client: Client, with_mode: Install) -> None:
        with_mode(VOYAGER)
        for _ in range(2):
            library = client.get(reverse("pages:library")).content.decode()
            assert reverse("pages:modes") in library
            assert f'action="{reverse("pages:new")}"' not in library
            begin(client)
        offered = client.get(reverse("pages:modes")).content.decode()
        for text in ("Lead the game", "You tell a character what happens", VOYAGER.sentence):
            assert text in offered
        answer = client.post(reverse("pages:new"), {"mode": "voyager"})
        chapter = Session.objects.order_by("-created_at")[0]
        assert (chapter.mode, chapter.state) == ("voyager", "ACTIVE")
        assert answer["Location"] == reverse("pages:world", args=[chapter.pk])
        with_mode(replace(VOYAGER, stages=frozenset({Stage.PLAY})))
        answer = client.post(reverse("pages:new"), {"mode": "voyager"})
        assert answer["Location"].endswith("/play")

    def test_one_that_is_not_there_is_refused(self, client: Client) -> None:
        answer = client.post(reverse("pages:new"), {"mode": "sailor"})
        assert answer.status_code == 422
        assert "is no way to play that is installed here" in answer.content.decode()
        assert not Session.objects.exists()
