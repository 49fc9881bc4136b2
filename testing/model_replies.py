"""Chooses the fake model server's answers. They come from a recorded session, or are made up."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from sessions.language.words import count_words
from testing.session_data import Pair, RecordedSession, beat_text, reply_text
from testing.world_replies import ModelAnswer, answer_to, lessons_in

COLORS = ("red", "orange", "yellow", "green", "blue", "indigo", "violet")
UNRECORDED_REPLY_WORDS = 70
# The beat is searched for only in this many characters at the end of a request, because the text
# before them may repeat earlier beats.
_PROMPT_END_CHARACTERS = 8_000
_NUMBERED_PROMPT = re.compile(r"^(\d{1,5})\) (.+)$", re.MULTILINE)
_ASKED_WORDS = re.compile(r"(\d[\d,]*)[ -]words?\b")
_ROSTER_NAME = re.compile(
    rf"^\W*([1-7])\W+(?:\(?(?:{'|'.join(COLORS)})\b\)?[:,.]?\s*)?(.+?)\s*"
    rf"(?:\((?:{'|'.join(COLORS)})\))?$",
    re.MULTILINE | re.IGNORECASE,
)


def agent_of(model: str, system_prompt: str) -> int:
    """Return the number of the agent that makes the call.

    A model name such as agent-8 gives the number. For other models the system message gives it, and
    every character counts as agent 1.
    """
    if named := re.search(r"agent-(\d)$", model):
        return int(named[1])
    if "world_chapter_lock" in system_prompt and "turn_delta" not in system_prompt:
        return 0
    if "turn_delta" in system_prompt and "prose" not in system_prompt:
        return 8
    return 9 if "prose" in system_prompt else 1


def lock_payload(agents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a lock, as agent 0 writes it, of a made-up world with these characters."""
    return {
        "memory_type": "world_chapter_lock",
        "world": {
            "genre": "sea-town mystery",
            "tone": "wry and uneasy",
            "themes": ["debts between neighbours", "what the tide returns"],
            "rules_of_reality": ["nobody bargains with the sea twice"],
            "factions_or_powers": ["the ferry guild", "the customs house"],
            "key_lore": ["the chapel drowned in one night"],
            "safety_or_boundaries": [],
        },
        "chapter": {
            "premise": "a pilot has not come home and his boat has",
            "location": "the harbour",
            "time": "the last hour of daylight",
            "environment": ["rising water", "loose slates"],
            "active_threats": ["whoever rings the cloth-wrapped bell"],
            "open_mysteries": ["who painted the door shut"],
            "chapter_goals": ["find the pilot before high water"],
        },
        "agents": list(agents),
        "canon_locks": ["the pilot's boat came back empty"],
        "assumptions": [],
    }


class ModelReplies:
    """The replies of the server.

    `chapter_words` is the most words of one call of agent 9. If no reply was recorded for a
    character, the server makes one up. This reply has `reply_words` words, and ends with the
    paragraphs of `reply_end`, which a test may change while the server runs. A test may also name
    texts that come instead of an agent's next replies (`instead`), and answers that come instead of
    the next ones of agents with tools (`with_tools`).
    """

    def __init__(
        self,
        session: RecordedSession | None,
        chapter_words: int,
        reply_words: int = UNRECORDED_REPLY_WORDS,
        reply_end: str = "",
    ) -> None:
        self._session = session
        self._chapter_words = chapter_words
        self._reply_words = reply_words
        self.reply_end = reply_end
        self.instead: dict[int, list[str]] = {}
        self.with_tools: list[ModelAnswer] = []
        self._answers = 0

    def answer_to(
        self, agent: int, body: Mapping[str, Any], messages: Sequence[str]
    ) -> ModelAnswer:
        """Return the answer to this request."""
        if agent == 1 and not self.instead.get(agent):
            if body.get("tools") and self.with_tools:
                return self.with_tools.pop(0)
            self._answers += 1
            if answer := answer_to(body, acts=self._answers % 2 == 0):
                return answer
        return ModelAnswer(self.text_for(agent, messages))

    def text_for(self, agent: int, messages: Sequence[str]) -> str:
        if instead := self.instead.get(agent):
            return instead.pop(0)
        prompt = "\n".join(messages)
        if agent == 0:
            return json.dumps(self._lock(prompt))
        if agent == 8:
            delta = _delta(messages[-1] if messages else "")
            return json.dumps(delta | lessons_in(prompt, delta["range"]["to_marker"]))
        if agent == 9:
            return self._prose(prompt)
        return self._speech(prompt)

    def _speech(self, prompt: str) -> str:
        end = prompt[-_PROMPT_END_CHARACTERS:]
        heard = [
            (at + len(pair.beat), len(pair.beat), pair.reply)
            for pair in (self._session.pairs if self._session else ())
            if (at := end.rfind(pair.beat)) >= 0
        ]
        if heard:
            return max(heard)[2]
        reply = reply_text(crc32(end.encode()), self._reply_words)
        return f"{reply}\n\n{self.reply_end}" if self.reply_end else reply

    def _lock(self, prompt: str) -> dict[str, Any]:
        names = dict(_ROSTER_NAME.findall(prompt.rpartition("ROSTER")[2]))
        if self._session and not names:
            names = {str(n): name for n, name in enumerate(self._session.roster, 1)}
        agents = [
            {"slot": n, "color": color, "name": names.get(str(n), f"Agent {color.title()}")}
            for n, color in enumerate(COLORS, 1)
            if str(n) in names or not names
        ]
        return lock_payload(agents)

    def _prose(self, prompt: str) -> str:
        """Return prose made of those beats and replies that the prompt does not contain yet."""
        asked = [int(number.replace(",", "")) for number in _ASKED_WORDS.findall(prompt[-1_200:])]
        wanted = min([self._chapter_words, *asked[-1:]])
        return "\n\n".join(_paragraphs(self._pairs_told(prompt), prompt, wanted))

    def _pairs_told(self, prompt: str) -> list[Pair]:
        if self._session:
            told = [pair for pair in self._session.pairs if pair.beat in prompt]
            if told:
                return told
        seed = crc32(prompt.encode()) % 10_000
        return [Pair(1, beat_text(n), reply_text(n, 60)) for n in range(seed, seed + 100)]


def _paragraphs(pairs: list[Pair], prompt: str, wanted: int) -> list[str]:
    fresh = [text for text in map(_paragraph, pairs) if text not in prompt]
    paragraphs: list[str] = []
    words = 0
    for text in fresh or [_paragraph(pair) for pair in pairs]:
        paragraphs.append(text)
        words += count_words(text)
        if words >= wanted:
            break
    return paragraphs


def _paragraph(pair: Pair) -> str:
    return f'{pair.beat}\n\n"{pair.reply}" It was said quietly, and nobody laughed.'


def _delta(chunk: str) -> dict[str, Any]:
    """Return a delta of the numbered prompts in this text. Each event is the start of a prompt."""
    told = _NUMBERED_PROMPT.findall(chunk)[-7:]
    first, last = (told[0][0], told[-1][0]) if told else ("", "")
    return {
        "memory_type": "turn_delta",
        "range": {
            "from_marker": first,
            "to_marker": last,
            "prompt_count_in_chunk": len(told),
        },
        "location_updates": {"where": "the harbour", "notable_environment_changes": []},
        "major_events": [
            {
                "event": beat[:110],
                "cause": "",
                "effect": "",
                "participants": [],
                "at": [int(number)],
            }
            for number, beat in told
        ],
        "character_actions": [],
        "state_changes": [
            {"key": "tide", "before": "", "after": f"higher at prompt {last}", "notes": ""}
        ],
        "relationship_shifts": [],
        "items_clues_discovered": [],
        "unresolved_threads": [
            {"thread": f"who was seen at prompt {last}", "stakes": "", "next_likely_trigger": ""}
        ],
        "canon_locks": [f"what was said at prompt {last} was heard by all"],
        "contradictions_or_questions": [],
    }
