"""Which fault comes when: decided by a seed, before anything is started."""

import random
from collections import Counter
from dataclasses import dataclass, replace

# What a kill ends, in this order of the table.
KILLS_OF_PROGRAM = ("kill-web", "kill-worker", "kill-model")
KILLS_OF_SERVERS = ("kill-postgres", "kill-redis")

# What the model server does wrong, by the name that bench.fake_server knows it by.
MODEL_FAULTS = {
    "cut": "cut",
    "drop": "drop",
    "429": "429",
    "500": "500",
    "html": "html",
    "empty": "empty",
    "truncated": "truncated",
    "malformed": "malformed",
    "half": "badjson",
    "delay": "delay",
}
# What a client does: send twice, send ten times, open two tabs, leave in the middle.
CLIENT_FAULTS = ("twice", "tenfold", "two-tabs", "leave")

KILL_SHARE = 10
# How often a fault that servers are asked again after is met in a row, and so outlasts the retries.
MOST_REPEATS = 5
PASSING = frozenset({"429", "500", "drop"})


@dataclass(frozen=True)
class Fault:
    """`number` counts from 1; `choices` seeds whatever else is decided while it is played."""

    number: int
    kind: str
    choices: int
    repeats: int = 1

    @property
    def is_kill(self) -> bool:
        return self.kind.startswith("kill-")

    def again(self) -> "Fault":
        """The same after it met nothing; what is left to chance comes out otherwise."""
        chance = random.Random(self.choices)  # noqa: S311  (a schedule, no secret)
        return replace(self, choices=chance.getrandbits(32))


def plan_faults(count: int, seed: int, *, kills: tuple[str, ...] = KILLS_OF_PROGRAM) -> list[Fault]:
    """`count` faults: at least a tenth are kills, spread evenly, and so are the rest.

    The same seed gives the same faults in the same order.
    """
    chance = random.Random(seed)  # noqa: S311  (a schedule, no secret)
    wanted_kills = -(-count // KILL_SHARE)
    others = (*MODEL_FAULTS, *CLIENT_FAULTS)
    kinds = [
        *_deal(kills, wanted_kills, chance),
        *_deal(others, count - wanted_kills, chance),
    ]
    chance.shuffle(kinds)
    return [
        Fault(number, kind, chance.getrandbits(32), _repeats(kind, chance))
        for number, kind in enumerate(kinds, 1)
    ]


def count_kinds(faults: list[Fault]) -> Counter[str]:
    return Counter(fault.kind for fault in faults)


def _deal(kinds: tuple[str, ...], count: int, chance: random.Random) -> list[str]:
    """Each kind equally often; which ones are met once more than others is left to chance."""
    rounds, rest = divmod(count, len(kinds))
    return [*kinds * rounds, *chance.sample(kinds, rest)]


def _repeats(kind: str, chance: random.Random) -> int:
    return chance.choice((1, MOST_REPEATS)) if kind in PASSING else 1
