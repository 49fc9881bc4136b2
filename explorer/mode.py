"""Explorer: the user is one person in a living world that a narrator tells."""

from agents.modes.declaration import Memory, Mode, OwnFile, Pages, Play, Setup
from explorer.guidance import KEPT_FIELDS, OPEN_FIELDS
from explorer.learned import ADDITION
from explorer.lock import cast_of, lock_of
from explorer.narrator import NARRATOR_AGENT, answers, headings, words_of
from explorer.outcome import EVENT_KINDS, concludes, outcome
from explorer.places import RESOLVER_AGENT
from explorer.played_world import WORLD
from explorer.ready import finished
from explorer.retelling import RETELLING_LAYERS
from explorer.scenario_file import begin_from
from explorer.setup import Exploration, beginning_of, follow_new_names, opening_of, title_in
from explorer.simulation import (
    DIALOGUE_AGENT,
    REPORT_AGENT,
    SIMULATION_JOB,
    SUMMARY_AGENT,
    ask_for_simulation,
)
from explorer.tools import readable
from explorer.unseen import SIMULATION
from explorer.without_tools import Given, begins, check_given
from memory.blocks.stretches import StretchRule

MODE = Mode(
    name="explorer",
    title="Explore a world",
    sentence="You are one person in a story. You say what you do, and a narrator tells the rest.",
    agents=(NARRATOR_AGENT, RESOLVER_AGENT, SUMMARY_AGENT, DIALOGUE_AGENT, REPORT_AGENT),
    added_layers=RETELLING_LAYERS,
    play=Play(
        answers=answers,
        own_pieces=words_of,
        cues=headings,
        given=Given,
        checks_given=check_given,
        readable=readable,
        begins=begins,
        concludes=concludes,
        outcome=outcome,
        event_kinds=EVENT_KINDS,
        after_commit=ask_for_simulation,
        job_kinds={SIMULATION: SIMULATION_JOB},
    ),
    world=WORLD,
    memory=Memory(stretches=StretchRule(for_characters=False), addition=ADDITION),
    setup=Setup(
        fields=Exploration,
        open_fields=frozenset(OPEN_FIELDS),
        kept_fields=frozenset(KEPT_FIELDS),
        tidies=follow_new_names,
        title_in=title_in,
        cast_of=cast_of,
        lock_of=lock_of,
        opening_of=opening_of,
        file=OwnFile("a scenario", begin_from),
        finished=finished,
    ),
    pages=Pages(
        cells="explorer/cells.html",
        open_cells="explorer/open_cells.html",
        open_title="Note, voices, lore and rules",
        panel="explorer/panel.html",
        below_turn="explorer/below_turn.html",
        beginnings="explorer/beginnings.html",
        card="explorer/card.html",
        style="explorer/explorer.css",
        beginning_of=beginning_of,
    ),
)
