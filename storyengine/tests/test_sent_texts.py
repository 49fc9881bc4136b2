"""Tests that each request has only those texts of the user that the agent's layers declare, and
that the page of consent and README speak of them all.

A chapter is played in which each text of the user has a mark. The requests are those of the chapter
that follows it in the story.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from django.conf import settings as configured
from django.test import Client
from pytest_django import Settings

from agents.calling.records.stored_prompts import read_messages
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.modes.declaration import Mode
from agents.modes.registry import all_modes, begin_chapter, find_agent, find_mode
from agents.tests.replies import answer_in_form
from explorer.tests.playing import calls, move, wait
from explorer.tests.test_notes import noted
from sessions.models import Session, State
from storyengine.api.tests.calling import RunJobs, address, call
from storyengine.tabs.tests.reading import all_of, by_id

pytestmark = pytest.mark.django_db(transaction=True)

# The marks of the user's texts, each with words of the phrases that may announce the text.
PLAYED = "latest prompts, very last turns, prompts to summarise, transcript"
BOTH = {
    "MARK-REPLY": PLAYED,
    "MARK-MEMORY": "the memory",
    "MARK-OLD-TITLE": "earlier passages",
    "MARK-OLD-MEMORY": "the memory",
    "MARK-OLD-REPLY": "earlier passages",
    "MARK-INSTRUCTIONS": "the instructions",
    "MARK-PROSE": "scene before, scene after",
}
TEXTS: Mapping[str, Mapping[str, str]] = {
    "gamemaster": BOTH
    | {
        "MARK-PROMPT": f"your prompt, {PLAYED}",
        "MARK-TITLE": "the title",
        "MARK-WORLD": "the world",
        "MARK-CHAPTER": "the chapter",
        "MARK-OLD-CHAPTER": "",
        "MARK-NAME": f"“Name”, the characters, {PLAYED}",
        "MARK-PRONOUNS": "“Pronouns”",
        "MARK-PUBLIC": "“What everybody may know”",
        "MARK-IDENTITY": "“Identity”",
    },
    "explorer": BOTH
    | {
        "MARK-PROMPT": f"your words, {PLAYED}",
        "MARK-TITLE": "the title, the memory",
        "MARK-DESCRIPTION": "the world, the memory",
        "MARK-ABOUT": "the world",
        "MARK-TIME": "time, the memory, out of your sight",
        "MARK-HERE": "the place where, locations, out of your sight, the memory",
        "MARK-PLACE": "other locations, locations, out of your sight, the memory",
        "MARK-THERE": "out of your sight, locations, the place where, the memory",
        "MARK-PERSON": "the people there, “What everybody may know”, out of your sight, last saw",
        "MARK-GOALS": "the people there, out of your sight",
        "MARK-SECRET": "the people there, out of your sight",
        "MARK-HIDDEN": "hidden people, the people there, out of your sight",
        "MARK-THING": "things, out of your sight",
        "MARK-SELF": "who you are, “What everybody may know”",
        "MARK-STYLE": "how it is told",
        "MARK-NOTE": "author's note",
        "MARK-TALK": "examples of talk",
        "MARK-LORE": "lore",
        "MARK-DEEDS": "",
        "MARK-RULE": "",
        "house nobody knows": "the place to which you go",
    },
}
# The layers with texts that only a model can have written.
OF_MODELS = {"what you heard of", "recent events", "conversation"}
HERON = "Who has seen the heron?"


@pytest.fixture
def answers(settings: Settings, provider: ScriptedProvider) -> dict[str, str]:
    """Let the scripted model put words into its answers. Return these replacements."""
    settings.LLM = "scripted"
    words: dict[str, str] = {}

    def answer(request: ModelRequest) -> str:
        text = answer_in_form(request)
        for before, after in words.items():
            text = text.replace(before, after)
        return text

    provider.fallback = answer
    return words


def ok(method: str, path: str, body: Any = None) -> Any:
    answer = call(method, path, body)
    assert answer.status_code < 300, answer.content
    return answer.json() if answer.content else None


def begin(mode: str, tab1: dict[str, Any], run_jobs: RunJobs) -> Session:
    made = ok("POST", "/api/session", {"mode": mode, "title": "MARK-OLD-TITLE"})
    return start(Session.objects.get(pk=made["session_id"]), tab1, run_jobs)


def start(chapter: Session, tab1: dict[str, Any], run_jobs: RunJobs) -> Session:
    ok("PUT", address(chapter, "tab1"), {"chunk_size_prompts": 3, **tab1})
    ok("POST", address(chapter, "lock"))
    run_jobs()
    return chapter


def follow(chapter: Session, tab1: dict[str, Any], run_jobs: RunJobs) -> Session:
    made = ok("POST", f"/api/story/{chapter.story_id}/chapter")
    following = Session.objects.get(pk=made["session_id"])
    ok("PATCH", address(following), {"title": "MARK-TITLE"})
    return start(following, tab1, run_jobs)


def play(chapter: Session, words: str, slot: int | None, run_jobs: RunJobs) -> None:
    ok("POST", address(chapter, "prompt"), {"agent_slot": slot, "user_text": words})
    run_jobs()


def tell(chapter: Session, run_jobs: RunJobs) -> None:
    instructions = {"narrative_agent_definition_text": "MARK-INSTRUCTIONS", "target_words": 5000}
    ok("PUT", address(chapter, "narrative-agent"), instructions)
    for action in ("end", "build-narrative"):
        ok("POST", address(chapter, action))
        run_jobs()
    assert Session.objects.get(pk=chapter.pk).state == State.ENDED
    assert chapter.narrative_drafts.exists()


def check(mode_name: str, chapter: Session) -> None:
    mode, texts = find_mode(mode_name), TEXTS[mode_name]
    assert mode is not None
    declared, arrived = dict(mode.sent), dict[str, set[str]]()
    for artifact in chapter.llm_artifacts.all():
        agent = find_agent(artifact.agent, artifact.agent_id)
        assert agent is not None
        sent = "".join(message.content for message in read_messages(artifact))
        marks = arrived.setdefault(agent.occasion, set())
        marks |= {mark for mark in texts if mark in sent}
    assert arrived.keys() == declared.keys()
    problems = []
    for occasion, phrases in declared.items():
        words = {mark: texts[mark].split(", ") for mark in arrived[occasion]}
        announced = {
            mark: [one for one in phrases if any(some and some in one for some in words[mark])]
            for mark in words
        }
        missing = [mark for mark, told in announced.items() if not told]
        idle = set(phrases).difference(*announced.values()) - OF_MODELS
        problems += [(occasion, text) for text in (*missing, *idle)]
    # A mark that is sent and not announced, or a phrase that announces what is not sent.
    assert not problems


def test_in_a_chapter_that_the_game_master_leads(
    answers: dict[str, str], run_jobs: RunJobs
) -> None:
    answers |= {
        "CANON-": "MARK-OLD-MEMORY CANON-",
        "I answer": "MARK-OLD-REPLY: the heron carries a key. I answer",
    }
    cast = {
        "world_text": "MARK-WORLD",
        "chapter_text": "MARK-OLD-CHAPTER",
        "agent_names": {"1": "MARK-NAME"},
        "agent_pronouns": {"1": "MARK-PRONOUNS"},
        "agent_public_text": {"1": "MARK-PUBLIC"},
        "agent_identity_text_by_slot": {"1": "MARK-IDENTITY"},
    }
    before = begin("gamemaster", cast, run_jobs)
    for _ in range(4):
        play(before, HERON, 1, run_jobs)
    answers |= {"CANON-": "MARK-MEMORY CANON-", "I answer": "MARK-REPLY: I answer"}
    answers["The lamp was dark"] = "MARK-PROSE. The lamp was dark"
    chapter = follow(before, {"chapter_text": "MARK-CHAPTER"}, run_jobs)
    for _ in range(4):
        play(chapter, f"MARK-PROMPT. {HERON}", 1, run_jobs)
    tell(chapter, run_jobs)
    check("gamemaster", chapter)


WORLD = {
    "title": "MARK-TITLE",
    "description": "MARK-DESCRIPTION",
    "about": "MARK-ABOUT",
    "narrative_time": "MARK-TIME",
    "starting_place": "The Inn",
    "places": [
        {"name": "The Inn", "description": "MARK-HERE"},
        {"name": "MARK-PLACE"},
        {"name": "The Mill", "description": "MARK-THERE"},
    ],
    "people": [
        {
            "name": "Osk",
            "description": "MARK-PERSON",
            "goals": "MARK-GOALS",
            "location": "The Mill",
            "knowledge": [{"content": "MARK-SECRET"}],
        },
        {"name": "Ib", "location": "The Mill"},
        {
            "name": "Runa",
            "description": "MARK-HIDDEN",
            "is_discovered": False,
            "encounter_chance": 1,
        },
    ],
    "persona": {"name": "Edda", "description": "MARK-SELF", "seen_as": "MARK-SELF"},
    "style": "MARK-STYLE",
    "deeds": ["MARK-DEEDS"],
    "note": {"text": "MARK-NOTE", "depth": 1},
    "talk": [{"name": "", "text": "MARK-TALK"}],
    "lorebook": {"entries": [{"name": "Salt", "content": "MARK-LORE", "constant": True}]},
    "output_rules": [{"pattern": "MARK-RULE", "replacement": "x"}],
}


def test_in_an_exploration(
    answers: dict[str, str], provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    answers |= {
        "CANON-": "MARK-OLD-MEMORY CANON-",
        "I answer": "MARK-OLD-REPLY: the heron carries a key. I answer",
    }
    before = begin("explorer", {"setup": WORLD}, run_jobs)
    for _ in range(4):
        play(before, HERON, None, run_jobs)
    answers |= {"CANON-": "MARK-MEMORY CANON-", "I answer": "MARK-REPLY: I answer"}
    answers["The lamp was dark"] = "MARK-PROSE. The lamp was dark"
    chapter = follow(before, {"setup": {"about": "MARK-ABOUT"}}, run_jobs)
    thing = noted(what="MARK-THING", place="here")
    provider.enqueue(calls("", thing), "You wait.")
    play(chapter, f"MARK-PROMPT. {HERON}", None, run_jobs)
    provider.enqueue(calls("", move("The Mill")), "You are there.")
    play(chapter, f"MARK-PROMPT. {HERON}", None, run_jobs)
    provider.enqueue(calls("", wait("Late", 12), move("A house nobody knows")))
    for _ in range(2):
        play(chapter, f"MARK-PROMPT. {HERON}", None, run_jobs)
    tell(chapter, run_jobs)
    check("explorer", chapter)


@pytest.mark.parametrize("mode", all_modes(), ids=lambda mode: mode.name)
def test_pages_and_readme_announce_them(
    mode: Mode, client: Client, provider: ScriptedProvider
) -> None:
    assert mode.name in TEXTS, "A way to play needs marks and a chapter in this module."
    provider.host = "models.example.com"
    chapter = begin_chapter(mode=mode.name)
    html = client.get(f"/chapters/{chapter.pk}/world").content.decode()
    lock_question = by_id(html, "lock-dialog").words
    consent = next(
        one.words for one in all_of(client.get("/consent/").content.decode(), "section", "cell")
    )
    readme = (configured.BASE_DIR / "README.md").read_text(encoding="utf-8")
    occasion, phrases = mode.sent[0]
    assert [text for text in (occasion, *phrases) if text not in lock_question] == []
    announced = [text for occasion, phrases in mode.sent for text in (occasion, *phrases)]
    for page in (consent, " ".join(readme.split())):
        assert [text for text in announced if text not in page] == []
