"""Tests of which character answers a prompt in the Game Master's mode, and of what the characters
are told."""

import pytest

from agents.modes import mode_of, who_answers
from gamemaster.characters import CHARACTER_LAYERS, CHARACTERS, others_cues
from gamemaster.mode import MODE
from sessions.attempts import Writer
from sessions.exceptions import InvalidInput
from sessions.models import Attempt
from sessions.roster import SLOTS
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


def test_a_chapter_that_names_no_mode_is_the_game_master_s() -> None:
    assert mode_of(make_active_chapter()) is MODE


def test_all_characters_are_told_the_same_way() -> None:
    assert [agent.agent_id for agent in CHARACTERS] == list(SLOTS)
    assert {agent.name for agent in CHARACTERS} == {"character"}
    assert all(agent.layers is CHARACTER_LAYERS for agent in CHARACTERS)


def test_whom_a_prompt_addresses_answers_it() -> None:
    chapter = make_active_chapter()
    assert who_answers(chapter, 2) == Writer(2, "character")
    with pytest.raises(InvalidInput, match="names no agent that answers"):
        who_answers(chapter, None)


def test_a_character_s_part_ends_where_another_s_begins() -> None:
    chapter = make_active_chapter(agent_names={"1": "Mara", "2": "Tom"})
    cues = others_cues(Attempt(session=chapter, actor=1))
    assert "\nTom:" in cues
    assert "\nMara:" not in cues
