"""Tells apart the values of state keys that hold now and the values that are past."""

from collections.abc import Sequence

from memory.blocks.same_names import (
    EVERYONE,
    closed_by,
    is_closing,
    is_scene_place,
    key_of,
    person_key,
    placed_person,
)
from memory.fold.facts import Fact, Past, Whereabouts
from memory.fold.members import Members
from memory.fold.records import Fold, Mention, Stated, Value
from memory.fold.rulings import Rulings


class States:
    """The values of state keys.

    Some values are told elsewhere: the end of a thread with the thread, a place of the scene as the
    location, and a place of a person among the whereabouts.
    """

    def __init__(
        self,
        folded: Fold,
        rulings: Rulings,
        cast: Members,
        whereabouts: Sequence[Whereabouts],
    ) -> None:
        self._folded = folded
        self._rulings = rulings
        self._cast = cast
        self._whereabouts = whereabouts
        scene = folded.scene.told if folded.scene else ()
        self._scenes_places = {key_of(visit.place) for visit in scene}
        self._facts: list[Fact] = []
        self._past: list[Past] = []
        for key, value in folded.values.items():
            self._read(key, value)

    def facts(self) -> Sequence[Fact]:
        return self._facts

    def past(self) -> Sequence[Past]:
        return self._past

    def _read(self, key: str, value: Value) -> None:
        now, who = value.now, self._placed(key)
        seen = [one for one in self._whereabouts if self._is(who, one.name)] if who else []
        if who and not seen:
            # The Game Master withdrew the place.
            return
        places = {key_of(one.place) for one in seen}
        known, places_one = "", bool(who) or is_scene_place(key)
        for at, stated in enumerate(value.told):
            text, aside = self._text(value, stated), self._aside(stated, known)
            known = key_of(stated.value)
            is_place = known in (places if who else self._scenes_places)
            is_told = is_place and not aside if places_one else self._ends(stated, key)
            if not self._rulings.spare(text) or is_told:
                continue
            prompts = stated.mention.prompts
            has_left = bool(who and stated.value) and not is_place
            if stated is now and not has_left:
                fact = Fact(text, value.first, value.latest, aside, mention=stated.mention)
                self._facts.append(fact)
            elif stated is now or stated.value or aside:
                later = value.told[at + 1].mention if at + 1 < len(value.told) else stated.mention
                if stated is now and has_left:
                    later = Mention(max([prompts, *(one.latest for one in seen)]), "location")
                told = f"{text} ({aside})" if aside else text
                self._past.append(Past(told, prompts, stated.mention.place, later))

    def _text(self, value: Value, stated: Stated) -> str:
        return f"{value.key}: {stated.value}" if stated.value else value.key

    def _aside(self, stated: Stated, known: str) -> str:
        """Return the other content of the entry, beside its value. The earlier value is left out if
        memory already has it as `known`."""
        before = "" if key_of(stated.before) == known else stated.before
        return self._rulings.spared(("before", before), ("", stated.notes))

    def _placed(self, key: str) -> str:
        """Return the person whose place this key tells, or "" for any other key."""
        who = "" if is_scene_place(key) else placed_person(key)
        return who if who and self._cast.is_person(who) else ""

    def _ends(self, stated: Stated, key: str) -> bool:
        """Return whether the value closes a thread."""
        if not is_closing(stated.value):
            return False
        threads = (self._folded.threads.get(one) for one in closed_by(key))
        return any(one and one.is_named for one in threads)

    def _is(self, who: str, name: str) -> bool:
        return who == EVERYONE or person_key(name) == who or self._cast.name_of(who) == name
