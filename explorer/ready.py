"""Finished scenarios. An exploration that begins with one can be played at once. Each is a scenario
file in the folder `scenarios`."""

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

from django.db import transaction

from agents.flows.beginning.locking import lock_without_a_model
from agents.modes.declaration import Finished
from agents.modes.fields import save_mode_setup
from agents.modes.registry import begin_chapter
from explorer.scenario_file import read_scenario
from explorer.setup import Exploration, PersonSetup
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import free_title
from sessions.exceptions import UnknownStarter
from sessions.models import Session

FOLDER = Path(__file__).resolve().parent / "scenarios"


@dataclass(frozen=True)
class ReadyScenario:
    name: str
    content: dict[str, Any]

    @cached_property
    def setup(self) -> Exploration:
        return self.put_into(Exploration())

    def put_into(self, before: Exploration) -> Exploration:
        """Return the setup with this scenario in place of its present one. The fields that a
        scenario does not have are kept."""
        return read_scenario(self.content, before=before)

    @property
    def title(self) -> str:
        return self.setup.title

    @property
    def premise(self) -> str:
        return self.setup.premise

    @property
    def known(self) -> list[PersonSetup]:
        """The first people whom the player knows."""
        return [one for one in self.setup.people if one.is_discovered][:3]


@lru_cache(maxsize=1)
def ready_scenarios() -> tuple[ReadyScenario, ...]:
    """Return the finished scenarios, in the order of their file names."""
    return tuple(
        ReadyScenario(path.stem.split("-", 1)[1], json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(FOLDER.glob("*.json"))
    )


def find_ready(name: str) -> ReadyScenario:
    """Return the scenario with this name. Raises UnknownStarter."""
    found = next((one for one in ready_scenarios() if one.name == name), None)
    if found is None:
        raise UnknownStarter("There is no such scenario here. Nothing was made.")
    return found


def finished() -> list[Finished]:
    """Return the finished scenarios as the API offers them."""
    return [
        Finished(
            one.name,
            one.title,
            one.premise,
            [
                person.model_dump(include={"name", "pronouns"})
                | {"public_text": person.description}
                for person in one.setup.people
                if person.is_discovered
            ],
            prompt_count=1 if one.setup.opening else 0,
            next_words=next(iter(one.setup.deeds), ""),
            begin=partial(begin_ready, one.name),
            open=partial(open_ready, one.name),
        )
        for one in ready_scenarios()
    ]


@transaction.atomic
def open_ready(name: str, title: str = "", *, persona: dict[str, str] | None = None) -> Session:
    """Create an exploration whose Tab 1 has this scenario and can be changed.

    `persona` has fields of the user's own person. Raises BadSetup for fields that do not fit.
    """
    ready = find_ready(name)
    chapter = begin_chapter(title or free_title(ready.title), mode="explorer")
    setup = ready.setup.model_dump(mode="json")
    setup["persona"] |= persona or {}
    return save_mode_setup(chapter.pk, setup)


@transaction.atomic
def begin_ready(name: str, title: str = "", *, persona: dict[str, str] | None = None) -> Session:
    """Create an exploration of this scenario, in play. No model is called. See `open_ready`."""
    chapter = open_ready(name, title=title, persona=persona)
    lock_without_a_model(chapter.pk)
    return get_chapter(chapter.pk)
