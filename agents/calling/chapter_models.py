"""Stores what a chapter sets for its agents: a model of the agent's own server, and how it writes.

What can be set depends on the facts of the model.
"""

import uuid
from collections.abc import Mapping
from dataclasses import replace

from django.db import transaction
from django.utils import timezone

from agents.calling.model_access import model_at
from agents.calling.servers.changing import MODEL_CHAR_LIMIT
from agents.calling.servers.choices import (
    EMBEDDED,
    choice_of,
    choice_without_chapter,
    refresh_choices,
)
from agents.calling.servers.refused_fields import forget_refused_fields
from agents.llm.facts.model_facts import ModelFacts
from agents.modes.registry import agents_in
from agents.prompting.agent import Agent
from agents.prompting.own_settings import OwnSettings
from sessions.chapter.access import get_chapter, lock_chapter
from sessions.exceptions import InvalidInput
from sessions.language.text import clean_line, clean_signs
from sessions.models import Session

HOTTEST = 2.0
# A limit below this number would leave no room for a sentence.
LEAST_OUTPUT_TOKENS = 50
# OpenAI takes at most four stop sequences.
MOST_STOPS, STOP_CHAR_LIMIT = 4, 100


def save_models(session_id: uuid.UUID, changes: Mapping[str, OwnSettings]) -> Session:
    """Store the settings of each agent that `changes` names by its key, in place of its earlier
    settings. Either all settings are stored or none. Raises InvalidInput.

    The server of `OwnSettings` is not read: a stored model belongs to the agent's present server.
    """
    refresh_choices()
    with transaction.atomic():
        lock_chapter(session_id)
        chapter = get_chapter(session_id)
        agents = {agent.model_setting: agent for agent in agents_in(chapter)}
        stored = dict(chapter.model_settings)
        for key, own in changes.items():
            if key not in agents:
                raise InvalidInput("This chapter has no agent with this name. Nothing was changed.")
            own = _checked(agents[key], own)
            fields = own.as_stored()
            # The server may have refused a field only because of its value, which may be another
            # value now.
            choice = choice_of(replace(agents[key], own=own))
            forget_refused_fields(choice.server.address, choice.model)
            stored.pop(key, None)
            if fields:
                stored[key] = fields
        Session.objects.filter(pk=session_id).update(
            model_settings=stored, updated_at=timezone.now()
        )
    refresh_choices()
    return get_chapter(session_id)


def most_output_tokens(facts: ModelFacts) -> int:
    """Return the highest output limit that can be set for a model with these facts."""
    return min(facts.max_output, facts.context_window // 2)


def _checked(agent: Agent, own: OwnSettings) -> OwnSettings:
    """Return the settings as they are stored."""
    before = choice_without_chapter(agent)
    model = clean_line(own.model, limit=MODEL_CHAR_LIMIT, label="The model's name")
    if model == before.model:
        model = ""
    if model and before.server.name == EMBEDDED:
        raise InvalidInput(
            f"{agent.title} uses the embedded model, which is always the same one. "
            "Nothing was changed. Choose another server for it on the page Models first."
        )
    chosen = replace(before, model=model or before.model)
    facts = model_at(agent, chosen).as_known().facts
    _check_sampling(chosen.model, own, facts)
    if own.output_tokens is not None:
        _check_between(
            "The output limit", own.output_tokens, LEAST_OUTPUT_TOKENS, most_output_tokens(facts)
        )
    return replace(own, server=before.server.name if model else "", model=model)


def _check_sampling(model: str, own: OwnSettings, facts: ModelFacts) -> None:
    if own.temperature is not None or own.top_p is not None:
        if not facts.accepts_temperature:
            raise InvalidInput(
                f"{model} takes neither a temperature nor a top_p. Nothing was changed."
            )
        if own.temperature is not None:
            _check_between("The temperature", own.temperature, 0, HOTTEST)
        if own.top_p is not None:
            _check_between("top_p", own.top_p, 0.01, 1)
    if not own.stop:
        return
    if not facts.accepts_stop:
        raise InvalidInput(f"{model} takes no stop sequences. Nothing was changed.")
    if len(own.stop) > MOST_STOPS:
        raise InvalidInput(
            f"There can be at most {MOST_STOPS} stop sequences. Nothing was changed."
        )
    for text in own.stop:
        clean_signs(text, limit=STOP_CHAR_LIMIT, label="A stop sequence")
        if not text.strip(" "):
            raise InvalidInput(
                "A stop sequence is a text; an empty one ends no answer. Nothing was changed."
            )


def _check_between(label: str, value: float, least: float, most: float) -> None:
    # This condition also refuses NaN, because NaN is between no two numbers.
    if not least <= value <= most:
        raise InvalidInput(
            f"{label} must be {least:,g} to {most:,} for this model. Nothing was changed."
        )
