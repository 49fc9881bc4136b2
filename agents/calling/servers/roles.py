"""The agents by role, as the pages about models show them: agents with one name share a role while
their choices are equal."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from agents.calling.servers.choices import (
    Choice,
    choice_of,
    choice_without_chapter,
    choice_without_own,
)
from agents.modes.declaration import Mode
from agents.modes.registry import agents_in, all_agents, all_modes
from agents.prompting.agent import Agent
from sessions.models import Session

# Plain names for the agents of the engine, as pages show them.
TITLES_FOR_WRITERS = {"world_lock": "The beginning", "memory": "Memory", "narrator": "Narrator"}
# The work of these agents, as the end of a sentence.
_WORK_FOR_WRITERS = {
    "world_lock": "reads your world before play",
    "memory": "writes down what happened",
    "narrator": "tells the chapter",
}


@dataclass(frozen=True)
class Role:
    """Agents of one name with the same choice. `before` is the choice that counts if nothing is set
    for the role on the page that shows the role. `person` is the name of the only character with
    this role, if the page is about one chapter."""

    agents: tuple[Agent, ...]
    choice: Choice
    before: Choice
    is_part: bool
    person: str = ""

    @property
    def key(self) -> str:
        return self.agents[0].model_setting

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(agent.model_setting for agent in self.agents)

    @property
    def title(self) -> str:
        if self.person:
            return f"{self.agents[0].agent_id} {self.person}"
        if self.agents[0].is_character and not self.is_part:
            return "Characters"
        return TITLES_FOR_WRITERS.get(self.agents[0].name, self.agents[0].title)

    @property
    def numbers(self) -> str:
        """The numbers of the agents in words, and their work. For an agent without a number, its
        way to play stands in place of the number."""
        first, last = self.agents[0], self.agents[-1]
        if first is not last:
            work = ", who answer in play" if first.is_character else ""
            return f"Agents {first.label} to {last.label}{work}"
        if first.agent_id is None:
            return next(
                (f"In “{one.title}”" for one in all_modes() if _has(one, first)), first.name
            )
        work = _WORK_FOR_WRITERS.get(first.name, "")
        return f"Agent {first.label}, who {work}" if work else f"Agent {first.label}"


def all_roles(*, each: bool = False) -> list[Role]:
    """Return the roles of all agents. With `each`, every agent has a role of its own."""
    return _roles(all_agents(), choice_without_own, each=each)


def roles_in(chapter: Session, *, each: bool = False) -> list[Role]:
    """Return the roles of the agents that may work for the chapter, with the settings of the
    chapter."""
    playing = {one.slot: one.name for one in chapter.characters}
    agents = [one for one in agents_in(chapter) if not one.is_character or one.agent_id in playing]
    return [
        replace(role, person=playing[role.agents[0].agent_id])
        if role.is_part and role.agents[0].agent_id in playing
        else role
        for role in _roles(agents, choice_without_chapter, each=each)
    ]


def _roles(
    all_of_them: Iterable[Agent], before: Callable[[Agent], Choice], *, each: bool
) -> list[Role]:
    by_name: dict[str, list[Agent]] = defaultdict(list)
    for agent in all_of_them:
        by_name[agent.name].append(agent)
    roles = []
    for agents in by_name.values():
        choices = {(choice_of(agent), agent.own) for agent in agents}
        befores = {before(agent) for agent in agents}
        is_one = len(choices) == len(befores) == 1 and not each
        groups = [tuple(agents)] if is_one else [(agent,) for agent in agents]
        roles += [
            Role(group, choice_of(group[0]), before(group[0]), len(groups) > 1) for group in groups
        ]
    return roles


def _has(mode: Mode, agent: Agent) -> bool:
    return agent.name in {one.name for one in mode.agents}


def role_with(key: str, roles: Iterable[Role]) -> Role | None:
    """Return the role that has the agent with this key, or None."""
    return next((role for role in roles if key in role.keys), None)
