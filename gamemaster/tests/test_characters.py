"""Tests of the characters in the Game Master's mode: which of them answers a prompt, and what each
of them is told."""

import pytest

from agents.modes.registry import who_answers
from agents.prompting.layers import TIERS, Piece, Tier
from agents.prompting.sandwich import Subject, compose
from gamemaster.characters import CHARACTER_LAYERS
from sessions.exceptions import InvalidInput
from sessions.play.attempts import Writer
from sessions.reply_lengths import ReplyLength
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


def test_whom_a_prompt_addresses_answers_it() -> None:
    chapter = make_active_chapter()
    assert who_answers(chapter, 2) == Writer(2, "character")
    with pytest.raises(InvalidInput, match="names no agent that answers"):
        who_answers(chapter, None)


@pytest.mark.parametrize("tier", TIERS)
def test_the_last_line_says_who_answers_and_for_whom_alone(tier: Tier) -> None:
    chapter = make_active_chapter(agent_names={"1": "Mara", "2": "Tom"})
    own = {"USER_PROMPT": [Piece("Go on.")]}
    last = compose(CHARACTER_LAYERS, Subject(chapter, 2, own_pieces=own), tier)[-1]
    assert (last.name, last.role) == ("YOUR_REPLY", "user")
    assert "as Tom and for Tom alone" in last.text.splitlines()[-1]


@pytest.mark.parametrize("tier", TIERS)
def test_the_length_of_replies_changes_the_last_line_alone(tier: Tier) -> None:
    chapter = make_active_chapter()
    composed = []
    for chapter.reply_length in ReplyLength.values:
        subject = Subject(chapter, 2, own_pieces={"USER_PROMPT": [Piece("Go on.")]})
        composed.append(compose(CHARACTER_LAYERS, subject, tier))
    starts = [[layer.text for layer in layers[:-1]] for layers in composed]
    assert starts[0] == starts[1] == starts[2]
    lines = [layers[-1].text.splitlines()[-1] for layers in composed]
    told = ("about 40 words", "about 80 words", "about 160 words")
    if tier != "minimal":
        told = ("one or two short", "one to six short paragraphs", "six to twelve paragraphs")
        # A character who says little is not asked for more by the last line.
        assert all("unless the beat or your identity asks" in line for line in lines)
    assert all(much in line for much, line in zip(told, lines, strict=True))
