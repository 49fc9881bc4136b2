"""Derives the history of a chapter from its fold: all finds and all shifts between people,
everything that was said about threads, and the places of the scene."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from memory.blocks.same_names import key_of
from memory.fold.facts import Fact, Happening, Past
from memory.fold.members import Members
from memory.fold.records import (
    Find,
    Fold,
    Mention,
    Moment,
    Shift,
    Thing,
    Thread,
    ThreadNote,
    Tie,
    Visit,
)
from memory.fold.rulings import Rulings


def timeline(folded: Fold, rulings: Rulings, cast: Members) -> Iterator[Happening]:
    for one in folded.moments:
        doer = cast.displayed(one.doer) if one.doer else ""
        if not rulings:
            yield _happening(one, doer)
        elif rulings.spare(one.text) and rulings.spare(f"{doer}: {one.text}"):
            parts = (one.cause, one.effect, one.intent, one.result)
            cause, effect, intent, result = [text if rulings.spare(text) else "" for text in parts]
            spared = replace(one, cause=cause, effect=effect, intent=intent, result=result)
            yield _happening(spared, doer)


# Happenings are cached, because a long chapter has a thousand of them and a summary adds only a
# few.
@lru_cache(maxsize=16_384)
def _happening(one: Moment, doer: str) -> Happening:
    parts = (("cause", one.cause), ("effect", one.effect), ("result", one.result))
    return Happening(
        f"{doer}: {one.text}" if doer else one.text,
        one.prompts,
        one.prompts,
        "; ".join(f"{lead}: {text}" for lead, text in parts if text),
        mention=one.mention,
        doer=doer,
        is_deed=one.is_deed,
        intent=one.intent,
        who=one.participants,
    )


def finds(folded: Fold, rulings: Rulings) -> Iterator[Fact]:
    """Yield everything that was said about things. A repetition that adds nothing is left out."""
    for thing in folded.things.values():
        if not rulings.spare(thing.name):
            continue
        said: set[str] = set()
        for number, find in enumerate(thing.told):
            aside = finding(find, rulings)
            if (not number or aside) and aside not in said:
                said.add(aside)
                prompts = find.mention.prompts
                yield Fact(thing.name, prompts, prompts, aside, mention=find.mention)


def finding(said: Thing | Find, rulings: Rulings) -> str:
    finder = f"by {said.finder}" if said.finder else ""
    return "; ".join(filter(None, (finder, rulings.spared(("", said.why)))))


def shifts(folded: Fold, rulings: Rulings, cast: Members) -> Iterator[Fact]:
    for tie in folded.ties.values():
        for shift in tie.told:
            fact = shift_fact(tie, shift, rulings, cast)
            if rulings.spare(fact.text):
                yield fact


def shift_fact(tie: Tie, shift: Shift, rulings: Rulings, cast: Members) -> Fact:
    people = " and ".join(dict.fromkeys(cast.displayed(one) for one in tie.people))
    text = f"{people}: {shift.change}" if people else shift.change
    prompts = shift.mention.prompts
    aside = rulings.spared(("", shift.evidence))
    return Fact(text, prompts, prompts, aside, mention=shift.mention)


def opened(folded: Fold, rulings: Rulings) -> Iterator[Fact]:
    """Yield everything that was said about the open threads. A repetition that adds nothing is left
    out."""
    for thread in folded.threads.values():
        if not (thread.is_named and thread.is_open and rulings.spare(thread.text)):
            continue
        said: set[str] = set()
        for number, note in enumerate(thread.told):
            aside = at_stake(note, rulings)
            if (not number or aside) and aside not in said:
                said.add(aside)
                prompts = note.mention.prompts
                lead = thread.is_in_lock and not number
                yield Fact(thread.text, prompts, prompts, aside, lead, mention=note.mention)


def closed(folded: Fold, rulings: Rulings) -> Iterator[Fact]:
    """Yield the closed threads, each with what was at stake and with its outcome."""
    for thread in folded.threads.values():
        if thread.is_named and not thread.is_open and rulings.spare(thread.text):
            stakes = (at_stake(note, rulings) for note in thread.told)
            notes = [*stakes, rulings.spared(("", thread.outcome))]
            aside = "; ".join(dict.fromkeys(filter(None, notes)))
            mention = thread.told[-1].mention
            yield Fact(thread.text, thread.first, mention.prompts, aside, mention=mention)


def past_outcomes(folded: Fold, rulings: Rulings) -> Iterator[Past]:
    """Yield the outcomes of threads that were opened again later or got another outcome."""
    for thread in folded.threads.values():
        if not (thread.is_named and rulings.spare(thread.text)):
            continue
        for note, later in pairwise(thread.told):
            outcome = rulings.spared(("", note.outcome))
            ends_otherwise = later.outcome not in ("", note.outcome) and not later.is_bare
            if outcome and (later.is_open or ends_otherwise):
                told = f"{thread.text}: {outcome}"
                yield Past(told, note.mention.prompts, note.mention.place, later.mention)


def at_stake(said: Thread | ThreadNote, rulings: Rulings) -> str:
    return rulings.spared(("at stake", said.stakes), ("next", said.trigger))


def around(folded: Fold, rulings: Rulings) -> Iterator[Fact]:
    """Yield the changes around the place of the scene, since the scene came to this place."""
    for visit in _stays(folded)[-1] if folded.scene else ():
        for number, text in enumerate(visit.around, 1):
            if rulings.spare(text):
                mention = Mention(visit.mention.prompts, f"surroundings {number}")
                yield Fact(text, mention.prompts, mention.prompts, mention=mention)


def _stays(folded: Fold) -> list[list[Visit]]:
    """Return the notes about the scene, as one list for each stay at a place."""
    stays: list[list[Visit]] = [[]]
    place = ""
    for visit in folded.scene.told if folded.scene else ():
        key = key_of(visit.place)
        if key and place and key != place:
            stays.append([])
        place = key or place
        stays[-1].append(visit)
    return stays


def past_places(folded: Fold, rulings: Rulings) -> Iterator[Past]:
    """Yield the places that the scene has left, each with the changes around it."""
    stays = _stays(folded)
    for stay, later in pairwise(stays):
        place = next((visit.place for visit in stay if visit.place), "")
        around = rulings.spared(*(("", text) for visit in stay for text in visit.around))
        told = "; ".join(filter(None, (place if rulings.spare(place) else "", around)))
        if told:
            prompts = stay[0].mention.prompts
            yield Past(f"location: {told}", prompts, "location", later[0].mention)
