"""The agents by role, as the page Models shows them: agents with one name share a role while their
choices are equal."""

from collections import defaultdict
from dataclasses import dataclass

from agents.modes import all_agents
from agents.prompting.declarations import Agent
from agents.servers.choices import Choice, choice_of, choice_of_environment

# What writers call the agents of the engine.
TITLES_FOR_WRITERS = {"world_lock": "The beginning", "memory": "Memory", "narrator": "Narrator"}


@dataclass(frozen=True)
class Role:
    """Agents of one name with the same choice. `before` is what counts without a choice here."""

    agents: tuple[Agent, ...]
    choice: Choice
    before: Choice
    is_part: bool

    @property
    def key(self) -> str:
        return self.agents[0].model_setting

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(agent.model_setting for agent in self.agents)

    @property
    def title(self) -> str:
        if self.agents[0].is_character and not self.is_part:
            return "Characters"
        return TITLES_FOR_WRITERS.get(self.agents[0].name, self.agents[0].title)

    @property
    def numbers(self) -> str:
        """The numbers of the agents in words, or the name of an agent without a number."""
        labels = [str(agent.label) for agent in self.agents]
        if len(labels) == 1:
            return f"Agent {labels[0]}"
        return f"Agents {labels[0]} to {labels[-1]}"


def all_roles() -> list[Role]:
    by_name: dict[str, list[Agent]] = defaultdict(list)
    for agent in all_agents():
        by_name[agent.name].append(agent)
    roles = []
    for agents in by_name.values():
        choices = {choice_of(agent) for agent in agents}
        befores = {choice_of_environment(agent) for agent in agents}
        groups = [tuple(agents)] if len(choices) == len(befores) == 1 else [(a,) for a in agents]
        roles += [
            Role(group, choice_of(group[0]), choice_of_environment(group[0]), len(groups) > 1)
            for group in groups
        ]
    return roles


def role_with(key: str) -> Role | None:
    """Return the role that has the agent with this key, or None."""
    return next((role for role in all_roles() if key in role.keys), None)
