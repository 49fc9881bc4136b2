"""Lets a reply wait while the embedded model is being fetched or loaded.

Jobs wait by being postponed. A reply waits in its run, so that its lease is renewed and the user
can stop it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from agents.calling.model_access import AgentModel
from agents.running.database import in_database

Prepared = TypeVar("Prepared")

# The seconds between two looks at the model.
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Later(Generic[Prepared]):
    """Something that is prepared once the model is there."""

    model: AgentModel
    prepare: Callable[[], Prepared]

    async def when_ready(self) -> Prepared:
        """Wait until the model is there, or until it is clear that it does not come. Then prepare,
        which raises ModelNotReady if the model did not come."""
        while await in_database(lambda: self.model.is_on_its_way):
            await asyncio.sleep(LOOK_SECONDS)
        return await in_database(self.prepare)
