"""The form of the request to the embedded model for a character's reply.

It reads little: who the character is, how the chapter begins, and the new beat. The model would
answer earlier beats in place of the new one, and copy earlier replies, so its request has neither.
"""

import re
from collections.abc import Mapping

from agents.prompting.cleaning.declining import is_refusal
from agents.prompting.cleaning.reply_rules import says_again, shared_terms
from agents.prompting.layer_sources import file_piece, prompt_file, speaker
from agents.prompting.layers import Piece, Tier
from agents.prompting.letters import letters_of
from agents.prompting.sandwich import Subject
from agents.prompting.small_forms import SmallForm, examples, plain
from memory.blocks.blocks import knows
from memory.fold.folding import fold_chapter
from memory.fold.present import Present
from sessions.language.languages import find_language
from sessions.language.mentions import is_named_in
from sessions.language.sentences import outside_of_speech, split_sentences, split_speech
from sessions.language.words import terms_of
from sessions.models import Attempt, Event, Session
from sessions.record.chosen_events import chosen_events
from sessions.reply_lengths import ReplyLength

_MOST_OF_A_LINE, _MOST_OF_PREMISE = 300, 400
# The number of prompts before the new one among which the last beat is sought.
_SOUGHT = 12
# The number of turns whose words a reply must not repeat.
_COMPARED = 20
# The labels of the lines of an identity that the model may be told. The model would blurt out the
# other lines, such as a secret.
_TOLD = re.compile(r"(?:voice|speech|speaks|wants?|goals?)\s*:", re.IGNORECASE)
_LABELLED = re.compile(r"[^\W\d_][\w ]{1,20}:\s")
_SENTENCES: Mapping[str, str] = {
    ReplyLength.SHORT: "two",
    ReplyLength.NORMAL: "three",
    ReplyLength.LONG: "five",
}
# A prompt with fewer terms, such as "She waits.", says little by itself.
_MANY_TERMS = 4
# Words before a name. Nobody is called by such a word alone.
_TITLES = {
    "a",
    "an",
    "the",
    "agent",
    "mr",
    "mrs",
    "miss",
    "ms",
    "dr",
    "sir",
    "lady",
    "lord",
    "captain",
}
_YOU = re.compile(r"\byou\b", re.IGNORECASE)
# Phrases of assistants, which the model tends to put into a person's mouth.
_SERVICE = re.compile(
    r"\bsorry\b|\bassist\b|\bafraid (?:that )?I\b"
    r"|\b(?:can|could|may)(?:['\u2019]t|not)?(?: I)? help you",
    re.IGNORECASE,
)
# Patterns of a "you" that means the character, and the words that take its place. Any other "you"
# is kept, because the verb behind it would need another form after a name.
_WHOM = (
    "at|to|on|with|for|towards?|from|over|above|under|beside|behind|by|against|near|in front of"
    r"|(?!(?:as|is|was|this|unless|perhaps)\b)\w+(?:s|ed)"
)
_IS_MEANT = (
    (rf"\b({_WHOM}) you\b", r"\1 {}"),
    (r"(?<!of )\byou(?:['\u2019]re| are)\b", "{} is"),
    (r"\byou(?:['\u2019]ve| have)\b", "{} has"),
    (r"\byou(?:['\u2019]ll| will)\b", "{} will"),
    (r"\byou were\b", "{} was"),
    (r"\bare you\b", "is {}"),
    (r"\bdo you\b", "does {}"),
    (r"\bhave you\b", "has {}"),
    (r"\byours?\b", "{}'s"),
    (r"\byourself\b|\byou(?=[.,;:!?]|\Z)", "{}"),
)


def _question(name: str, sentences: str = "three") -> Piece:
    return file_piece("gamemaster.small_question", name=_called(name), sentences=sentences)


def _called(name: str) -> str:
    """Return the first name, or the whole name if it begins with a title."""
    first = name.partition(" ")[0]
    return name if first.rstrip(".").casefold() in _TITLES else first


def _example(about: str, name: str, beat: str, answer: str) -> tuple[str, str]:
    return f"{about}\n\nNow: {beat}\n\n{_question(name).text}", answer


# Each answer takes up the thing that the prompt brings, does something with it, and hands the turn
# back, because the model follows this order. The answers have no vivid words, because the model
# would repeat them in other stories.
_EXAMPLES = (
    _example(
        "A shop, in the afternoon.\n\n"
        "Anna Berg: shopkeeper, 50; dry, patient. Wants: to close on time.",
        "Anna Berg",
        "A boy comes in, out of breath, and asks Anna Berg for a lamp.",
        '"A lamp? At noon?" I look past the boy at the street. '
        '"You will get one, and then you will tell me what it is for."',
    ),
    _example(
        "A kitchen, in the evening.\n\n"
        "Peter Holm: cook, 30; quick, careful. Wants: to keep his place.",
        "Peter Holm",
        "The guest pushes the plate away. Under it lies a ring.",
        '"That is not one of ours." I leave the ring where it is and put down the tray. '
        '"Before you ask me, ask who laid the table."',
    ),
)


def _premise(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the premise of the chapter, its opening situation and its boundaries."""
    told = {one.label: one.texts for one in _memory(subject).settings}
    paragraphs = subject.chapter.tab1.chapter_text.strip().split("\n\n")
    parts = [
        " ".join(told.get("Premise", ())) or _first_sentences(subject.chapter.tab1.world_text),
        _first_sentences(paragraphs[0], _MOST_OF_PREMISE),
        *(f"Boundary: {text}" for text in told.get("Boundaries", ())),
    ]
    return [Piece("\n".join(filter(None, parts)))]


def _identity(subject: Subject, tier: Tier) -> list[Piece]:
    text = subject.chapter.private_text(subject.slot)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    plain_lines = [line for line in lines if not _LABELLED.match(line)]
    told = [*plain_lines[:1], *(line for line in lines if _TOLD.match(line))]
    parts = [_first_sentences(line) for line in told]
    return [Piece(f"{speaker(subject)}: {' '.join(parts)}".removesuffix(": "))]


def _known(subject: Subject, tier: Tier) -> list[Piece]:
    """Return what the character knows of earlier turns: the newest fact and open question."""
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


def _last_beat(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the last beat that the character witnessed, if the new beat says little by itself.
    Otherwise the model would answer the last beat too."""
    if subject.attempt and len(set(terms_of(subject.attempt.words))) >= _MANY_TERMS:
        return []
    chapter, last = subject.chapter, subject.last_prompt
    events = chosen_events(chapter, from_prompt=max(1, last - _SOUGHT), to_prompt=last)
    known = [one for one in events if knows(one.witnesses, subject.readers)]
    beats = [one for one in known if one.role == Event.Role.USER and one.text.strip()]
    if not beats:
        return []
    turn = [one for one in known if one.prompt_index == beats[-1].prompt_index]
    actor = next((one.agent_slot for one in turn if one.role == Event.Role.AGENT), None)
    name = "" if actor is None else chapter.character(actor).name
    told = split_sentences(told_of(_first_sentences(beats[-1].text), name))
    if actor != subject.slot:
        # The model would take a "you" that is meant for somebody else as meant for itself.
        told = [one for one in told if not _YOU.search(outside_of_speech(one))]
    return [Piece(" ".join(told))] if told else []


def told_of(beat: str, name: str) -> str:
    """Return the beat with the character's name in place of each English "you" outside of quotation
    marks. A "you" is kept where the verb behind it would need another form after the name."""
    if not name:
        return beat
    parts, escaped = split_speech(beat), name.replace("\\", r"\\")
    for at in range(0, len(parts), 2):
        for pattern, told in _IS_MEANT:
            parts[at] = re.sub(pattern, told.format(escaped), parts[at], flags=re.IGNORECASE)
    return "".join(parts)


def _first_sentences(text: str, most: int = _MOST_OF_A_LINE) -> str:
    """Return as many of the first sentences of the text as fit this length, but at least one."""
    told = ""
    for sentence in split_sentences(" ".join(text.split())):
        if told and len(told) + len(sentence) >= most:
            break
        told = f"{told} {sentence}".strip()
    return told


def _closing(subject: Subject, tier: Tier) -> list[Piece]:
    return [_question(speaker(subject), _SENTENCES[subject.chapter.reply_length])]


def is_english(chapter: Session) -> bool:
    """Return whether the chapter is told in English. In other languages the model would continue in
    English, like the examples."""
    tab1 = chapter.tab1
    language = chapter.told_language or find_language([tab1.world_text, tab1.chapter_text])
    return language.partition("-")[0] == "en"


def grammar(attempt: Attempt) -> str:
    """Return the grammar of a reply: words spoken aloud around deeds that begin with "I"."""
    chapter = attempt.session
    letters = letters_of([attempt.words, chapter.tab1.world_text, chapter.tab1.chapter_text])
    if letters is None:
        return ""
    told = {
        ReplyLength.SHORT: 'q " I " act',
        ReplyLength.NORMAL: 'q " I " act " " q',
        ReplyLength.LONG: 'q " I " act " " q " I " act " " q',
    }
    return "\n".join(
        [
            f"root ::= {told[ReplyLength(chapter.reply_length)]}",
            r'q ::= "\"" sent (" " sent)? "\""',
            f"sent ::= [{letters.capital}] c{{6,110}} [{letters.ends}]",
            f'act ::= [{letters.small}] c{{10,120}} [{letters.small}] "."',
            f"c ::= [{letters.within}]",
        ]
    )


def faults(attempt: Attempt, text: str) -> list[str]:
    """Return the faults of a reply, beside those of the rules in
    agents.prompting.cleaning.reply_rules."""
    last = (attempt.turn.number if attempt.turn else attempt.session.prompt_index + 1) - 1
    events = chosen_events(attempt.session, from_prompt=max(1, last - _COMPARED), to_prompt=last)
    earlier = events.filter(role=Event.Role.AGENT).values_list("text", flat=True)
    aloud, beat = split_speech(text)[1::2], attempt.words
    name = "" if attempt.actor is None else attempt.session.character(attempt.actor).name
    found = {
        "says again what was said": any(says_again(text, one) for one in earlier),
        "has words of another story": any(says_again(text, answer) for _, answer in _EXAMPLES),
        "tells the prompt again": says_again(text, beat),
        "says the same twice": any(
            says_again(one, " ".join(aloud[:at]), 3) for at, one in enumerate(aloud)
        ),
        "speaks as a service": any(map(_SERVICE.search, aloud)),
        # Such a reply is worse than any other, so it gets both faults.
        "declines": any(is_refusal(one) for words in aloud for one in split_sentences(words)),
        "names its own speaker": bool(name) and is_named_in(text, _called(name)),
        "takes up nothing of the prompt": len(terms_of(beat)) >= _MANY_TERMS
        and not shared_terms(text, beat),
    }
    return [fault for fault, is_found in found.items() if is_found]


def _new_beat(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the user's words as a small form tells them, once there are words."""
    name = "" if subject.slot is None else speaker(subject)
    return [
        Piece(f"Now: {told_of(piece.text.strip(), name)}")
        for piece in subject.own_pieces.get("USER_PROMPT", ())
    ]


SMALL_FORM = SmallForm(
    (
        plain("SYSTEM", prompt_file("gamemaster.small_system"), "system"),
        *examples(*_EXAMPLES),
        plain("PREMISE", _premise),
        plain("AGENT_IDENTITY", _identity),
        plain("STRUCTURED_MEMORY", _known),
        plain("LAST_BEATS", _last_beat),
        plain("USER_PROMPT", _new_beat),
        plain("YOUR_REPLY", _closing),
    ),
    output_tokens=80,
    grammar=grammar,
    faults=faults,
    most_tries=4,
    temperature=0.6,
    suits=is_english,
    hears=(
        "The small model hears little: who the character is, how the chapter begins, your "
        "prompt, the one before if yours is short, and the newest fact and open question of "
        "memory. It hears no earlier reply."
    ),
)
