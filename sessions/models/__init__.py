from sessions.models.chapter import (
    DEFAULT_AGENT,
    DEFAULT_MODE,
    FIRST_NUMBER_IN_PLAY,
    PERSON,
    SAID,
    THOUGHT,
    UNTITLED,
    CastMember,
    Chapters,
    Session,
    Story,
    Tab1Inputs,
)
from sessions.models.chapter_states import PLAYABLE, State
from sessions.models.play import Attempt, Change, Event, EventTerms, Turn

__all__ = [
    "DEFAULT_AGENT",
    "DEFAULT_MODE",
    "FIRST_NUMBER_IN_PLAY",
    "PERSON",
    "PLAYABLE",
    "SAID",
    "THOUGHT",
    "UNTITLED",
    "Attempt",
    "CastMember",
    "Change",
    "Chapters",
    "Event",
    "EventTerms",
    "Session",
    "State",
    "Story",
    "Tab1Inputs",
    "Turn",
]
