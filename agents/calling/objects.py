"""Calls agents 0 and 8, which return one object in JSON or XML. A malformed object is repaired once
by another call."""

import logging
import uuid
from collections.abc import Mapping
from typing import Any, cast

from agents.calling.calls import Reply, call_model
from agents.calling.model_access import model_of
from agents.calling.prepared_calls import Compose
from agents.exceptions import PromptTooLong
from agents.llm.providers.failures.call_errors import ContextOverflow, UnusableReply
from agents.prompting.agent import Agent
from agents.prompting.forms.cut_texts import end_at_words
from agents.prompting.forms.object_forms import Form, form_for, format_reminder, read_reply
from agents.prompting.forms.restatements import without_restatements
from agents.prompting.forms.schemas import InvalidReply, Payload, Reading, Shape, check_payload
from agents.prompting.layers import Layer, Piece, Trim, text_layer
from agents.prompting.prompt_files import render_prompt
from agents.running.job_kinds import Watch

logger = logging.getLogger(__name__)

# The request to repair a malformed answer quotes at most this many characters of it, because a
# longer answer would fill the window.
REPAIRED_CHARACTERS = 6_000
# The message for the user if an answer cannot be used. The record of the call says what was wrong
# with the answer.
NOT_USABLE = (
    "The model did not answer in the form that the program needs, so nothing of its answer was "
    "taken. Another try often helps, and a larger model makes this mistake less often."
)


class NotInForm(UnusableReply):
    """The answer was not in the form that the request asked for, even after a repair.

    The message tells the user what happened. The record of the call has the words of the check.
    """

    def __init__(self, message: str = NOT_USABLE) -> None:
        super().__init__(message)


def format_pieces(agent: Agent, shape: type[Shape]) -> list[Piece]:
    """Return the pieces of the layer FORMAT, which reminds the model of the form of its answer."""
    reminder = format_reminder(model_of(agent).facts, shape)
    return [Piece(reminder, has_elements=True)] if reminder else []


def form_of(agent: Agent) -> Form:
    """Return the form of answer that the agent's model should give now."""
    return form_for(model_of(agent).facts)


async def call_for_json(
    agent: Agent,
    session_id: uuid.UUID,
    compose: Compose,
    shape: type[Shape],
    *,
    json_schema: Mapping[str, Any],
    watch: Watch,
    job_id: uuid.UUID | None = None,
) -> Payload:
    """Return the object that the model wrote, after at most one repair.

    If the schema cut off a text, the text is shortened to its last complete word. If a small model
    says something twice in the object, one of the two is left out. Raises NotInForm if the repair
    failed too or did not fit into the window. Raises the errors of `call_model`.
    """
    answers: list[str] = []

    def check(payload: Payload) -> None:
        check_payload(payload, shape)

    async def ask(layers: Compose, *, is_last_try: bool) -> Payload:
        watch.show("")
        readings: list[Reading] = []

        def validate(reply: Reply) -> None:
            answers.append(reply.text)
            form = form_of(agent)
            readings.append(
                read_reply(reply.text, shape, check, form=form, is_last_try=is_last_try)
            )

        await call_model(
            agent,
            session_id,
            layers,
            json_schema=json_schema,
            on_text=watch.add,
            on_restart=lambda: watch.show(""),
            validate=validate,
            job_id=job_id,
        )
        if remark := readings[-1].remark:
            logger.warning("a reply of agent %s had to be mended: %s", agent.label, remark)
        payload = cast(Payload, end_at_words(readings[-1].payload, json_schema))
        # The record of the call keeps the original answer.
        return without_restatements(payload) if model_of(agent).is_small else payload

    try:
        return await ask(compose, is_last_try=False)
    except InvalidReply as invalid:
        repair = repair_layers(answers[-1], str(invalid), form_of(agent))
        try:
            return await ask(lambda: [*compose(), *repair], is_last_try=True)
        # PromptTooLong is not passed on, because its message says that nothing was sent, but the
        # first call was sent.
        except (InvalidReply, PromptTooLong, ContextOverflow):
            raise NotInForm from None


def repair_layers(answer: str, problem: str, form: Form) -> list[Layer]:
    """Return the layers of a repair, which are sent after the layers of the request.

    If the request is too long, the earlier reply is dropped first, because the model can write the
    object without seeing it.
    """
    prompt = "repair" if form == "json" else "repair_xml"
    return [
        Layer(
            "EARLIER_REPLY",
            # The tags in this text are not escaped, because the model was asked to write them.
            (Piece(answer[:REPAIRED_CHARACTERS], has_elements=True),),
            role="assistant",
            has_heading=False,
            trim=Trim.DROP,
            gives_way=-2,
        ),
        text_layer("REPAIR", render_prompt(prompt, error=problem), has_heading=False),
    ]
