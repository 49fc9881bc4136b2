from collections.abc import Mapping, Sequence

from agents.modes.declaration import Mode, Play, Stage
from agents.prompting.agent import Agent
from agents.prompting.layer_sources import own_pieces, prompt_file
from agents.prompting.layers import Piece
from agents.prompting.sandwich import LayerDeclaration
from sessions.models import Attempt, Session
from sessions.play.attempts import Writer

PILOT = Agent(
    None,
    "harbour.pilot",
    "Pilot",
    "gpt-4o",
    output_tokens=500,
    reasoning_tokens=1_000,
    temperature=0.5,
    layers=(
        LayerDeclaration("RULES", prompt_file("harbour.pilot"), role="system"),
        LayerDeclaration("USER_PROMPT", own_pieces("USER_PROMPT")),
    ),
)


def answers(chapter: Session, actor: int | None) -> Writer:
    return Writer(None, PILOT.name)


def words_of(attempt: Attempt) -> Mapping[str, Sequence[Piece]]:
    return {"USER_PROMPT": [Piece(attempt.words)]}


MODE = Mode(
    name="harbour",
    title="Harbour",
    sentence="You bring ships in.",
    agents=(PILOT,),
    play=Play(answers=answers, own_pieces=words_of),
    stages=frozenset({Stage.PLAY}),
)
