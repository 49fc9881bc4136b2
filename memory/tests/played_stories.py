"""Makes stories as they are played and told, for tests of receipts: turns with words of their own,
and paragraphs that retell them in other words."""

import random
from dataclasses import dataclass

from memory.prose.receipts.matching import PlayedTurn

CAST = ("Mara", "Brother Aldous", "Tinne")

_NOUNS_TEXT = (
    "ferry ledger staircase bell pilot quay rope chapel kettle shutter lamp harbour cage boot "
    "tower anchor barrel candle dagger ember fiddle gallows hatch icicle jetty keel lantern mast "
    "needle orchard parchment quill rudder saddle tavern urn vane windlass yoke anvil bridge "
    "cistern drum engine furnace gate hammer inkwell jug knot ladder mill net oar pulley raft "
    "sail thimble umbrella vault wharf axe bucket chisel dice eel flint goose heron island "
    "jackdaw kite loom mussel nettle otter pier quarry raven seal tide urchin viper walnut "
)
_NOUNS = _NOUNS_TEXT.split()
_VERBS_TEXT = (
    "lifts hides counts breaks mends follows steals buries sells paints burns hauls folds rings "
    "guards opens weighs drops carves scatters borrows swallows measures forges tangles unlocks "
    "sharpens scrapes polishes gathers barters douses kindles topples shoulders unrolls "
)
_VERBS = _VERBS_TEXT.split()
_ADJECTIVES_TEXT = (
    "wet narrow salted borrowed crooked silent painted hollow tarred forgotten cold patched rusty "
    "gilded frozen cracked smoking velvet brittle muddy pale "
)
_ADJECTIVES = _ADJECTIVES_TEXT.split()
# What a narrator writes around the words of the story. None of it was played.
_NARRATION_TEXT = (
    "slowly morning moment breath face hand voice toward quiet heavy while beneath seemed felt "
    "perhaps almost evening shoulder thought turned waited light dark years gentle answer silence "
    "trembled glance memory warm sudden remained softly distant "
)
_NARRATION = _NARRATION_TEXT.split()

# Paragraphs that tell nothing that was played, although they have things, deeds and people of the
# story.
INVENTIONS = (
    "Somewhere above them the mast settled in its ropes, as masts do before rain.",
    "Years ago, in another country, a girl had kept a lame goose in her father's mill, and nobody "
    "had asked her why.",
    "The moon stood over the orchard like a coin that somebody had forgotten to spend at the "
    "tavern.",
    "Mara thought of her mother's kitchen, the copper jug, the smell of quince, and the parchment "
    "that she had never answered.",
    "Snow began to fall on the pier, softly at first, then in great flakes that buried the muddy "
    "road behind them.",
    "An otter crossed the quay, looked at Tinne without interest, and went about its business.",
    "Nobody spoke for a long while. The silence had a weight to it, and they carried it between "
    "them like an anvil.",
    "In the market at home the fishwives would be ringing their bells by now, and the baker's boy "
    "would be late with his bucket.",
    "There is a kind of tiredness that sits behind the eyes and makes the whole harbour look like "
    "a painting of itself.",
    "Brother Aldous counted the candles, decided that the wedding would have to wait until spring, "
    "and smiled at himself.",
)


@dataclass(frozen=True)
class PlayedStory:
    """A story of turns, each with a beat and the reply of one of the cast."""

    beats: tuple[str, ...]
    replies: tuple[str, ...]

    def speaker(self, number: int) -> str:
        return CAST[(number - 1) % len(CAST)]

    @property
    def turns(self) -> list[PlayedTurn]:
        return [
            PlayedTurn(number, f"{beat}\n\n{self.speaker(number)}: {reply}")
            for number, (beat, reply) in enumerate(zip(self.beats, self.replies, strict=True), 1)
        ]


def make_story(turns: int, seed: int = 7) -> PlayedStory:
    """Return a story with this number of turns. The same seed gives the same story."""
    chance = random.Random(seed)  # noqa: S311 - a story has to be the same again

    def sentence() -> str:
        first, second = chance.sample(_NOUNS, 2)
        one, other = chance.sample(_ADJECTIVES, 2)
        return f"the {one} {first} {chance.choice(_VERBS)} the {other} {second}"

    beats = tuple(f"{_capital(sentence())}, and {sentence()}." for _ in range(turns))
    replies = tuple(f"I see that {sentence()}. {_capital(sentence())}!" for _ in range(turns))
    return PlayedStory(beats, replies)


def retell(story: PlayedStory, seed: int = 7) -> list[tuple[str, int]]:
    """Return the paragraphs of a draft, each with the number of the turn that it tells.

    As a narrator does, they put the story into the past tense and the third person, leave out a
    fifth of its words, put in as many of their own, and quote a half of each reply.
    """
    chance = random.Random(seed)  # noqa: S311 - a story has to be the same again
    told = []
    for number, (beat, reply) in enumerate(zip(story.beats, story.replies, strict=True), 1):
        told.append((_reworded(beat, chance), number))
        quoted, _, rest = reply.partition(". ")
        speech = f"\u201c{quoted},\u201d said {story.speaker(number)}. {_reworded(rest, chance)}"
        told.append((speech, number))
    return told


def with_inventions(told: list[tuple[str, int]], seed: int = 7) -> list[tuple[str, int]]:
    """Put the inventions at random places between the paragraphs. They tell the turn 0."""
    chance = random.Random(seed)  # noqa: S311 - a story has to be the same again
    mixed = list(told)
    for text in INVENTIONS:
        mixed.insert(chance.randrange(len(mixed) + 1), (text, 0))
    return mixed


def _reworded(text: str, chance: random.Random) -> str:
    words = []
    for word in text.replace("!", ".").split():
        if chance.random() < 0.2:
            words.append(chance.choice(_NARRATION))
        elif word in _VERBS:
            words.append(word.removesuffix("s").removesuffix("e") + "ed")
        else:
            words.append(word)
    return _capital(" ".join(words)).rstrip(",.") + "."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
