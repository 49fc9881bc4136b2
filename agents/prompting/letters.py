"""The letters of a story's script, as the classes of a grammar (GBNF) for the embedded model."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from operator import itemgetter

from sessions.language.words import HAN_AND_KANA

# The first word of a character's Unicode name is its script, for letters and for their marks.
_HAN = "CJK"
_WITH_HAN = {"HIRAGANA": _HAN, "KATAKANA": _HAN, "KATAKANA-HIRAGANA": _HAN, "IDEOGRAPHIC": _HAN}
# Scripts without a sign at the end of a sentence, which the shapes of grammars need.
_WITHOUT_STOPS = frozenset({"THAI", "LAO"})
# Georgian writes sentences without its capital letters.
_WITHOUT_CAPITALS = frozenset({"GEORGIAN"})
# A shorter run of capital letters stands among small letters, as in Latin Extended-A.
_LEAST_RUN = 7
# The signs at the end of a sentence and within it, beside the usual ones.
_OWN_ENDS = {
    "ARABIC": "\u061f\u06d4",
    "ARMENIAN": "\u0589\u055e\u055c",
    "BENGALI": "\u0964",
    "DEVANAGARI": "\u0964",
    "ETHIOPIC": "\u1362\u1367",
    "GUJARATI": "\u0964",
    "GURMUKHI": "\u0964",
    "KHMER": "\u17d4",
    "MYANMAR": "\u104b",
    "GREEK": "\u037e",
}
_OWN_WITHIN = {
    "ARABIC": "\u060c\u061b",
    "ETHIOPIC": "\u1361\u1363",
    "MYANMAR": "\u104a",
    "ARMENIAN": "\u055d\u055a",
}
# Blank, marks within a sentence, digits, and the two joiners that some scripts write.
_WITHIN = " 0-9,;'\u2019\u2013\u2014\u200c\u200d-"
# The code points among which letters are sought. Letters that no story needs, such as those of
# phonetics, are left out, because each further range of a class makes a grammar slower.
_SOUGHT = (range(0x250), range(0x300, 0x1C80), range(0x1E00, 0x2000), range(0xAC00, 0xD800))


@dataclass(frozen=True)
class Letters:
    """The insides of classes: the letters that may begin a sentence, the usual letters elsewhere,
    all signs within a sentence, and the signs that end it. `opens` and `closes` are quotation
    marks, and `gap` stands between sentences."""

    capital: str
    small: str
    within: str
    ends: str = ".?!"
    opens: str = '"'
    closes: str = '"'
    gap: str = " "

    @property
    def has_blanks(self) -> bool:
        return bool(self.gap)


def letters_of(texts: Iterable[str]) -> Letters | None:
    """Return the letters of the script that most of the texts is written in, or None if a grammar
    cannot hold this script."""
    scripts: Counter[str] = Counter()
    for sign, count in Counter(chain.from_iterable(texts)).items():
        if sign.isalpha():
            scripts[_script(sign)] += count
    if not scripts or (script := scripts.most_common(1)[0][0]) in _WITHOUT_STOPS:
        return None
    return _letters(script)


def _script(sign: str) -> str:
    first = unicodedata.name(sign, "?").split()[0]
    return _WITH_HAN.get(first, first)


@cache
def _letters(script: str) -> Letters | None:
    if script == _HAN:
        every = f"{HAN_AND_KANA}\u30fc"
        within = f"{every}0-9\u3001\u30fb\u2026\uff0c"
        return Letters(every, every, within, "\u3002\uff01\uff1f", "\u300c", "\u300d", "")
    capital, small, marks = [], [], []
    for run, kind in _runs(script):
        is_mixed = kind != "letter" and len(run) < _LEAST_RUN
        if kind == "mark":
            marks.append(run)
        if kind == "letter" or kind == "capital" or (is_mixed and kind == "small"):
            capital.append(run)
        if kind in ("letter", "small") or (is_mixed and kind == "capital"):
            small.append(run)
    if not small:
        return None
    if script in _WITHOUT_CAPITALS or not capital:
        capital = small
    first, then = _classes(capital), _classes(small)
    within = _classes([*capital, *small, *marks]) + _OWN_WITHIN.get(script, "") + _WITHIN
    return Letters(first, then, within, _OWN_ENDS.get(script, "") + ".?!")


def _runs(script: str) -> Iterator[tuple[range, str]]:
    """Yield the runs of neighbouring letters and marks of the script that are of one kind."""
    for block in _SOUGHT:
        kinds = ((code, _kind(chr(code)) if _belongs(code, script) else "") for code in block)
        for kind, run in groupby(kinds, key=itemgetter(1)):
            codes = [code for code, _ in run]
            if kind:
                yield range(codes[0], codes[-1] + 1), kind


def _belongs(code: int, script: str) -> bool:
    sign = chr(code)
    # A letter in another shape, such as a wide one, has the same normal form as the usual letter.
    return _script(sign) == script and unicodedata.normalize("NFKC", sign) == sign


def _kind(sign: str) -> str:
    category = unicodedata.category(sign)
    kinds = {"Lu": "capital", "Lt": "capital", "Ll": "small", "Lo": "letter", "Lm": "letter"}
    return kinds.get(category, "mark" if category.startswith("M") else "")


def _classes(runs: Iterable[range]) -> str:
    codes = sorted({code for run in runs for code in run})
    parts: list[list[int]] = []
    for code in codes:
        if parts and parts[-1][1] == code - 1:
            parts[-1][1] = code
        else:
            parts.append([code, code])
    return "".join(chr(a) if a == b else f"{chr(a)}-{chr(b)}" for a, b in parts)
