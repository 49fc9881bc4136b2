"""The ten agents: what each is called, which model it runs on, and how much it may write."""

from dataclasses import dataclass

from sessions.roster import SLOTS, default_name


@dataclass(frozen=True)
class Agent:
    """One of the ten agents.

    `output_tokens` caps what it writes; a reasoning model gets `reasoning_tokens` on top, because
    its hidden reasoning counts as output and would otherwise use the cap up.
    """

    agent_id: int
    name: str
    default_model: str
    output_tokens: int
    reasoning_tokens: int
    temperature: float


WORLD_SUMMARY = Agent(0, "World and Chapter Summary Agent", "o4-mini", 2_000, 6_000, 0.2)
CHARACTERS = {slot: Agent(slot, default_name(slot), "o4-mini", 1_000, 4_000, 0.8) for slot in SLOTS}
CONTEXT_SUMMARY = Agent(8, "Context Summary Agent", "o4-mini", 2_000, 6_000, 0.2)
NARRATOR = Agent(9, "Narrative Agent", "gpt-5.2", 9_000, 12_000, 0.7)

AGENTS = {
    agent.agent_id: agent
    for agent in (WORLD_SUMMARY, *CHARACTERS.values(), CONTEXT_SUMMARY, NARRATOR)
}
