"""Asks a model a question whose answer is a call of one tool, and returns the arguments."""

import json
import logging
import uuid
from dataclasses import dataclass
from functools import partial
from typing import Generic

from agents.calling.calls import Reply, in_accepted_form, let_call_through, make_call
from agents.calling.model_access import model_of, read_model
from agents.calling.objects import NotInForm, repair_layers
from agents.calling.prepared_calls import Compose, PreparedCall, prepare_call
from agents.exceptions import PromptTooLong
from agents.llm.providers.failures.call_errors import ContextOverflow
from agents.prompting.agent import Agent
from agents.prompting.forms.schemas import (
    InvalidReply,
    check_payload,
    json_schema_for,
    without_lengths,
)
from agents.prompting.forms.tool_answers import AnswerReader
from agents.prompting.forms.tool_arguments import arguments_meant, object_in
from agents.prompting.layers import Layer, Piece, text_layer
from agents.prompting.prompt_files import render_prompt
from agents.prompting.tools import AnswerTool, ArgumentsT

logger = logging.getLogger(__name__)

_NO_OBJECT = "it holds no whole JSON object"


async def ask_for_call(
    agent: Agent,
    session_id: uuid.UUID,
    compose: Compose,
    tool: AnswerTool[ArgumentsT],
    *,
    attempt_id: uuid.UUID | None = None,
    job_id: uuid.UUID | None = None,
    step: int = 1,
) -> ArgumentsT:
    """Return the arguments of the model's call of the tool, after at most one repair.

    A model whose server takes tools has to call this tool. Any other model answers with the
    arguments as a JSON object, and its request ends with a layer that says so. Each call is
    checked, counted and recorded like any other, for the attempt or the job. Raises NotInForm if
    the repair failed too or did not fit into the window. Raises the errors of `call_model`.
    """
    asking = _Asking(agent, session_id, tool, attempt_id, job_id, step)
    try:
        return await asking.ask(lambda: [*compose(), *asking.form_layers()])
    except InvalidReply as invalid:
        logger.warning("agent %s is asked once more: no call that can be used", agent.label)
        repair = asking.repair_layers(str(invalid))
        try:
            return await asking.ask(lambda: [*compose(), *asking.form_layers(), *repair])
        except (InvalidReply, PromptTooLong, ContextOverflow):
            raise NotInForm from None


@dataclass
class _Asking(Generic[ArgumentsT]):
    """One question, with the model's latest answer."""

    agent: Agent
    session_id: uuid.UUID
    tool: AnswerTool[ArgumentsT]
    attempt_id: uuid.UUID | None
    job_id: uuid.UUID | None
    step: int
    _answer: str = ""
    _arguments: ArgumentsT | None = None

    async def ask(self, compose: Compose) -> ArgumentsT:
        return await in_accepted_form(partial(self._ask, compose))

    async def _ask(self, compose: Compose) -> ArgumentsT:
        # A small model is held to lengths, because it would otherwise write up to its limit.
        schema = without_lengths(self.tool.schema.parameters)
        if model_of(self.agent).is_small:
            schema = json_schema_for(self.tool.arguments, tight=True)

        def prepare() -> PreparedCall:
            return prepare_call(
                read_model(self.agent),
                self.session_id,
                compose,
                json_schema=None if self._is_native else schema,
                tools=[self.tool.schema] if self._is_native else (),
                tool_choice="required" if self._is_native else "",
                attempt_id=self.attempt_id,
                job_id=self.job_id,
                step=self.step,
            )

        call = await let_call_through(self.session_id, prepare)
        await make_call(call, validate=self._read)
        assert self._arguments is not None, "A checked answer has arguments."
        return self._arguments

    def form_layers(self) -> list[Layer]:
        """Return the layer that tells a model without tools how to answer."""
        if self._is_native:
            return []
        text = render_prompt(
            "answer_json",
            name=self.tool.name,
            description=self.tool.description,
            schema=json.dumps(self.tool.schema.parameters),
        )
        piece = Piece(text, has_elements=True, has_calls=True)
        return [Layer("ANSWER_FORM", (piece,))]

    def repair_layers(self, problem: str) -> list[Layer]:
        if not self._is_native:
            return repair_layers(self._answer, problem, "json")
        text = render_prompt("repair_call", error=problem, name=self.tool.name)
        return [text_layer("REPAIR", text, has_heading=False)]

    @property
    def _is_native(self) -> bool:
        return model_of(self.agent).facts.tools

    def _read(self, reply: Reply) -> None:
        """Check the answer. Raises InvalidReply, so that the record of the call says what is
        wrong."""
        self._answer = reply.text
        # Only one tool was offered, so a call under another name can only mean this tool. Some
        # models write the arguments as text although they were asked for a call.
        if reply.tool_calls:
            first = reply.tool_calls[0]
            if first.problem:
                raise InvalidReply(first.problem)
            said: object = first.arguments
        else:
            said = self._said_in(reply.text)
        payload = arguments_meant(said, self.tool.arguments)
        self._arguments = check_payload(payload, self.tool.arguments)

    def _said_in(self, text: str) -> object:
        """Return the arguments in a text, as a call in any form or as an object alone."""
        reader = AnswerReader([self.tool])
        reader.take(text)
        if calls := reader.end().calls:
            if calls[0].problem:
                raise InvalidReply(calls[0].problem)
            return calls[0].arguments
        found = object_in(text)
        if found is None:
            raise InvalidReply(_NO_OBJECT)
        return found
