"""Composes the request of an attempt's agent, as the chapter's mode declares it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from agents.calling.model_access import AgentModel, model_of
from agents.calling.prepared_calls import PreparedCall, prepare_call
from agents.calling.tool_steps import ToolWriting, with_tools
from agents.modes.registry import agent_of, compose_for, mode_of, who_answers
from agents.prompting.agent import Agent
from agents.prompting.budget import FRESH_SECONDS, read_weight_per_token, request_budget
from agents.prompting.layers import Layer, Piece
from agents.prompting.sandwich import Subject
from sessions.exceptions import ChapterError, InvalidInput
from sessions.models import Attempt, Session
from sessions.play.played_world import room_for_changes


def writer_of(attempt: Attempt) -> AgentModel:
    """Return the attempt's agent and its model, as this process last read the choices."""
    return model_of(agent_of(attempt), attempt.session)


@dataclass(frozen=True)
class ReplyRequest:
    """The request for the reply of an attempt, as the chapter's mode declares it. `model` is the
    model of the attempt's agent, resolved once."""

    attempt: Attempt
    model: AgentModel

    def layers(self) -> list[Layer]:
        """Compose the request from the earlier turns and from the attempt's prompt."""
        pieces = mode_of(self.attempt.session).play.own_pieces(self.attempt)
        return _compose(self.model, _subject_of(self.attempt, pieces))

    def prepare(self) -> PreparedCall:
        """Prepare the one call of an agent without tools."""
        agent, small = self.model.agent, self.model.agent.small
        return prepare_call(
            self.model,
            self.attempt.session_id,
            self.layers,
            # A small model is stopped when it writes one of these texts, so that it does not leave
            # its role.
            stop=mode_of(self.attempt.session).play.cues(self.attempt),
            grammar=small.grammar(self.attempt) if small and agent.has_small_form else "",
            attempt_id=self.attempt.pk,
        )

    def in_steps(self) -> ToolWriting:
        """Return the reply of an agent with tools, whose request is composed again for each
        step."""
        attempt, play = self.attempt, mode_of(self.attempt.session).play
        return ToolWriting(
            self.model.agent,
            attempt.session_id,
            self.layers,
            partial(play.readable, attempt),
            reader=attempt.actor,
            attempt_id=attempt.pk,
            stop=play.cues(attempt),
            compose_question=partial(compose_question, attempt),
            most_changes=room_for_changes(attempt),
        )


def compose_reply(attempt: Attempt) -> list[Layer]:
    return ReplyRequest(attempt, writer_of(attempt)).layers()


def compose_question(
    attempt: Attempt, agent: Agent, pieces: Mapping[str, Sequence[Piece]]
) -> list[Layer]:
    """Compose the request of a tool of the attempt to another agent. It tells no more than the
    attempt's actor may know."""
    return _compose(model_of(agent), _subject_of(attempt, pieces))


def answer_to(chapter: Session, agent_slot: int | None, words: str = "") -> Attempt:
    """Return the attempt that a prompt to this character would make. The attempt is not stored."""
    writer = who_answers(chapter, agent_slot)
    return Attempt(session=chapter, actor=writer.actor, agent=writer.agent, words=words)


def addressed_next(chapter: Session) -> int | None:
    """Return the member of the cast who probably gets the next prompt. This is None if the mode
    answers a prompt to nobody, and otherwise the character of the next panel."""
    try:
        who_answers(chapter, None)
    except InvalidInput:
        return chapter.next_agent_slot
    return None


def compose_start(chapter: Session, agent_slot: int | None) -> list[Layer]:
    """Compose the next request to this character without the user's words, because a model can read
    this start of the request into its cache."""
    model, layers = _start_of_next(chapter, agent_slot)
    return with_tools(model.agent, layers)


def read_ahead(chapter: Session) -> None:
    """Compose the next request before the GM sends a prompt, so that the parts of the request are
    cached.

    Nothing is composed if the mode refuses such a prompt.
    """
    with suppress(ChapterError):
        model, _ = _start_of_next(chapter, addressed_next(chapter))
        read_weight_per_token(model.name, model.agent.name, held_seconds=FRESH_SECONDS)


def _start_of_next(chapter: Session, agent_slot: int | None) -> tuple[AgentModel, list[Layer]]:
    attempt = answer_to(chapter, agent_slot)
    model = writer_of(attempt)
    return model, _compose(model, Subject(chapter, attempt.actor, attempt=attempt))


def _subject_of(attempt: Attempt, pieces: Mapping[str, Sequence[Piece]]) -> Subject:
    before = attempt.turn.number if attempt.turn else None
    return Subject(attempt.session, attempt.actor, before, attempt, own_pieces=pieces)


def _compose(model: AgentModel, subject: Subject) -> list[Layer]:
    model = model.as_known()
    budget = request_budget(model.agent, model.facts)
    return compose_for(model.agent, replace(subject, budget_tokens=budget), model.facts.tier)
