"""The Game Master's mode: a character answers each prompt."""

from agents.modes.declaration import Mode, Play
from gamemaster.characters import CHARACTERS, answers, headings, words_of

MODE = Mode(
    name="gamemaster",
    title="Lead the game",
    sentence="You tell a character what happens, and it answers.",
    agents=CHARACTERS,
    play=Play(answers=answers, own_pieces=words_of, cues=headings),
)
