"""A fixed exploration of twenty turns, and a client that plays it through the HTTP API.

The player's words have what the fake model server's narrator shall do in brackets
(`testing.world_replies`).
"""

from typing import Any

from testing.chapter_client import ChapterClient
from testing.http_calls import Answer, Server, expect

YOU = "Edda Linn"
INN, LANDING, MILL, LOFT = "The Ferry Inn", "The Landing", "The Mill", "The Drying Loft"
# What only Marta Quill knows, with a word that nothing else has.
SECRET_MARK = "MARKERTOMAS"  # noqa: S105  (a mark that tests look for)
SCENARIO: dict[str, Any] = {
    "title": "The Last Ferry",
    "description": "A river inn on the night when the ferry does not come back.",
    "initialNarrativeTime": "Dusk",
    "locations": [
        {"name": INN, "description": "A low room full of wet coats."},
        {"name": LANDING, "description": "Planks, a bell, black water."},
        {"name": MILL, "description": "The wheel is chained for the flood."},
    ],
    "characters": [
        {
            "name": YOU,
            "description": "A woman in a long coat who looks for her brother.",
            "isPlayer": True,
        },
        {
            "name": "Osk Brandt",
            "description": "The innkeeper, who counts everything twice.",
            "goals": "To be paid before morning.",
            "knowledge": ["The ferry left with two lanterns."],
        },
        {"name": "Pia Brandt", "description": "His sister, who never sits down."},
        {
            "name": "Marta Quill",
            "description": "The bell ringer.",
            "location": LANDING,
            "isDiscovered": False,
            "aliases": ["the ringer"],
            "knowledge": [f"{SECRET_MARK} is alive and hides in the boathouse."],
        },
        {"name": "Ib", "description": "The miller's boy.", "location": MILL},
        {"name": "Runa Vass", "description": "The miller.", "location": MILL},
        {
            "name": "Tove",
            "description": "Somebody who sleeps between the sacks.",
            "location": MILL,
            "isDiscovered": False,
        },
    ],
    "playerStartingLocation": INN,
}
# The words of each turn; "" lets the story go on. Turn 2 is a move away from two people, turn 4 one
# to a new place and away from two people, and turn 5 one by another name of a known place.
LINES = (
    "I warm my hands and ask Osk about the ferry.",
    "I go to the mill. [go the mill; Late evening] [tell Between the sacks lies somebody: Tove.]",
    "I wait until the wheel stands still. [wait Midnight; 30]",
    "I climb up with Ib. [go the drying loft; After midnight; Ib]",
    "I run down to the jetty. [go the old landing; Before dawn] [meet the ringer; A tall woman]",
    "",
    "I go back to the fire. [go The Ferry Inn; Dawn]",
    "I ask Osk what they quarrelled about.",
    "I tell them what I have seen.",
    "",
    "I look at the lantern on the counter.",
    "I sleep by the fire. [wait Noon; 8]",
    "I ask Osk for bread.",
    "I count the coats.",
    "",
    "I look for the passenger list.",
    "I listen to the water.",
    "I say that I shall stay.",
    "I pay Osk for the night.",
    "I close the door.",
)


class ExplorationClient(ChapterClient):
    """A client of one exploration."""

    def __init__(self, server: Server, scenario: dict[str, Any] | None = None) -> None:
        super().__init__(server, mode="explorer")
        expect(200, self._call("PUT", "/scenario", SCENARIO if scenario is None else scenario))
        self.lock(seconds=60)

    def say(self, words: str) -> dict[str, Any]:
        """Send the player's words, wait for the reply, and return the world after it."""
        expect(201, self.send("prompt", user_text=words))
        return self.world()

    def send(self, action: str, **body: Any) -> Answer:
        """Send a request that changes the chapter, and return the answer, whatever it is."""
        return self._call("POST", f"/{action}", body or None)

    def world(self, turn: int | None = None) -> dict[str, Any]:
        """Return the world now, or after this turn."""
        query = "" if turn is None else f"?turn={turn}"
        world: dict[str, Any] = expect(200, self._call("GET", f"/world{query}"))
        return world

    def turn(self, number: int) -> dict[str, Any]:
        turn: dict[str, Any] = expect(200, self._call("GET", f"/turns/{number}"))
        return turn

    def wait_for_jobs(self, *, seconds: float) -> None:
        """Wait until no job of the chapter waits or runs."""
        self._wait(
            lambda now: all(job["status"] not in ("queued", "running") for job in now["jobs"]),
            "explorer.simulation",
            seconds,
        )


def place_of(world: dict[str, Any], name: str) -> str:
    """Return where this person is."""
    [found] = [one for one in world["characters"] if one["name"] == name]
    return str(found["location"])


def knowledge_of(world: dict[str, Any], name: str) -> list[str]:
    [found] = [one for one in world["characters"] if one["name"] == name]
    return [str(one["content"]) for one in found["knowledge"]]


def known_people(world: dict[str, Any]) -> set[str]:
    return {one["name"] for one in world["characters"] if one["is_discovered"]}
