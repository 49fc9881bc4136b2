"""The form in which the embedded model is asked for a character's reply.

It reads little: who the character is, how the chapter begins, the last two beats and the new one.
It would copy replies that it read, also what others said in them, so it is told none.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from agents.prompting.cleaning.reply_rules import says_again
from agents.prompting.layer_sources import file_piece, own_pieces, prompt_file, speaker
from agents.prompting.layers import Piece, Tier
from agents.prompting.letters import Letters, letters_of
from agents.prompting.sandwich import Subject
from agents.prompting.small_forms import SmallForm, examples, plain
from memory.blocks.blocks import knows
from memory.fold.folding import fold_chapter
from memory.fold.present import Present
from sessions.language.languages import find_language, language_named
from sessions.language.sentences import split_sentences
from sessions.models import Attempt, Event, Session
from sessions.record.chosen_events import chosen_events
from sessions.reply_lengths import ReplyLength

_MOST_OF_A_LINE, _MOST_OF_PREMISE = 300, 400
# How many earlier beats are told, and among how many prompts before the new one they are sought.
_BEATS, _SOUGHT = 2, 12
# Among how many turns a reply must not say words again that were said.
_COMPARED = 20
# The labels of an identity's lines that a model may be told. It would blurt out the others, such as
# a secret.
_TOLD = re.compile(r"(?:voice|speech|speaks|wants?|goals?)\s*:", re.IGNORECASE)
_LABELLED = re.compile(r"[^\W\d_][\w ]{1,20}:\s")
_SENTENCES: Mapping[str, str] = {
    ReplyLength.SHORT: "two",
    ReplyLength.NORMAL: "three",
    ReplyLength.LONG: "five",
}
# What stands for "you" outside of quotation marks, if the beat means the character by it.
_IS_MEANT = (
    (r"\byou(?:['\u2019]re| are)\b", "{} is"),
    (r"\byou(?:['\u2019]ve| have)\b", "{} has"),
    (r"\byou(?:['\u2019]ll| will)\b", "{} will"),
    (r"\byou were\b", "{} was"),
    (r"\b(?:are you)\b", "is {}"),
    (r"\b(?:do you)\b", "does {}"),
    (r"\b(?:have you)\b", "has {}"),
    (r"\byours?\b", "{}'s"),
    (r"\byou(?:rself)?\b", "{}"),
)


def _question(name: str, sentences: str = "three", language: str = "") -> Piece:
    written = f" Write all of it in {language}." if language else ""
    return file_piece("gamemaster.small_question", name=name, sentences=sentences, language=written)


def _example(about: str, name: str, beat: str, answer: str) -> tuple[str, str]:
    return f"{about}\n\nNow: {beat}\n\n{_question(name).text}", answer


_EXAMPLES = (
    _example(
        "A lock-keeper's house beside a canal, in the rain.\n\n"
        "Oskar: lock-keeper, fifty, slow to trust. Says little. Wants his evening to himself.",
        "Oskar",
        "A bargeman stands outside with his cap in his hand and asks to be let through tonight.",
        '"Tonight? You could have come an hour ago." I stay in the doorway and look at his cap. '
        '"What are you carrying that cannot wait until the morning?"',
    ),
    _example(
        "A bakery, an hour before dawn.\n\n"
        "Ilse: baker, quick, laughs at herself. Wants to be done before the others are up.",
        "Ilse",
        "The boy sets down the last tray and says that somebody has been at the flour.",
        '"Whoever it was is white to the elbows, and I am not." I run one finger along the edge '
        'of the tray. "Come here, and show me your sleeves."',
    ),
)


def _premise(subject: Subject, tier: Tier) -> list[Piece]:
    """Return what the chapter is about, how it begins, and what it may not show."""
    told = {one.label: one.texts for one in _memory(subject).settings}
    paragraphs = subject.chapter.tab1.chapter_text.strip().split("\n\n")
    parts = [
        " ".join(told.get("Premise", ())) or _first_sentences(subject.chapter.tab1.world_text),
        _first_sentences(paragraphs[0], _MOST_OF_PREMISE),
        *(f"Never shown: {text}" for text in told.get("Boundaries", ())),
    ]
    return [Piece("\n".join(filter(None, parts)))]


def _identity(subject: Subject, tier: Tier) -> list[Piece]:
    text = subject.chapter.agent_texts("identity_text").get(str(subject.slot), "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    plain_lines = [line for line in lines if not _LABELLED.match(line)]
    told = [*plain_lines[:1], *(line for line in lines if _TOLD.match(line))]
    parts = [_first_sentences(line) for line in told]
    return [Piece(f"{speaker(subject)}: {' '.join(parts)}".removesuffix(": "))]


def _known(subject: Subject, tier: Tier) -> list[Piece]:
    """Return what the character knows beside the last beats: the newest fact and open question."""
    now = _memory(subject)
    facts = [one for one in now.canon if not one.is_in_lock][-1:]
    threads = [one for one in now.open_threads if not one.is_in_lock][-1:]
    lines = [f"{speaker(subject)} knows: {one.text}" for one in facts]
    lines += [f"Still open: {one.text}" for one in threads]
    return [Piece("\n".join(lines))] if lines else []


def _memory(subject: Subject) -> Present:
    readers = None if subject.slot is None else (subject.slot,)
    folded = fold_chapter(subject.chapter, before=subject.before, readers=readers)
    return Present(folded, subject.everybody)


def _last_beats(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the last beats that the character witnessed, with what others answered aloud."""
    chapter, last = subject.chapter, subject.last_prompt
    events = chosen_events(chapter, from_prompt=max(1, last - _SOUGHT), to_prompt=last)
    turns: dict[int, list[Event]] = {}
    for event in events:
        if knows(event.witnesses, subject.readers):
            turns.setdefault(event.prompt_index, []).append(event)
    told = [list(_told_turn(subject, turns[number])) for number in sorted(turns)[-_BEATS:]]
    lines = [line for turn in told for line in turn]
    return [Piece("\n".join(lines))] if lines else []


def _told_turn(subject: Subject, events: Sequence[Event]) -> Iterator[str]:
    chapter = subject.chapter
    actor = next((one.agent_slot for one in events if one.role == Event.Role.AGENT), None)
    for event in events:
        if event.role == Event.Role.USER and event.text.strip():
            name = "" if actor is None else chapter.character(actor).name
            yield told_of(_first_sentences(event.text.strip()), name)


def told_of(beat: str, name: str) -> str:
    """Return the beat with the name of the character in place of an English "you" that means it,
    which is each one outside of quotation marks."""
    parts = re.split('("[^"]*"|\u201c[^\u201d]*\u201d)', beat) if name else [beat]
    for at in range(0, len(parts) if name else 0, 2):
        for pattern, told in _IS_MEANT:
            parts[at] = re.sub(pattern, told.format(name), parts[at], flags=re.IGNORECASE)
    return "".join(parts)


def _first_sentences(text: str, most: int = _MOST_OF_A_LINE) -> str:
    """Return the first sentences of the text that are not longer together, or the first one."""
    told = ""
    for sentence in split_sentences(" ".join(text.split())):
        if told and len(told) + len(sentence) >= most:
            break
        told = f"{told} {sentence}".strip()
    return told


def _closing(subject: Subject, tier: Tier) -> list[Piece]:
    language = language_of(subject.chapter)
    name = language_named(language).name if language not in ("", "en") else ""
    return [_question(speaker(subject), _SENTENCES[subject.chapter.reply_length], name)]


def language_of(chapter: Session) -> str:
    tab1 = chapter.tab1
    return chapter.told_language or find_language([tab1.world_text, tab1.chapter_text])


def grammar(attempt: Attempt) -> str:
    """Return the grammar of a reply: words spoken aloud around one deed, which begins with "I" in
    an English story."""
    chapter = attempt.session
    letters = letters_of([attempt.words, chapter.tab1.world_text, chapter.tab1.chapter_text])
    if letters is None:
        return ""
    is_english = language_of(chapter).partition("-")[0] == "en"
    deed = '" I " act' if is_english else f'"{letters.gap}" sent'
    told = {
        ReplyLength.SHORT: f"q {deed}",
        ReplyLength.LONG: f'q {deed} "{letters.gap}" q {deed} "{letters.gap}" q',
    }.get(ReplyLength(chapter.reply_length), f'q {deed} "{letters.gap}" q')
    return "\n".join([f"root ::= {told}", *_rules(letters)])


def _rules(letters: Letters) -> list[str]:
    longest = 110 if letters.has_blanks else 40
    least = 6 if letters.has_blanks else 2
    opens, closes = (mark.replace('"', '\\"') for mark in (letters.opens, letters.closes))
    return [
        f'q ::= "{opens}" sent ("{letters.gap}" sent)? "{closes}"',
        f"sent ::= [{letters.capital}] c{{{least},{longest}}} [{letters.ends}]",
        f'act ::= [{letters.small}] c{{10,120}} [{letters.small}] "."',
        f"c ::= [{letters.within}]",
    ]


def faults(attempt: Attempt, text: str) -> list[str]:
    """Return what is wrong with a reply, beside the rules of
    agents.prompting.cleaning.reply_rules."""
    last = (attempt.turn.number if attempt.turn else attempt.session.prompt_index + 1) - 1
    events = chosen_events(attempt.session, from_prompt=max(1, last - _COMPARED), to_prompt=last)
    earlier = events.filter(role=Event.Role.AGENT).values_list("text", flat=True)
    found = ["says again what was said"] if any(says_again(text, one) for one in earlier) else []
    if any(says_again(text, answer) for _, answer in _EXAMPLES):
        found.append("has words of another story")
    return found


def beat_of(attempt: Attempt) -> Piece:
    """Return the new beat as a small form tells it."""
    name = "" if attempt.actor is None else attempt.session.character(attempt.actor).name
    return Piece(f"Now: {told_of(attempt.words.strip(), name)}")


SMALL_FORM = SmallForm(
    (
        plain("SYSTEM", prompt_file("gamemaster.small_system"), "system"),
        *examples(*_EXAMPLES),
        plain("PREMISE", _premise),
        plain("AGENT_IDENTITY", _identity),
        plain("STRUCTURED_MEMORY", _known),
        plain("LAST_BEATS", _last_beats),
        plain("USER_PROMPT", own_pieces("NOW")),
        plain("YOUR_REPLY", _closing),
    ),
    output_tokens=80,
    grammar=grammar,
    faults=faults,
    most_tries=3,
    hears=(
        "The small model hears little: who the character is, how the chapter begins, the two "
        "prompts before yours, and the newest fact and open question of memory. It hears no "
        "earlier reply."
    ),
)
