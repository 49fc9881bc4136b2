"""Says which letters may stand before and behind a name within one word, by the script of the name.

All is written in plain spelling (see `sessions.language.spelling`). docs/exploring.md says what is
not tried.
"""

# ruff: noqa: RUF001  (letters of other scripts)

import re

from sessions.language.words import HAN_AND_KANA, UNSPACED

# The scripts that write names of other scripts without blanks between their own words: the scripts
# that have no blanks, and Korean, whose particles follow a name at once.
_WITHOUT_BLANKS = rf"{UNSPACED}\uac00-\ud7af"
_KANA = "\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_OF_SCRIPT_WITHOUT_BLANKS = re.compile(f"[{_WITHOUT_BLANKS}]")
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff]")
_HIRAGANA = re.compile("[\u3041-\u3096]")
_HAN = re.compile(f"(?![{_KANA}])[{HAN_AND_KANA}]")
_HANGUL = re.compile("[\uac00-\ud7af]")
_THAI_OR_LAO = re.compile("[\u0e01-\u0eff]")
_TIBETAN = re.compile("[\u0f40-\u0fbc]")
_BURMESE_OR_KHMER = re.compile("[\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f]")
_ARABIC = re.compile("[\u0620-\u064a\u066e-\u06d3\u06ee-\u06ff\u0750-\u077f]")
_HEBREW = re.compile("[\u05d0-\u05ea]")
_CYRILLIC = re.compile("[\u0400-\u052f]")

# The titles and particles that may follow a name in Japanese.
_JAPANESE = re.compile(
    "さん|ちゃん|くん|君|様|さま|殿|氏|先生|先輩|たん|は|が|を|に|の|と|も|へ|や|で|から|まで|より|だ|って|なら"
)
# Characters that are words of their own in Chinese and Japanese, so that only a title behind them
# shows that they are a name.
_WORDS_OF_ONE = frozenset(
    "山川河海湖空天地森林木火水土金石岩花草葉月日星雪雨風雷雲霧光影闇夜朝昼春夏秋冬東西南北道路町村国"
    "王家門窓鳥犬猫馬魚竜龍狼熊狐心手目口耳声名人子女男父母兄弟姉妹神鬼剣弓船島城塔橋薬酒茶音色夢愛死命"
)
_TITLE_OF_JAPANESE = re.compile("さん|ちゃん|くん|君|様|さま|殿|氏|先生|先輩|たん")
# The endings of a Korean word that begins with a name: a title and particles. A name of one
# syllable may be a part of any word, so fewer endings show that it is a name.
_TITLE = "(?:이)?(?:씨|님|군|양|형|누나|언니|오빠|아저씨|아줌마|할머니|할아버지|선생님|선생|선배)?"
_PARTICLE = (
    "은|는|이|가|을|를|의|에|에게|에게서|한테|한테서|께|께서|와|과|랑|이랑|하고|도|만|아|야|이야|여|이여|로|으로"
    "|에서|부터|까지|처럼|같이|보다|마저|조차|밖에|더러|라고|이라고|라는|이라는|란|이란|나|이나|든|이든|다|이다"
    "|예요|이에요|입니다|입니까|인|인가|인지|인데|네|들|요|이요|뿐|라면|이라면|라도|이라도|이?였[가-힣]{1,3}"
    "|이었[가-힣]{1,3}"
)
_KOREAN = re.compile(f"{_TITLE}(?:{_PARTICLE})?(?:은|는|이|가|을|를|도|만|의|조차|까지|이다)?")
_SHORT_KOREAN = re.compile(
    "이?(?:씨|님|군|양|아|야|에게|한테|이가|이는)(?:은|는|이|가|을|를|의|도|에게)?"
)
# The words that Arabic and Hebrew write together with the next one: and, so, in, to, like, the. A
# short name is found behind fewer of these words, because other words look like a short name.
_BEFORE_ARABIC = re.compile("[وف]?(?:[بكل]?ال|[بكل]|لل)?")
_BEFORE_SHORT_ARABIC = re.compile("[وفبل]|[وف][بل]")
_BEFORE_HEBREW = re.compile("ו?(?:כש|ש)?[המלבכ]?")
_BEFORE_SHORT_HEBREW = re.compile("ו?(?:כש|ש)?[מלבכ]?")
_SHORT_ARABIC, _SHORT_HEBREW = 3, 3
# The vowels of Thai and Lao that are written before their consonant but spoken after it, and the
# vowels that are written behind it.
_VOWELS_BEFORE, _VOWELS_BEHIND = (
    "\u0e40-\u0e44\u0ec0-\u0ec4",
    "\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3",
)
_BEFORE_THAI = re.compile(rf"(?<![{_VOWELS_BEFORE}])\Z")
_BEHIND_THAI = re.compile(rf"(?![{_VOWELS_BEHIND}])")
_TITLES_OF_THAI = re.compile("(?:คุณ|นาย|นาง|นางสาว|พี่|น้อง|ลุง|ป้า)\\Z")
# Burmese: a letter with a sign (asat or virama) that makes it the end of the syllable before it.
_CODA = re.compile("[\u1000-\u102a\u103f][\u103a\u1039]")
_BEHIND_TIBETAN = re.compile("(?:འི|ས|ར|འོ|འང)?(?![\u0f40-\u0fbc])")
# The endings of the cases of a name in Russian and its neighbours, by the end of the name.
_CASES_OF_CYRILLIC = (
    (re.compile("(?:ый|ий|ой)\\Z"), "[ыио]й|[ое]го|[ое]му|[иы]м|[ое]м|и[яюие]|ием"),
    (re.compile("[ая]я\\Z"), "[ая]я|[ое]й|[уюи]ю|и|е"),
    (re.compile("[ая]\\Z"), "[аяыиуюеоіїє]|[ое]ю|[ое]й"),
    (re.compile("й\\Z"), "[йяюеиї]|ем|єм|[єе]ві"),
    (re.compile("ь\\Z"), "[ьяюеиі]|ем|ью|[ео]м"),
    (re.compile("(?<=[^аеиоуыэюяєіїьъ])\\Z"), "[ауеі]?|ом|ем|ым|ові|еві"),
)
_SHORTEST_STEM, _SHORTEST_WITHOUT_ENDING = 2, 3
# The endings of a name in Greek. The plain spelling writes a final sigma as any other sigma.
_CASES_OF_GREEK = (
    (re.compile("οσ\\Z"), "οσ|ου|ο|ε"),
    (re.compile("([αη])σ\\Z"), r"[αη]σ?"),
    (re.compile("[αη]\\Z"), "[αη]σ?"),
)
_GREEK = re.compile("[\u0370-\u03ff]")
# Letters that Finnish has, and that few other languages have together.
_FINNISH = re.compile("[äÄ]"), re.compile("ii|uu|yy|ää|öö")
# Pattern: no letter of a script with blanks follows.
_ENDS = rf"(?![^\W_{_WITHOUT_BLANKS}])"
_CASES_OF_FINNISH = "n|[aeiou]n|t?t?a|ssa|sta|lla|lta|lle|ksi|na|tta"


def word_with(name: str, language: str) -> str:
    """Return a pattern for a part of a name without a blank, with the case endings of the language.
    `language` is "" if it is not known."""
    if _CYRILLIC.match(name[-1]):
        for end, cases in _CASES_OF_CYRILLIC:
            if found := end.search(name):
                stem = name[: found.start()]
                least = _SHORTEST_STEM if found[0] else _SHORTEST_WITHOUT_ENDING
                is_long = len(stem) >= least
                return f"{re.escape(stem)}(?:{cases}){_ENDS}" if is_long else re.escape(name)
    if _GREEK.match(name[-1]):
        for end, cases in _CASES_OF_GREEK:
            if found := end.search(name):
                return f"{re.escape(name[: found.start()])}(?:{cases}){_ENDS}"
    if language == "finnish":
        joint = "" if name[-1] in "aeiouy" else "i"
        return rf"{re.escape(name)}(?:{joint}(?:{_CASES_OF_FINNISH}))?{_ENDS}"
    if language == "german":
        return rf"{re.escape(name)}s?{_ENDS}"
    return re.escape(name)


def is_finnish(text: str) -> bool:
    return all(sign.search(text) for sign in _FINNISH)


def may_stand_before(before: str, name: str) -> bool:
    """Return whether a name may follow these letters, which come directly before it."""
    first, last = name[0], before[-1]
    if _HIRAGANA.match(first):
        return not _HIRAGANA.match(last)
    if _KATAKANA.match(first):
        return not _KATAKANA.match(last)
    if _HAN.match(first):
        return len(name) > 1 or not _HAN.match(last)
    if _THAI_OR_LAO.match(first):
        return bool(_BEFORE_THAI.search(before))
    if _BURMESE_OR_KHMER.match(first):
        return True
    if _ARABIC.match(first):
        pattern = _BEFORE_SHORT_ARABIC if len(name) <= _SHORT_ARABIC else _BEFORE_ARABIC
        return len(name) >= _SHORT_ARABIC and bool(pattern.fullmatch(_run(before, _ARABIC)))
    if _HEBREW.match(first):
        pattern = _BEFORE_SHORT_HEBREW if len(name) <= _SHORT_HEBREW else _BEFORE_HEBREW
        fits = pattern.fullmatch(_run(before, _HEBREW))
        return len(name) >= _SHORT_HEBREW and bool(fits)
    return _is_another_script(first, last)


def may_stand_behind(behind: str, name: str) -> bool:
    """Return whether these letters, which come directly behind a name, are no part of the word."""
    last, first = name[-1], behind[0]
    if _HIRAGANA.match(last):
        return bool(_JAPANESE.match(behind)) or not _HIRAGANA.match(first)
    if _KATAKANA.match(last):
        return not _KATAKANA.match(first)
    if _HAN.match(last):
        shown = _TITLE_OF_JAPANESE if name in _WORDS_OF_ONE else _JAPANESE
        return len(name) > 1 or bool(shown.match(behind))
    if _HANGUL.match(last):
        pattern = _KOREAN if len(name) > 1 else _SHORT_KOREAN
        run = re.match(rf"{_HANGUL.pattern}*", behind)
        return bool(run and (not run[0] or pattern.fullmatch(run[0])))
    if _THAI_OR_LAO.match(last):
        return bool(_BEHIND_THAI.match(behind))
    if _BURMESE_OR_KHMER.match(last):
        return not _CODA.match(behind)
    if _TIBETAN.match(last):
        return bool(_BEHIND_TIBETAN.match(behind))
    return _is_another_script(last, first)


def is_too_short(name: str, before: str, behind: str) -> bool:
    """Return whether a name of a script without blanks is so short that it could be a part of
    another word here. `before` and `behind` are the letters directly beside it."""
    letters = sum(map(str.isalnum, name))
    is_short = letters < 3 and (_THAI_OR_LAO.match(name) or _BURMESE_OR_KHMER.match(name))
    return bool(is_short and before and behind and not _TITLES_OF_THAI.search(before))


def _run(before: str, script: re.Pattern[str]) -> str:
    """Return the run of letters of this script at the end of the text."""
    at = len(before)
    while at and script.match(before[at - 1]):
        at -= 1
    return before[at:]


def _is_another_script(one: str, other: str) -> bool:
    """Return whether these two letters cannot be of one word, because one of them is of a script
    that writes names of other scripts without blanks between its own words."""
    return _writes_together(one) != _writes_together(other)


def _writes_together(letter: str) -> bool:
    return bool(_OF_SCRIPT_WITHOUT_BLANKS.match(letter))
