"""The languages that stories are told in, by their tags (BCP 47) such as "ar" or "pt-BR": their
names, the direction of their writing, and how a language is recognised in a text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from sessions.exceptions import InvalidInput
from sessions.language.stop_words import ENGLISH
from sessions.language.words import language_of
from sessions.limits import LANGUAGE_TAG_CHAR_LIMIT


@dataclass(frozen=True)
class Language:
    """A language with the name of the stemmer of its words in Latin letters, and with the heading
    that a table of contents has in it. Each of the two is "" if the program knows none."""

    tag: str
    name: str
    stemmer: str = ""
    contents: str = ""


_LANGUAGES = (
    Language("am", "Amharic"),
    Language("ar", "Arabic", "", "المحتويات"),
    Language("be", "Belarusian", "", "Змест"),
    Language("bg", "Bulgarian", "", "Съдържание"),
    Language("bn", "Bengali", "", "সূচিপত্র"),
    Language("ca", "Catalan", "catalan", "Índex"),
    Language("cs", "Czech", "czech", "Obsah"),
    Language("da", "Danish", "danish", "Indhold"),
    Language("de", "German", "german", "Inhalt"),
    Language("el", "Greek", "", "Περιεχόμενα"),
    Language("en", "English", ENGLISH, "Contents"),
    Language("es", "Spanish", "spanish", "Índice"),
    Language("et", "Estonian", "estonian", "Sisukord"),
    Language("eu", "Basque", "basque", "Aurkibidea"),
    Language("fa", "Persian", "", "فهرست"),
    Language("fi", "Finnish", "finnish", "Sisällys"),
    Language("fr", "French", "french", "Table des matières"),
    Language("ga", "Irish", "irish", "Clár"),
    Language("gu", "Gujarati"),
    Language("he", "Hebrew", "", "תוכן העניינים"),
    Language("hi", "Hindi", "", "विषय-सूची"),
    Language("hr", "Croatian", "", "Sadržaj"),
    Language("hu", "Hungarian", "hungarian", "Tartalom"),
    Language("hy", "Armenian", "", "Բովանդակություն"),
    Language("id", "Indonesian", "indonesian", "Daftar Isi"),
    Language("it", "Italian", "italian", "Indice"),
    Language("ja", "Japanese", "", "目次"),
    Language("ka", "Georgian", "", "სარჩევი"),
    Language("km", "Khmer"),
    Language("kn", "Kannada"),
    Language("ko", "Korean", "", "차례"),
    Language("lo", "Lao"),
    Language("lt", "Lithuanian", "lithuanian", "Turinys"),
    Language("lv", "Latvian", "", "Saturs"),
    Language("mk", "Macedonian", "", "Содржина"),
    Language("ml", "Malayalam"),
    Language("my", "Burmese"),
    Language("nb", "Norwegian", "norwegian", "Innhold"),
    Language("ne", "Nepali"),
    Language("nl", "Dutch", "dutch", "Inhoud"),
    Language("pa", "Punjabi"),
    Language("pl", "Polish", "polish", "Spis treści"),
    Language("pt", "Portuguese", "portuguese", "Índice"),
    Language("ro", "Romanian", "romanian", "Cuprins"),
    Language("ru", "Russian", "", "Содержание"),
    Language("si", "Sinhala"),
    Language("sk", "Slovak", "", "Obsah"),
    Language("sl", "Slovenian", "", "Kazalo"),
    Language("sr", "Serbian", "", "Садржај"),
    Language("sv", "Swedish", "swedish", "Innehåll"),
    Language("ta", "Tamil", "", "பொருளடக்கம்"),
    Language("te", "Telugu"),
    Language("th", "Thai", "", "สารบัญ"),
    Language("tr", "Turkish", "turkish", "İçindekiler"),
    Language("uk", "Ukrainian", "", "Зміст"),
    Language("ur", "Urdu", "", "فہرست"),
    Language("vi", "Vietnamese", "", "Mục lục"),
    Language("yi", "Yiddish", "", "אינהאַלט"),
    Language("zh", "Chinese", "", "目录"),
    Language("zh-Hant", "Chinese in traditional characters", "", "目錄"),
)
_BY_TAG = {one.tag: one for one in _LANGUAGES}
_BY_STEMMER = {one.stemmer: one.tag for one in _LANGUAGES if one.stemmer}

# A tag: a language, and perhaps a script, a region and variants.
_TAG = re.compile(
    r"([A-Za-z]{2,3})(?:-([A-Za-z]{4}))?(?:-([A-Za-z]{2}|[0-9]{3}))?"
    r"((?:-(?:[A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*)"
)
# Languages whose usual script is read from the right, for tags without a script; and the scripts
# that are read from the right.
_FROM_RIGHT = frozenset(["ar", "ckb", "dv", "fa", "he", "ks", "pnb", "ps", "sd", "ug", "ur", "yi"])
_SCRIPTS_FROM_RIGHT = frozenset(["Adlm", "Arab", "Hebr", "Nkoo", "Rohg", "Syrc", "Thaa"])

# The letters of each script that can show the language of a text. Where several languages have a
# script, `_BY_LETTERS` tells them apart.
_LETTERS = {
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "ru": "\u0400-\u052f",
    "hy": "\u0531-\u058f",
    "he": "\u05d0-\u05f4\ufb1d-\ufb4f",
    "ar": "\u0620-\u064a\u0671-\u06d3\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc",
    "hi": "\u0904-\u0939\u0958-\u0961",
    "bn": "\u0985-\u09b9",
    "pa": "\u0a05-\u0a39",
    "gu": "\u0a85-\u0ab9",
    "ta": "\u0b83-\u0bb9",
    "te": "\u0c05-\u0c39",
    "kn": "\u0c85-\u0cb9",
    "ml": "\u0d05-\u0d39",
    "si": "\u0d85-\u0dc6",
    "th": "\u0e01-\u0e30\u0e40-\u0e46",
    "lo": "\u0e81-\u0eb0\u0ec0-\u0ec6",
    "my": "\u1000-\u103f",
    "ka": "\u10d0-\u10ff",
    "am": "\u1200-\u137c",
    "km": "\u1780-\u17b3",
    "ko": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
    "ja": "\u3041-\u3096\u30a1-\u30fa",
    "zh": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
}
_OF_SCRIPT = {tag: re.compile(f"[{letters}]") for tag, letters in _LETTERS.items()}
_LETTER = re.compile(r"[^\W\d_]")
# The letters that only some of the languages of a script have. The first entry with a letter of the
# text decides. The entry "" says that no language is recognised.
_BY_LETTERS: dict[str, tuple[tuple[str, str], ...]] = {
    "ru": (
        ("[әғқңөұүһҳҷӣӯѓќѕ]", ""),
        ("ў", "be"),
        ("[іїєґ]", "uk"),
        ("[јљњћђџ]", "sr"),
        ("[ыэё]", "ru"),
        ("", ""),
    ),
    "ar": (("[ښځړټډێۆەڕڵېۈۇۋ]", ""), ("[ٹڈڑںےہ]", "ur"), ("[پچژگ]", "fa"), ("", "ar")),
}
# How many letters of its script a text must have, so that a name alone decides nothing. A character
# of Chinese or Japanese is nearly a word.
_ENOUGH_LETTERS, _ENOUGH_CHARACTERS = 12, 4
# Japanese has a kana in nearly every word, and Chinese none.
_MOST_CHARACTERS_A_KANA = 20
# At most this many texts are looked at, and at most this many characters of each.
_MOST_TEXTS, _MOST_OF_A_TEXT = 50, 20_000


def is_tag(text: str) -> bool:
    """Return whether the text is a tag as `clean_tag` writes it, or ""."""
    try:
        return clean_tag(text) == text
    except InvalidInput:
        return False


def clean_tag(tag: str) -> str:
    """Return the tag as it is usually written, or "" for none. Raises InvalidInput."""
    found = _TAG.fullmatch(tag.strip())
    if not tag.strip() or tag.strip().lower() == "und":
        return ""
    if found is None or len(tag) > LANGUAGE_TAG_CHAR_LIMIT:
        raise InvalidInput(
            "A language is written as a tag, such as en, ar or pt-BR. The old one was kept."
        )
    primary, script, region, variants = found.groups()
    parts = (primary.lower(), (script or "").title(), (region or "").upper())
    return "-".join(filter(None, parts)) + variants.lower()


def language_named(tag: str) -> Language:
    """Return the language of the tag, as far as the program knows it: for "pt-BR", Portuguese."""
    if tag.startswith(("zh-TW", "zh-HK")):
        tag = "zh-Hant"
    start = tag
    while start and start not in _BY_TAG:
        start = start.rpartition("-")[0]
    return _BY_TAG[start] if start else Language(tag, tag)


def languages_to_choose(chosen: str) -> list[Language]:
    """Return the languages that a page offers, by their names, and also the chosen language if it
    is not among these."""
    known = sorted(_LANGUAGES, key=lambda one: one.name)
    return known if not chosen or chosen in _BY_TAG else [Language(chosen, chosen), *known]


def stemmer_of(tag: str) -> str:
    """Return the stemmer of words in Latin letters in texts of this language."""
    return language_named(tag).stemmer or ENGLISH


def reads_from_right(tag: str) -> bool:
    """Return whether the language is written from right to left."""
    found = _TAG.fullmatch(tag)
    if found is None:
        return False
    return found[2] in _SCRIPTS_FROM_RIGHT if found[2] else found[1] in _FROM_RIGHT


def find_language(texts: Iterable[str]) -> str:
    """Return the tag of the language of the texts, or "" if they do not show it.

    A language is recognised by its script, or by the words that nearly every text of it has. A
    language with neither, for example Swedish, is not recognised.
    """
    looked_at = [text[:_MOST_OF_A_TEXT] for text in islice(texts, _MOST_TEXTS)]
    by_script = _by_script("\n".join(looked_at))
    return by_script if by_script is not None else _BY_STEMMER.get(language_of(looked_at), "")


def _by_script(text: str) -> str | None:
    """Return the language of the script that most letters belong to. Return "" if this script does
    not tell the language, and None if the letters are Latin."""
    letters = len(_LETTER.findall(text))
    counts = {tag: len(pattern.findall(text)) for tag, pattern in _OF_SCRIPT.items()}
    if counts["ja"] * _MOST_CHARACTERS_A_KANA > counts["zh"]:
        counts["ja"] += counts.pop("zh")
    tag, count = max(counts.items(), key=lambda one: one[1])
    if count * 2 <= letters:
        return None
    if count < (_ENOUGH_CHARACTERS if tag in ("ja", "zh") else _ENOUGH_LETTERS):
        return ""
    small = text.lower()
    kinds = _BY_LETTERS.get(tag, (("", tag),))
    return next(found for pattern, found in kinds if re.search(pattern, small))
