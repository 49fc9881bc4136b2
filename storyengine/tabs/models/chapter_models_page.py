"""The page on which the GM sets models for one chapter, and how they write."""

import uuid
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.calling.chapter_models import (
    HOTTEST,
    LEAST_OUTPUT_TOKENS,
    MOST_STOPS,
    STOP_CHAR_LIMIT,
    most_output_tokens,
    save_models,
)
from agents.calling.model_access import model_of
from agents.calling.model_test import TestResult, try_model
from agents.calling.offered_models import names_at
from agents.calling.servers.changing import MODEL_CHAR_LIMIT
from agents.calling.servers.choices import ALL, EMBEDDED, Server, choice_of, refresh_choices
from agents.calling.servers.keys import KeysUnreadable
from agents.calling.servers.refused_fields import refused_fields
from agents.calling.servers.roles import Role, role_with, roles_in
from agents.exceptions import ConsentMissing
from agents.llm.facts.prices import price_of
from agents.llm.providers.model_lists import Listing
from agents.prompting.agent import Agent
from agents.prompting.budget import output_limit
from agents.prompting.own_settings import NOTHING_SET, OwnSettings
from sessions.chapter.access import get_chapter, get_chapter_with_cast
from sessions.exceptions import InvalidInput
from sessions.models import Session
from storyengine.tabs.seen_values import check_form_seen, form_mark, lock_values
from storyengine.web.header import header_context
from storyengine.web.render import HttpRequest, show

# A stop sequence is a line of its field, so a line break within one is written as these two signs.
_LINE_BREAK = "\\n"


@require_safe
def show_models(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    chapter = get_chapter_with_cast(session_id)
    page = _page(chapter, listed=request.GET.get("list", ""), each="each" in request.GET)
    return show(request, "models/chapter.html", page)


@require_POST
def save(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Store or remove the chapter's settings for a role, or for all its agents."""
    own = NOTHING_SET if "back" in request.POST else _read(request)
    if request.POST.get("agent") == ALL:
        _save_for_all(request, session_id, own)
    else:
        _save(request, session_id, own)
    address = reverse("pages:chapter-models", args=[session_id])
    return HttpResponseRedirect(f"{address}?each=1" if "each" in request.POST else address)


@transaction.atomic
def _save(request: HttpRequest, session_id: uuid.UUID, own: OwnSettings) -> None:
    chapter = lock_values(session_id)
    role = _role(request, chapter)
    # The name of the server is added when the settings are stored.
    sent = replace(own, server=role.choice.server.name if own.model else "")
    check_form_seen(request, (role.keys, role.agents[0].own), (role.keys, sent))
    save_models(session_id, dict.fromkeys(role.keys, own))


@transaction.atomic
def _save_for_all(request: HttpRequest, session_id: uuid.UUID, own: OwnSettings) -> None:
    """Store a model and a temperature for all agents of the chapter that can have them. A field
    that is left empty is not changed for any agent, and neither are the agents' other settings."""
    chapter = lock_values(session_id)
    refresh_choices()
    roles = roles_in(chapter)
    agents = [agent for role in roles for agent in role.agents]
    present = {agent.model_setting: agent.own for agent in agents}
    if own.model and len(_servers(roles)) != 1:
        raise InvalidInput(
            "One model can be set for all agents only if they use one server. Nothing was changed."
        )
    if "back" in request.POST:
        changes = dict.fromkeys(present, NOTHING_SET)
    else:
        changes = {agent.model_setting: _with_given(agent, own) for agent in agents}
    check_form_seen(request, sorted(present.items()), sorted(changes.items()))
    save_models(session_id, changes)


def _with_given(agent: Agent, own: OwnSettings) -> OwnSettings:
    changed, server = agent.own, choice_of(agent).server.name
    if own.model and server != EMBEDDED:
        changed = replace(changed, model=own.model, server=server)
    facts = model_of(replace(agent, own=changed)).facts
    if own.temperature is not None and facts.accepts_temperature:
        changed = replace(changed, temperature=own.temperature)
    return changed


@require_POST
def test(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    chapter = get_chapter(session_id)
    role, each = _role(request, chapter), "each" in request.POST
    result = try_model(role.agents[0], chapter)
    page = _page(chapter, each=each, tested=role.key, result=result)
    return show(request, "models/chapter.html", page)


def _role(request: HttpRequest, chapter: Session) -> Role:
    refresh_choices()
    roles = roles_in(chapter, each="each" in request.POST)
    role = role_with(request.POST.get("agent", ""), roles)
    if role is None:
        raise InvalidInput("This chapter has no agent with this name. Nothing was changed.")
    return role


def _read(request: HttpRequest) -> OwnSettings:
    stops = request.POST.get("stop", "").replace("\r\n", "\n").split("\n")
    tokens = _number(request, "max_output_tokens", "The output limit")
    if tokens is not None and not tokens.is_integer():
        raise InvalidInput("The output limit is a whole number. Nothing was changed.")
    return OwnSettings(
        model=request.POST.get("model", ""),
        temperature=_number(request, "temperature", "The temperature"),
        top_p=_number(request, "top_p", "top_p"),
        output_tokens=None if tokens is None else int(tokens),
        stop=tuple(stop.replace(_LINE_BREAK, "\n") for stop in stops if stop.strip()),
    )


def _number(request: HttpRequest, name: str, label: str) -> float | None:
    text = request.POST.get(name, "").strip()
    try:
        return float(text) if text else None
    except ValueError:
        raise InvalidInput(f"{label} is a number, such as 0.8. Nothing was changed.") from None


def _page(
    chapter: Session,
    *,
    listed: str = "",
    each: bool = False,
    tested: str = "",
    result: TestResult | None = None,
) -> dict[str, Any]:
    refresh_choices()
    header = header_context(chapter, "models")
    roles = [_entry(role, tested, result) for role in roles_in(chapter, each=each)]
    servers = [_server_entry(one, listed) for one in _servers([one["role"] for one in roles])]
    agents = [agent for one in roles for agent in one["role"].agents]
    settings = {agent.model_setting: agent.own for agent in agents}
    return {
        **header,
        "roles": roles,
        "seen_for_all": form_mark(sorted(settings.items())),
        "is_any_set": any(own.as_stored() for own in settings.values()),
        "takes_temperature": any(model_of(agent).facts.accepts_temperature for agent in agents),
        "each": each,
        "are_together": any(len(one["role"].agents) > 1 for one in roles),
        "servers": servers,
        "names": [name for one in servers for name in one["names"]],
        "model_limit": MODEL_CHAR_LIMIT,
        "hottest": HOTTEST,
        "least_output": LEAST_OUTPUT_TOKENS,
        "most_stops": MOST_STOPS,
        "stop_limit": STOP_CHAR_LIMIT,
    }


def _entry(role: Role, tested: str, result: TestResult | None) -> dict[str, Any]:
    agent, choice = role.agents[0], role.choice
    facts, own = model_of(agent).as_known().facts, agent.own
    return {
        "role": role,
        "seen": form_mark((role.keys, own)),
        "own": own,
        "is_set": bool(own.as_stored()),
        # A model that was set while the agent used another server does not count.
        "is_unused": bool(own.model) and own.server != choice.server.name,
        "stop": "\n".join(stop.replace("\n", _LINE_BREAK) for stop in own.stop),
        "facts": facts,
        "refused": sorted(refused_fields(choice.server.address, choice.model)),
        "limit": output_limit(replace(agent, own=NOTHING_SET), facts),
        "most_output": most_output_tokens(facts),
        "price": price_of(choice.model, choice.server.address),
        "is_embedded": choice.server.name == EMBEDDED,
        "is_local": not choice.server.host,
        "result": result if tested == role.key else None,
    }


def _servers(roles: list[Role]) -> list[Server]:
    """Return the servers of these roles whose lists of models can be shown."""
    servers = dict.fromkeys(role.choice.server for role in roles)
    return [server for server in servers if server.name != EMBEDDED]


def _server_entry(server: Server, listed: str) -> dict[str, Any]:
    listing, problem, is_listed = Listing(), "", server.name == listed
    if is_listed:
        try:
            listing = names_at(server)
        except (ConsentMissing, KeysUnreadable) as error:
            problem = str(error)
    return {
        "server": server,
        "is_listed": is_listed,
        "names": listing.names or [],
        "said": listing.said,
        "problem": problem,
    }
