"""Finds the two facts of a contradiction in the text of a question.

The request asks agent 8 to write a contradiction as "old: … | new: …". If agent 8 writes another
form, the old fact is the fact of canon that the question repeats word for word, and the GM has to
write the new fact.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memory.blocks.same_names import key_of, mentions, says_nothing
from memory.telling.now_view import NowSection

_AS_ASKED = re.compile(
    r"\W*(?:old|memory)(?: canon| fact)?\s*[:=]\s*(?P<old>.+?)\W*"
    r"\b(?:new|chunk)(?: canon| fact)?\s*[:=]\s*(?P<new>.+)",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED = re.compile(
    r"""["'`\u2018\u201c\u00ab](?P<text>[^"`\u201c\u201d\u00ab\u00bb]+)["'`\u2019\u201d\u00bb]\.?"""
)


@dataclass(frozen=True)
class Contradiction:
    """The two facts of a contradiction. A fact is "" if it cannot be found in the question.

    `old` is a fact in memory's words, and `new` is the fact that contradicts it. `is_of_canon` is
    True if the old fact is canon.
    """

    old: str = ""
    new: str = ""
    is_of_canon: bool = False

    @property
    def is_clear(self) -> bool:
        """Whether both facts are known, so that the GM can choose one of them and need not write
        it."""
        return self.is_of_canon and bool(self.new)


def read_contradiction(question: str, sections: Sequence[NowSection]) -> Contradiction:
    """Return the two facts that a question is about. `sections` are the sections of the Now view.
    One of the sections has the present canon."""
    canon = canon_facts(sections)
    said = _AS_ASKED.match(question)
    if said is None:
        old = _told_fact(question, canon)
        return Contradiction(old, is_of_canon=bool(old))
    elsewhere = [item.replaces for section in sections for item in section.items if item.replaces]
    in_canon = _named_fact(said["old"], canon)
    old = in_canon or _named_fact(said["old"], elsewhere)
    new = _plain(said["new"])
    if says_nothing(new) or key_of(new) == key_of(old):
        new = ""
    return Contradiction(old, new, is_of_canon=bool(in_canon))


def canon_facts(sections: Iterable[NowSection], likely: str = "") -> list[str]:
    """Return the facts of the present canon. With `likely`, the facts that share the most words
    with this text come first."""
    facts = [item.text for one in sections if one.key == "canon" for item in one.items]
    words = set(key_of(likely).split())
    return sorted(facts, key=lambda fact: -_share(set(key_of(fact).split()), words))


def _share(words: set[str], others: set[str]) -> float:
    return len(words & others) / len(words) if words else 0.0


def _named_fact(text: str, facts: Iterable[str]) -> str:
    """Return the fact that equals the text, that is a part of the text, or that contains the text.

    Returns "" if there is no such fact, or if there are several.
    """
    keyed, said = {key_of(fact): fact for fact in facts}, key_of(text)
    wider = [key for key in keyed if mentions(key, said)]
    return _told_fact(text, keyed.values()) or (keyed[wider[0]] if len(wider) == 1 else "")


def _told_fact(text: str, facts: Iterable[str]) -> str:
    """Return the fact that the text contains word for word.

    Returns "" if there is no such fact, or if there are several.
    """
    keyed, said = {key_of(fact): fact for fact in facts}, key_of(text)
    if said in keyed:
        return keyed[said]
    told = [key for key in keyed if mentions(said, key)]
    widest = [key for key in told if not any(key != one and mentions(one, key) for one in told)]
    return keyed[widest[0]] if len(widest) == 1 else ""


def _plain(text: str) -> str:
    """Return the text without the quotation marks and separators around it."""
    bare = text.strip(" |;")
    quoted = _QUOTED.fullmatch(bare)
    return quoted["text"].strip() if quoted else bare
