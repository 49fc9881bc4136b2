"""A mode for tests, about two lighthouse keepers.

It uses every part of a declaration. A stretch of memory ends when
somebody feels the wind or fills the tank.
"""

from agents.modes.declaration import AddedLayer, Memory, Mode, Pages, Play, Setup, Stage
from agents.prompting.sandwich import LayerDeclaration
from memory.blocks.stretches import StretchRule
from sessions.models import Attempt
from storyengine.tests.lighthouse.keeper import KEEPER, Pointing, acts_next, answers, words_of
from storyengine.tests.lighthouse.learned import ADDITION
from storyengine.tests.lighthouse.log import LOG, LOG_KIND, enter_signals
from storyengine.tests.lighthouse.narrator import NARRATOR
from storyengine.tests.lighthouse.outcome import SIGNAL, outcome
from storyengine.tests.lighthouse.pilot import PILOT
from storyengine.tests.lighthouse.setup import Tower
from storyengine.tests.lighthouse.state import OIL, WIND, WORLD, what_is_here
from storyengine.tests.lighthouse.tide import TIDE, TIDE_JOB, ask_for_tide
from storyengine.tests.lighthouse.tools import readable


def follow(attempt: Attempt) -> None:
    ask_for_tide(attempt)
    enter_signals(attempt)


MODE = Mode(
    name="lighthouse",
    title="Lighthouse",
    sentence="Two people keep a lighthouse.",
    agents=(KEEPER, NARRATOR, PILOT),
    stages=frozenset({Stage.SET_UP, Stage.PLAY, Stage.MEMORY}),
    added_layers=(AddedLayer("memory", "FORMAT", LayerDeclaration("LAMP_LOG", what_is_here)),),
    play=Play(
        answers=answers,
        own_pieces=words_of,
        given=Pointing,
        readable=readable,
        outcome=outcome,
        event_kinds=frozenset({SIGNAL}),
        after_commit=follow,
        job_kinds={TIDE: TIDE_JOB},
        acts_next=acts_next,
        most_turns_alone=2,
    ),
    world=WORLD,
    memory=Memory(
        block_kinds={LOG: LOG_KIND},
        stretches=StretchRule(ended_by=frozenset({WIND, OIL})),
        addition=ADDITION,
    ),
    setup=Setup(fields=Tower),
    pages=Pages(cells="lighthouse/cells.html", panel="lighthouse/panel.html"),
)
