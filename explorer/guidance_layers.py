"""The layers of the narrator's request with the author's note, the examples of talk and the
lorebook. Each has a record of why its texts are told or not.

The note splits the history, because it stands before the last turns. The lore is the last layer of
the part that changes with each turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agents.prompting.declarations import RECENT_CONTEXT
from agents.prompting.layer_sources import recent_context
from agents.prompting.layers import IN, OUT, Piece, Pieces, Tier, Trim, keep_last
from agents.prompting.sandwich import LayerDeclaration, Source, Subject
from explorer.guidance import Role, TalkExample
from explorer.lore import ScannedTurn, judge, most_scanned, pieces_of, tokens_of
from explorer.outcome import told_change
from explorer.played_world import world_for
from explorer.setup import setup_for
from sessions.models import PERSON, Attempt, Session
from sessions.record.transcript import chosen_entries
from world.state import World

# The limit of tokens of all examples of talk together. A small model has little room.
_MOST_OF_TALK: dict[Tier, int] = {"full": 3_000, "medium": 1_500, "minimal": 500}
# In a small window, lore and examples may each take one part in this many (an eighth).
_MOST_SHARE = 8
_ROLES: tuple[Role, ...] = ("system", "user", "assistant")
_EVERYBODY = "everybody"


def talk(subject: Subject, tier: Tier) -> Pieces:
    """Return the examples of how people talk. The examples of a hidden person are left out until
    the turn after the meeting, so that the system message stays the same in all steps of a turn."""
    setup = setup_for(subject)
    if not any(one.text.strip() for one in setup.talk):
        return Pieces()
    world, met = world_for(subject), _met_in(subject.attempt)
    most = room = _room(subject, _MOST_OF_TALK[tier])
    pieces, record = [], list[str]()
    for one in setup.talk:
        name = " ".join(one.name.split()) or _EVERYBODY
        reason = _why_not_told(one, world, met)
        tokens = tokens_of(one.text)
        if not reason and tokens > room:
            reason = f"over the budget of {most:,} tokens"
        if not reason:
            room -= tokens
            # If the request still lacks room, the last examples are dropped first.
            at = len(record)
            pieces.append(Piece(f"{name}:\n{one.text.strip()}", rank=-at, recorded_at=at))
        record.append(f"{OUT}{name} ({reason})" if reason else f"{IN}{name}")
    lead = "HOW PEOPLE TALK (examples of their manner; none of this has happened):"
    return Pieces.with_record(_under(lead, pieces), record)


def lore(subject: Subject, tier: Tier) -> Pieces:
    """Return the entries of the lorebook that are constant or triggered."""
    lorebook = setup_for(subject).lorebook
    if not lorebook.entries:
        return Pieces()
    turns = list(_last_turns(subject, most_scanned(lorebook)))
    judged = judge(lorebook, turns, _room(subject, lorebook.token_budget))
    pieces = _under("LORE (what holds in this story):", pieces_of(judged))
    return Pieces.with_record(pieces, [one.line for one in judged])


def _under(heading: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces under a heading. The heading is dropped with the last piece."""
    return [Piece(heading, heads=len(pieces)), *pieces] if pieces else []


def _note_as(role: Role) -> Source:
    def note(subject: Subject, tier: Tier) -> Pieces:
        """Return the author's note if it has this role."""
        own = setup_for(subject).note
        if own.role != role or not own.text.strip():
            return Pieces()
        before, after = _split(subject, tier)
        is_one = len(after) == 1
        if not after:
            where = "after the history"
        elif before or len(after) == own.depth:
            # If there are several pieces, fitting may leave out the oldest.
            turns = f"{len(after)} turns, as far as there is room for them"
            where = f"before the last {'turn' if is_one else turns}"
        else:
            turns = "one turn" if is_one else f"{len(after)} turns"
            where = f"at the beginning of the history, which has only {turns}"
        return Pieces.with_record([Piece(own.text.strip())], [f"{IN}{where}, as {role}"])

    return note


def _before_note(subject: Subject, tier: Tier) -> Sequence[Piece]:
    return _split(subject, tier)[0]


def _after_note(subject: Subject, tier: Tier) -> Sequence[Piece]:
    return _split(subject, tier)[1]


def _split(subject: Subject, tier: Tier) -> tuple[Sequence[Piece], Sequence[Piece]]:
    """Return the turns of the history before and after the note. Without a note, all of them stand
    before it. The latest turn is always kept."""
    turns = keep_last(recent_context(subject, tier), 1)
    note = setup_for(subject).note
    at = max(len(turns) - note.depth, 0) if note.text.strip() else len(turns)
    return turns[:at], turns[at:]


def _last_turns(subject: Subject, count: int) -> Iterator[ScannedTurn]:
    """Yield the last turns. Of the present turn, these are the player's words, and the changes of
    the world that its steps have made."""
    if not count:
        return
    last = subject.last_prompt
    if count > 1 and last:
        yield from _turns(subject.chapter, max(last - count + 2, 1), last)
    present = [*_present_lines(subject.attempt)] if subject.attempt else []
    yield ScannedTurn(last + 1, "\n".join(present))


def _turns(chapter: Session, first: int, last: int) -> Iterator[ScannedTurn]:
    texts: dict[int, list[str]] = {number: [] for number in range(first, last + 1)}
    for entry in chosen_entries(chapter, from_prompt=first, to_prompt=last):
        texts[entry.prompt_index].append(entry.text)
    yield from (ScannedTurn(number, "\n".join(told)) for number, told in texts.items())


def _present_lines(attempt: Attempt) -> Iterator[str]:
    yield attempt.words
    player = attempt.session.character(1).name
    for change in attempt.changes.filter(run_id=attempt.run_id).order_by("position"):
        if line := told_change(change, player):
            yield line.text


def _met_in(attempt: Attempt | None) -> frozenset[str]:
    """Return the names of those whom the player meets in this attempt."""
    if attempt is None:
        return frozenset()
    appeared = attempt.changes.filter(run_id=attempt.run_id, kind=PERSON)
    return frozenset(payload["name"] for payload in appeared.values_list("payload", flat=True))


def _why_not_told(one: TalkExample, world: World, met: frozenset[str]) -> str:
    """Return the reason why an example is left out even if there is room, or ""."""
    if not one.text.strip():
        return "nothing is written in it"
    if not one.name:
        return ""
    # The player's place does not matter, because examples stand in the part of the request that no
    # move changes.
    person = world.find_called(one.name, world.people.values())
    if person is None:
        return "nobody is called so, or several are"
    if person.name in met:
        return "met in this turn, so from the next turn on"
    return "" if person.is_discovered or person.is_player else "hidden until you meet"


def _room(subject: Subject, most: int) -> int:
    """Return the number of tokens that the window has room for, at most this number."""
    return min(most, subject.budget_tokens // _MOST_SHARE) if subject.budget_tokens else most


# Lore and examples give way after the history, before a request would be refused.
TALK = LayerDeclaration(
    "EXAMPLES_OF_TALK",
    talk,
    role="system",
    has_heading=False,
    trim=Trim.OLDEST_FIRST,
    gives_way=3,
)
LORE = LayerDeclaration("LORE", lore, has_heading=False, trim=Trim.OLDEST_FIRST, gives_way=4)
# The history, with the author's note in it. The turns after the note give way last.
HISTORY = (
    replace(RECENT_CONTEXT, source=_before_note, floor=0),
    *(
        LayerDeclaration("AUTHORS_NOTE", _note_as(role), role=role, has_heading=role != "assistant")
        for role in _ROLES
    ),
    replace(RECENT_CONTEXT, name="LATEST_TURNS", source=_after_note, floor=0, gives_way=2),
)
