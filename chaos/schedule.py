"""Plans the order of faults from a seed, before any process is started."""

import random
from collections import Counter
from dataclasses import dataclass, replace

# The kinds of kills, in the order of the table. The name of each says which process it kills.
KILLS_OF_PROGRAM = ("kill-web", "kill-worker", "kill-model")
KILLS_OF_SERVERS = ("kill-postgres", "kill-redis")

# The faults of the model server. Each has its name in bench.fake_server.
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
# The faults of a client: it sends a form twice or ten times, opens two tabs, or leaves too early.
CLIENT_FAULTS = ("twice", "tenfold", "two-tabs", "leave")

KILL_SHARE = 10
# How many times in a row a fault comes if the provider tries again after it. The provider does not
# try so often.
MOST_REPEATS = 5
PASSING = frozenset({"429", "500", "drop"})


@dataclass(frozen=True)
class Fault:
    """A fault.

    `number` counts from 1. `choices` is a seed. It decides everything that is left to chance while
    the fault is played.
    """

    number: int
    kind: str
    choices: int
    repeats: int = 1

    @property
    def is_kill(self) -> bool:
        return self.kind.startswith("kill-")

    def again(self) -> "Fault":
        """Return the same fault with another seed, because the fault had no effect."""
        chance = random.Random(self.choices)  # noqa: S311  (a schedule, no secret)
        return replace(self, choices=chance.getrandbits(32))


def plan_faults(count: int, seed: int, *, kills: tuple[str, ...] = KILLS_OF_PROGRAM) -> list[Fault]:
    """Plan `count` faults. At least a tenth of them are kills, and all kinds come equally often.

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
    """Return `count` kinds. Each comes equally often, and chance decides which ones come once
    more."""
    rounds, rest = divmod(count, len(kinds))
    return [*kinds * rounds, *chance.sample(kinds, rest)]


def _repeats(kind: str, chance: random.Random) -> int:
    return chance.choice((1, MOST_REPEATS)) if kind in PASSING else 1
