"""The specification's ten agents by their numbers. Some are the engine's own, and others belong to
modes."""

from agents.modes.registry import all_agents
from sessions.roster import SLOTS

AGENTS = {agent.agent_id: agent for agent in all_agents() if agent.agent_id is not None}
CHARACTERS = {slot: AGENTS[slot] for slot in SLOTS}
