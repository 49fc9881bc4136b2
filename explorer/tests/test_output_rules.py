"""Rules on what the narrator writes: what comes out is the story, and the original is kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agents.llm.providers.failures.call_errors import StreamBroken
from agents.llm.providers.scripted import Script, ScriptedProvider
from explorer.output_rules import OutputRule, apply_rules
from explorer.tests.playing import (
    TAVERN,
    begin,
    calls,
    events_of,
    move,
    play,
    scripted,
    world_of,
)
from sessions.models import Attempt, Event
from storyengine.api.tests.calling import address, call

__all__ = ["scripted"]

PATTERNS = ("", "a", "a*", "(a)(b)?", "^", "$", r"\b", "(?s).*", "[^a]", "é+", "(?i)B")
REPLACEMENTS = ("", "x", r"\0\0", r"\n", r"\\", "é" * 500, r"\0" * 250)


def rule(pattern: str, replacement: str = "") -> OutputRule:
    return OutputRule(pattern=pattern, replacement=replacement)


@pytest.mark.parametrize(
    ("rules", "came"),
    [
        ([("ferry", "boat")], "The boat, the boat."),
        ([(r"the (\w+)", r"a \1")], "The ferry, a ferry."),
        ([("(?i)the ", "")], "ferry, ferry."),
        ([("ferry", "boat"), ("boat", "raft")], "The raft, the raft."),
        ([(", ", r"\n")], "The ferry\nthe ferry."),
        ([(r"(x)?ferry", r"[\0|\1]")], "The [ferry|], the [ferry|]."),
        ([("ferry", "fähre — 渡し船")], "The fähre — 渡し船, the fähre — 渡し船."),
        ([("ferry", r"\\1")], r"The \1, the \1."),
        ([("", "x")], "The ferry, the ferry."),
        ([("(?s).*", "")], "The ferry, the ferry."),
    ],
)
def test_what_comes_out(rules: list[tuple[str, str]], came: str) -> None:
    assert apply_rules([rule(*one) for one in rules], "The ferry, the ferry.") == came


@given(
    st.lists(st.tuples(st.sampled_from(PATTERNS), st.sampled_from(REPLACEMENTS)), max_size=20),
    st.text("ab é\n\\", min_size=1, max_size=200).filter(str.strip),
)
def test_no_rules_leave_nothing_or_too_much(rules: list[tuple[str, str]], text: str) -> None:
    came = apply_rules([rule(*one) for one in rules], text)
    assert came.strip()
    assert len(came) <= max(20_000, len(text))


def test_hostile_rules_take_little_time() -> None:
    rules = [rule("(a+)+$"), rule("(a|a)*b"), rule("x[^y]*y|x", r"\0" * 250)] * 6
    assert apply_rules(rules, "a" * 19_999 + "x").endswith("x")


@pytest.mark.parametrize(
    ("pattern", "replacement", "where"),
    [
        ("(a", "", "pattern"),
        (r"(a)\1", "", "pattern"),
        ("a(?=b)", "", "pattern"),
        ("((a{100}){100}){100}", "", "pattern"),
        (r"(\pL\pN){30}", "", "pattern"),
        ("x" * 501, "", "pattern"),
        ("a", "x" * 501, "replacement"),
        ("(a)", r"\2", "replacement"),
        ("a", r"\g<0>", "replacement"),
        ("a", "\\", "replacement"),
        ("a", r"\²", "replacement"),
    ],
)
def test_what_is_no_rule_is_refused(pattern: str, replacement: str, where: str) -> None:
    with pytest.raises(ValidationError) as refused:
        rule(pattern, replacement)
    assert refused.value.errors()[0]["loc"] == (where,)


@pytest.mark.django_db(transaction=True)
class TestPlayed:
    def rules(self, *rules: tuple[str, str]) -> dict[str, Any]:
        listed = [{"pattern": one, "replacement": other} for one, other in rules]
        return {**TAVERN, "output_rules": listed}

    def test_page_and_later_requests_have_what_came_out(
        self, scripted: ScriptedProvider, client: Any
    ) -> None:
        chapter = begin(self.rules((r"(?i)\s*as an ai[^.]*\.", ""), ("shiver", "SHUDDER")))
        scripted.enqueue("You shiver. As an AI, I wonder.", "It goes on.")
        answer = play(chapter)
        assert answer["events"][-1]["text"] == "You SHUDDER."
        assert events_of(chapter, 1)[-1] == ("agent", "You SHUDDER.")
        event = Event.objects.get(session=chapter, role=Event.Role.AGENT)
        assert event.shown == {"original": "You shiver. As an AI, I wonder."}
        play(chapter)
        sent = "".join(message.content for message in scripted.history[-1].messages)
        assert "You SHUDDER." in sent
        assert "As an AI" not in sent
        page = client.get(f"/chapters/{chapter.pk}/play").content.decode()
        assert "You SHUDDER." in page
        assert "As an AI" not in page

    def test_people_are_discovered_in_what_came_out(self, scripted: ScriptedProvider) -> None:
        chapter = begin(self.rules(("Quill of the ringers", "Marta Quill"), ("Ib Quill", "Ib")))
        scripted.enqueue(calls("", move("The Landing")), "There stands Quill of the ringers.")
        play(chapter)
        assert world_of(chapter).people["Marta Quill"].is_discovered
        hidden = begin(self.rules(("Marta Quill", "somebody")))
        scripted.enqueue(calls("", move("The Landing")), "There stands Marta Quill.")
        play(hidden)
        assert not world_of(hidden).people["Marta Quill"].is_discovered

    def test_an_export_keeps_the_original(self, scripted: ScriptedProvider) -> None:
        chapter = begin(self.rules(("shiver", "SHUDDER")))
        scripted.enqueue("You shiver.")
        play(chapter)
        exported = call("GET", address(chapter, "export")).json()
        again = call("POST", "/api/session/import", exported).json()["session_id"]
        event = Event.objects.get(session_id=again, role=Event.Role.AGENT)
        assert (event.text, event.shown) == ("You SHUDDER.", {"original": "You shiver."})
        setup = call("GET", f"/api/session/{again}/setup").json()
        assert setup["output_rules"] == [{"pattern": "shiver", "replacement": "SHUDDER"}]

    def test_a_bad_rule_changes_nothing(self, client: Any) -> None:
        chapter = begin(self.rules(("a", "b")))
        bad = {"output_rules": [{"pattern": "(a"}]}
        refused = call("PATCH", address(chapter, "setup"), bad)
        assert refused.status_code == 422
        assert "output_rules[0].pattern" in refused.content.decode()
        assert "pattern: this is no pattern of RE2: missing )" in refused.content.decode()
        many: dict[str, Any] = {"output_rules": [{}] * 21}
        assert call("PATCH", address(chapter, "setup"), many).status_code == 422
        fields = {"setup.output_rules.0.pattern": "[z"}
        page = client.post(
            f"/chapters/{chapter.pk}/play/setup", fields, headers={"HX-Request": "true"}
        )
        assert page.status_code == 422
        assert "missing ]" in page.content.decode()
        kept = call("GET", address(chapter, "setup")).json()["output_rules"]
        assert kept == [{"pattern": "a", "replacement": "b"}]

    @pytest.mark.parametrize("first", ["SHUDDER", None])
    def test_a_kept_reply_goes_through_the_rules_with_which_it_began(
        self, scripted: ScriptedProvider, first: str | None
    ) -> None:
        chapter = begin(self.rules(("shiver", first)) if first else TAVERN)
        other = {"output_rules": [{"pattern": "shiver", "replacement": "wait"}]}
        broken = Script("You shiver.", error=StreamBroken("gone"))
        scripted.enqueue(broken, broken)
        call("POST", address(chapter, "prompt"), {"user_text": "I go."}, Idempotency_Key="one")
        assert call("PATCH", address(chapter, "setup"), other).status_code == 200
        assert call("POST", address(chapter, "keep")).status_code == 201
        assert events_of(chapter, 1)[-1] == ("agent", f"You {first or 'shiver'}.")
        assert Attempt.objects.get().kept_setup is None
        # Another reply begins with the rules of now, also if it breaks off and is retried.
        call("POST", address(chapter, "reroll"), {})
        call("POST", address(chapter, "keep"))
        assert events_of(chapter, 1)[-1] == ("agent", "You wait.")

    def test_a_file_cannot_bring_rules_that_the_way_to_play_would_refuse(
        self, scripted: ScriptedProvider
    ) -> None:
        chapter = begin(self.rules(("shiver", "SHUDDER")))
        scripted.enqueue(Script("You shiver.", error=StreamBroken("gone")))
        call("POST", address(chapter, "prompt"), {"user_text": "I go."})
        file = call("GET", address(chapter, "export")).json()
        [broken] = file["chapter"]["unanswered_attempts"]
        for kept in ({"output_rules": [{"pattern": "("}]}, {"description": "Mine."}):
            broken["kept_setup"] = kept
            refused = call("POST", "/api/session/import", file)
            assert refused.status_code == 422
            assert "unanswered_attempts[0].kept_setup is nothing that" in refused.json()["detail"]
        broken |= {"kept_setup": {"output_rules": []}, "status": "set_aside"}
        refused = call("POST", "/api/session/import", file)
        assert "can never be kept" in refused.json()["detail"]
