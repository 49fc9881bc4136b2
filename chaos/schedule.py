"""Plans the order of the faults from a seed, before any process is started."""

import random
from collections import Counter
from dataclasses import dataclass, replace

# The kinds of kill. The name of a kind says which process is killed.
KILLS_OF_PROGRAM = ("kill-web", "kill-worker", "kill-model")
KILLS_OF_SERVERS = ("kill-postgres", "kill-redis")

# Maps each fault of the model server to its name in testing.fake_server.
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
# The faults of a client. It sends a form twice, or ten times, or sends prompts from two tabs at
# once, or leaves before the answer is complete.
CLIENT_FAULTS = ("twice", "tenfold", "two-tabs", "leave")
# What a client does on another web process than the one that writes a reply: it stops the reply, or
# follows it as a page does.
FAULTS_ELSEWHERE = ("stop-elsewhere", "follow-elsewhere")

KILL_SHARE = 10
# The model server causes a PASSING fault at most this many times in a row. The engine tries a call
# again after such a fault, but fewer times than this.
MOST_REPEATS = 5
PASSING = frozenset({"429", "500", "drop"})


@dataclass(frozen=True)
class Fault:
    """A fault of the plan.

    `number` counts from 1. `choices` is the seed of all random choices while the fault is caused.
    """

    number: int
    kind: str
    choices: int
    repeats: int = 1

    @property
    def is_kill(self) -> bool:
        return self.kind.startswith("kill-")

    def again(self) -> "Fault":
        """Return the same fault with another seed. The fault is tried again in this form if it had
        no effect."""
        chance = random.Random(self.choices)  # noqa: S311  (a schedule, no secret)
        return replace(self, choices=chance.getrandbits(32))


def plan_faults(
    count: int,
    seed: int,
    *,
    kills: tuple[str, ...] = KILLS_OF_PROGRAM,
    elsewhere: tuple[str, ...] = (),
) -> list[Fault]:
    """Plan `count` faults, at least a tenth of which are kills. All kinds of kill come equally
    often, and so do all other kinds.

    The same seed gives the same faults in the same order.
    """
    chance = random.Random(seed)  # noqa: S311  (a schedule, no secret)
    wanted_kills = -(-count // KILL_SHARE)
    others = (*MODEL_FAULTS, *CLIENT_FAULTS, *elsewhere)
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
    """Return `count` kinds in which each kind comes equally often. If `count` is no multiple of the
    number of kinds, chance decides which kinds come once more."""
    rounds, rest = divmod(count, len(kinds))
    return [*kinds * rounds, *chance.sample(kinds, rest)]


def _repeats(kind: str, chance: random.Random) -> int:
    return chance.choice((1, MOST_REPEATS)) if kind in PASSING else 1
