"""The rules for finding a reply that speaks of the request instead of the story.

The embedded model writes such replies now and then. They are asked for once more, see
agents.flows.replies.further_calls. docs/flows.md tells users the rules.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agents.prompting.cleaning.declining import looks_like_refusal
from sessions.language.sentences import split_sentences
from sessions.language.stop_words import ENGLISH
from sessions.language.words import UNSPACED, count_words, language_of, terms_of, words_of

LEAST_WORDS = 8
# A shorter sentence may be said again, because people do so.
_LEAST_SENTENCE_WORDS = 4

_WORDS = {
    "names the GM": re.compile(r"\bGMs?\b|\bgame[ -]?masters?\b", re.IGNORECASE),
    "says scenario": re.compile(r"\bscenarios?\b", re.IGNORECASE),
    "says character": re.compile(r"\bcharacters?\b", re.IGNORECASE),
    "says boundaries": re.compile(r"\bboundar(?:y|ies)\b", re.IGNORECASE),
    "speaks of the request": re.compile(
        r"\bthis prompt\b|\b(?:the|this|your) (?:new|next) beat\b"
        r"|^[^\w\n]*(?:user|response)(?:\*\*)?:",
        re.IGNORECASE | re.MULTILINE,
    ),
    "begins with I notice": re.compile(r"\A\W*I(?: can)? notice\b", re.IGNORECASE),
}
_DECLINES = "declines as a program"
_TOO_SHORT = f"has under {LEAST_WORDS} words"
_SPEAKER = "has a name with said or a colon"
_NO_I = "has no I"
_REPEATS = "repeats a sentence of the prompt"
_REPEATS_ITSELF = "repeats an earlier reply"
# Two replies are compared by their runs of this many words. A reply repeats another one if at least
# half of its runs stand in the other one.
_RUN_WORDS = 3
LONG_RUN_WORDS = 5

_I = re.compile(r"\bI\b")
_COLON = re.compile(r"[:\uff1a]\s")
# A name may follow letters of a script that puts no blanks between words.
_NAME_BEGINS = rf"(?<![^\W{UNSPACED}])"


@dataclass(frozen=True)
class Asked:
    """The data that a reply is compared with: the prompt, the names of the cast, and the
    character's earlier replies."""

    prompt: str
    names: Sequence[str] = ()
    earlier: Sequence[str] = ()


def broken_rules(reply: str, asked: Asked) -> list[str]:
    """Return the names of the rules that the reply breaks.

    The rules about words are English, so that a reply in another language is held only to the rules
    about names, length and repetitions.
    """
    broken = [name for name, words in _WORDS.items() if words.search(reply)]
    if looks_like_refusal(reply):
        broken.append(_DECLINES)
    if count_words(reply) < LEAST_WORDS:
        broken.append(_TOO_SHORT)
    if _names_a_speaker(reply, asked.names):
        broken.append(_SPEAKER)
    if not _I.search(reply) and _is_english(asked.prompt, reply):
        broken.append(_NO_I)
    if _repeats_sentence(reply, asked.prompt):
        broken.append(_REPEATS)
    if any(_repeats(reply, one) for one in asked.earlier):
        broken.append(_REPEATS_ITSELF)
    return broken


def shared_terms(reply: str, prompt: str) -> int:
    """Return how many terms of the prompt the reply has."""
    return len(set(terms_of(reply)) & set(terms_of(prompt)))


def says_again(reply: str, earlier: str, words: int = LONG_RUN_WORDS) -> bool:
    """Return whether the reply has a run of this many words of the earlier text. A run of the
    default number of words does not happen by chance."""
    return bool(_runs_of(reply, words) & _runs_of(earlier, words))


def has_speech(reply: str) -> bool:
    """Return whether the reply has words in quotation marks."""
    return bool(
        re.search('["\u201c\u201e\u00ab\u300c\u300e][^"\u201c\u201d\u00bb\u300d\u300f]*\\w', reply)
    )


def _names_a_speaker(reply: str, names: Sequence[str]) -> bool:
    # A part of a name counts only with its own capital letters, because it may be a word.
    parts = [part for name in names for part in (name, *name.split())]
    spelt = {part for part in parts if part[:1].isalpha() and not part[:1].islower()}
    if not spelt:
        return False
    name = "|".join(re.escape(one) for one in sorted(spelt, key=len, reverse=True))
    pattern = (
        rf"{_NAME_BEGINS}(?:{name})(?:\*\*)?(?::(?!\w)|\uff1a|,? (?:said|says)\b)"
        rf"|\b(?:said|says) (?:{name})\b"
    )
    return bool(re.search(pattern, reply))


def _repeats_sentence(reply: str, prompt: str) -> bool:
    told = f" {' '.join(words_of(reply))} "
    parts = (part for one in split_sentences(prompt) for part in _COLON.split(one))
    sentences = map(words_of, parts)
    return any(
        len(words) >= _LEAST_SENTENCE_WORDS and f" {' '.join(words)} " in told
        for words in sentences
    )


def _repeats(reply: str, earlier: str) -> bool:
    runs = _runs_of(reply)
    return bool(runs) and 2 * len(runs & _runs_of(earlier)) >= len(runs)


def _runs_of(text: str, length: int = _RUN_WORDS) -> set[tuple[str, ...]]:
    words = words_of(text)
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}


def _is_english(*texts: str) -> bool:
    letters = [sign for text in texts for sign in text if sign.isalpha()]
    is_latin = 2 * sum(map(str.isascii, letters)) >= len(letters)
    return is_latin and language_of(texts) in (ENGLISH, "")
