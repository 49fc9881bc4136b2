"""A mode for tests, about two lighthouse keepers.

It uses every field of a declaration except `cues` and `elements`. A stretch of memory ends when
somebody feels the wind or fills the tank.
"""

from agents.modes.declaration import AddedLayer, Mode, Stage
from agents.prompting.sandwich import LayerDeclaration
from memory.blocks.stretches import StretchRule
from sessions.models import Attempt
from storyengine.tests.lighthouse.acts import REFUEL
from storyengine.tests.lighthouse.keeper import KEEPER, Pointing, acts_next, answers, words_of
from storyengine.tests.lighthouse.learned import ADDITION
from storyengine.tests.lighthouse.log import LOG, LOG_KIND, enter_signals
from storyengine.tests.lighthouse.narrator import NARRATOR
from storyengine.tests.lighthouse.outcome import SIGNAL, outcome
from storyengine.tests.lighthouse.pilot import PILOT
from storyengine.tests.lighthouse.setup import Tower
from storyengine.tests.lighthouse.state import (
    CHANGE_KINDS,
    OIL,
    WIND,
    apply_change,
    first_light,
    hands_on,
    what_is_here,
)
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
    answers=answers,
    own_pieces=words_of,
    readable=readable,
    outcome=outcome,
    acts=(REFUEL,),
    stages=frozenset({Stage.SET_UP, Stage.PLAY, Stage.MEMORY}),
    added_layers=(AddedLayer("memory", "FORMAT", LayerDeclaration("LAMP_LOG", what_is_here)),),
    change_kinds=CHANGE_KINDS,
    event_kinds=frozenset({SIGNAL}),
    block_kinds={LOG: LOG_KIND},
    job_kinds={TIDE: TIDE_JOB},
    stretches=StretchRule(ended_by=frozenset({WIND, OIL})),
    memory_addition=ADDITION,
    initial_state=first_light,
    apply_change=apply_change,
    hands_on=hands_on,
    acts_next=acts_next,
    most_turns_alone=2,
    after_commit=follow,
    setup=Tower,
    given=Pointing,
    cells="lighthouse/cells.html",
    panel="lighthouse/panel.html",
)
