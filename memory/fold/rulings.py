"""Applies the rulings by which the Game Master withdrew facts."""

from memory.blocks.same_names import key_of
from memory.fold.facts import Fact
from memory.fold.records import Fold, Ruling


class Rulings:
    """The facts that the Game Master withdrew. No part of the present state may repeat them."""

    def __init__(self, folded: Fold) -> None:
        gone = {key: truth for key, truth in folded.truths.items() if truth.ruling is Ruling.UNTRUE}
        instead = {key_of(one.replaces): one.canon for one in folded.corrections if one.replaces}
        self._keys = gone.keys()
        self.withdrawn = tuple(
            Fact(
                truth.text,
                truth.first,
                truth.latest,
                instead.get(key, ""),
                is_in_lock=truth.is_in_lock,
            )
            for key, truth in gone.items()
        )

    def __bool__(self) -> bool:
        return bool(self._keys)

    def spare(self, text: str) -> bool:
        return not self._keys or key_of(text) not in self._keys

    def spared(self, *parts: tuple[str, str]) -> str:
        """Return the parts that have a text and were not withdrawn. A part is a lead, such as
        "cause", and a text."""
        said = [
            f"{lead}: {text}" if lead else text for lead, text in parts if text and self.spare(text)
        ]
        return "; ".join(said)
