"""What a character is told: five layers whose order the specification fixes."""

import uuid
from datetime import datetime
from functools import lru_cache
from itertools import groupby

from agents.declarations import CHARACTERS, Agent
from agents.layers import Layer, Piece, Trim, keep_last, text_layer
from agents.model_access import is_small_model
from agents.prompt_files import render_prompt
from agents.prose import without_middle
from memory.chunks import recent_context_start
from memory.recall import recall
from sessions.access import get_chapter
from sessions.models import Session, Turn
from sessions.roster import character
from sessions.transcript import chosen_events, render_event


def agent_of(turn: Turn) -> Agent:
    return CHARACTERS[turn.agent_slot]


def others_cues(turn: Turn) -> list[str]:
    """Where a small model leaves its part: at another character's name, or a heading."""
    others = (one for one in turn.session.characters if one.slot != turn.agent_slot)
    return [*(f"\n{one.name}:" for one in others), "\n## "]


def compose_reply(turn: Turn) -> list[Layer]:
    """The layers for this turn's prompt; for a re-roll, as if its first reply had not been."""
    # As it was when the turn was stored: nothing that a prompt carries has moved since.
    chapter = turn.session
    before = turn.prompt_index if turn.kind == Turn.Kind.REROLL else None
    layers = _unchanged_start(chapter, turn.agent_slot, before)
    return [*layers, text_layer("USER_PROMPT", turn.user_text)]


def compose_start(session_id: uuid.UUID, agent_slot: int) -> list[Layer]:
    """All of the next prompt to this character but the GM's words, to warm a cache with."""
    return _unchanged_start(get_chapter(session_id), agent_slot, None)


def read_ahead(chapter: Session) -> None:
    """Have what the next prompt carries at hand: a GM who has sent a prompt waits for it."""
    _memory_and_context(chapter.pk, chapter.updated_at, None)


def _unchanged_start(chapter: Session, slot: int, before: int | None) -> list[Layer]:
    speaker = character(slot, chapter.agent_names)
    identity = _identities(chapter.pk).get(str(slot), "")
    return [
        text_layer(
            "SYSTEM",
            render_prompt("character", character_name=speaker.name, length=_length(slot)),
            role="system",
            has_heading=False,
        ),
        text_layer("AGENT_IDENTITY", f"{speaker.name}\n{identity}".strip()),
        *_memory_and_context(chapter.pk, chapter.updated_at, before),
    ]


def _length(slot: int) -> str:
    paragraphs = "one to six short paragraphs"
    return f"about 80 words, {paragraphs} at most" if is_small_model(slot) else paragraphs


@lru_cache(maxsize=32)
def _identities(session_id: uuid.UUID) -> dict[str, str]:
    """Once a process: Tab 1 is frozen before the first prompt."""
    identities: dict[str, str] = get_chapter(session_id).tab1.agent_identity_text_by_slot
    return identities


@lru_cache(maxsize=32)
def _memory_and_context(
    session_id: uuid.UUID, _updated_at: datetime, before: int | None
) -> tuple[Layer, Layer]:
    """Once for each state of the chapter: whatever changes these moves its `updated_at`."""
    chapter = get_chapter(session_id)
    return memory_layer(chapter), _recent_context(chapter, before)


def memory_layer(chapter: Session, *, name: str = "STRUCTURED_MEMORY") -> Layer:
    """All of memory; where the window is small, old deltas are condensed and then dropped.

    The lock, the GM's corrections and the newest delta stay whole. The layer's share is fixed, so
    that the growing context behind it does not change it between summaries.
    """
    blocks = recall(chapter)
    newest = max((at for at, block in enumerate(blocks) if block.is_delta), default=None)
    pieces = tuple(
        Piece(block.full, block.brief, must_stay=not block.is_delta or at == newest)
        for at, block in enumerate(blocks)
    )
    return Layer(name, pieces, trim=Trim.CONDENSE, gives_way=2, share=0.4)


def prompt_pieces(chapter: Session, first: int, last: int | None) -> tuple[Piece, ...]:
    """One piece a prompt: the GM's words with the chosen reply; in brief, without long middles."""
    events = chosen_events(chapter, from_prompt=first, to_prompt=last)
    pieces = []
    for _, turn in groupby(events, key=lambda event: event.prompt_index):
        texts = [render_event(event, chapter).rendered for event in turn]
        brief = "\n\n".join(without_middle(text) for text in texts)
        pieces.append(Piece("\n\n".join(texts), brief))
    return tuple(pieces)


def _recent_context(chapter: Session, before: int | None) -> Layer:
    last = chapter.prompt_index if before is None else before - 1
    return Layer(
        "RECENT_CONTEXT",
        keep_last(prompt_pieces(chapter, recent_context_start(chapter), last), 1),
        trim=Trim.CONDENSE,
        gives_way=1,
        step=3,
    )
