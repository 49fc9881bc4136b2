"""The page on which the GM chooses servers and models for the agents."""

from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.calling.consent import granted_hosts
from agents.calling.model_access import model_of
from agents.calling.model_test import TestResult, try_model
from agents.calling.offered_models import find_servers, names_at
from agents.calling.servers.addresses import ADDRESS_CHAR_LIMIT, PRESETS
from agents.calling.servers.caps import Caps, caps_of_environment, present_caps, stored_caps
from agents.calling.servers.changing import (
    MODEL_CHAR_LIMIT,
    TITLE_CHAR_LIMIT,
    add_server,
    all_servers,
    choose_models,
    find_server,
    remove_server,
    save_caps,
)
from agents.calling.servers.choices import (
    ALL,
    EMBEDDED,
    ENVIRONMENT,
    Choice,
    Server,
    can_run_embedded,
    choice_for_all,
    refresh_choices,
    uses_embedded,
)
from agents.calling.servers.keys import (
    KeysUnreadable,
    forget_key,
    paste_key,
    source_of_key,
    variable_for,
    why_no_pasting,
    why_unusable,
)
from agents.calling.servers.roles import Role, all_roles, role_with
from agents.exceptions import ConsentMissing
from agents.llm.embedded.status import describe, is_alive, is_ready, read_embedded_server
from agents.llm.providers.base_urls import lacks_version
from agents.llm.providers.model_lists import Listing
from agents.llm.providers.windows import address_of
from agents.modes.registry import all_agents
from sessions.exceptions import InvalidInput
from storyengine.tabs.seen_values import check_form_seen, form_mark
from storyengine.web.render import HttpRequest, show


@require_safe
def show_models(request: HttpRequest) -> HttpResponse:
    listed, each = request.GET.get("list", ""), "each" in request.GET
    page = _page(listed=listed, each=each, is_added="added" in request.GET)
    return show(request, "models/models.html", page)


@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """Store the choice for a role or for all agents, or take it back."""
    refresh_choices()
    key = request.POST.get("agent", "")
    role = role_with(key, all_roles(each="each" in request.POST))
    if key != ALL and role is None:
        raise InvalidInput("There is no agent with this name. Nothing was changed.")
    if "back" in request.POST:
        chosen = None
    else:
        chosen = (request.POST.get("server", ""), request.POST.get("model", ""))
    keys = role.keys if role is not None else (ALL,)
    present = choice_for_all() if role is None else role.choice
    check_form_seen(request, (keys, _as_chosen(present)), (keys, chosen))
    choose_models(dict.fromkeys(keys, chosen))
    return _back()


@require_POST
def test(request: HttpRequest) -> HttpResponse:
    """Test the model of a role. For the choice for all agents, test an agent that has this
    choice."""
    refresh_choices()
    key, each = request.POST.get("agent", ""), "each" in request.POST
    roles = all_roles(each=each)
    if key == ALL:
        role = next((role for role in roles if role.choice.source == "all"), None)
        missing = "Each agent has a choice of its own, so that no agent uses this one."
    else:
        role = role_with(key, roles)
        missing = "There is no agent with this name."
    if role is None:
        raise InvalidInput(f"{missing} Nothing was tested.")
    tested = key if key == ALL else role.key
    result = try_model(role.agents[0])
    return show(request, "models/models.html", _page(each=each, tested=tested, result=result))


@require_POST
def add(request: HttpRequest) -> HttpResponse:
    """Add a server, and show its models beside the choice for all agents."""
    server = add_server(request.POST.get("title", ""), request.POST.get("address", ""))
    asked = urlencode({"list": server.name, "added": "1"})
    return HttpResponseRedirect(f"{reverse('pages:models')}?{asked}")


@require_POST
def remove(request: HttpRequest) -> HttpResponse:
    remove_server(request.POST.get("server", ""))
    return _back()


@require_POST
def keep_key(request: HttpRequest) -> HttpResponse:
    server = find_server(request.POST.get("server", ""))
    if "forget" in request.POST:
        forget_key(server)
    else:
        paste_key(server, request.POST.get("key", ""))
    return _back()


@require_POST
def cap(request: HttpRequest) -> HttpResponse:
    """Store the caps on what a chapter may cost. An empty field stores no cap."""
    dollars = request.POST.get("dollars", "").strip().removeprefix("$")
    tokens = request.POST.get("tokens", "").strip()
    try:
        caps = Caps(
            Decimal(dollars) if dollars else None,
            int(tokens) if tokens else None,
        )
    except (InvalidOperation, ValueError):
        raise InvalidInput("A cap is a number, such as 2.50. Nothing was changed.") from None
    refresh_choices()
    check_form_seen(request, stored_caps(), caps)
    save_caps(caps)
    return _back()


def _as_chosen(choice: Choice | None) -> tuple[str, str] | None:
    """Return the server and the model as a form sends them."""
    if choice is None:
        return None
    return (choice.server.name, "" if choice.server.name == EMBEDDED else choice.model)


def _back() -> HttpResponse:
    return HttpResponseRedirect(reverse("pages:models"))


def _page(
    *,
    listed: str = "",
    each: bool = False,
    is_added: bool = False,
    tested: str | None = None,
    result: TestResult | None = None,
) -> dict[str, Any]:
    refresh_choices()
    allowed = {consent.host for consent in granted_hosts()}
    servers = [_server_entry(server, allowed, listed) for server in all_servers()]
    names: list[str] = next((one["names"] for one in servers if one["names"]), [])
    known = {one["server"].address for one in servers}
    roles = [_role_entry(role, tested, result) for role in all_roles(each=each)]
    added = next((one for one in servers if is_added and one["server"].name == listed), None)
    return {
        "roles": roles,
        "added": added,
        "for_all": choice_for_all(),
        "picked": _picked(added),
        "tested_for_all": {"result": result if tested == ALL else None},
        "seen_for_all": form_mark(((ALL,), _as_chosen(choice_for_all()))),
        "each": each,
        "are_together": any(len(one["role"].agents) > 1 for one in roles),
        "servers": servers,
        "names": names,
        "keys_problem": why_unusable(),
        "caps": present_caps(),
        "stored_caps": stored_caps(),
        "seen_caps": form_mark(stored_caps()),
        "highest_caps": caps_of_environment(),
        "found": find_servers(),
        "presets": [one for one in PRESETS if one.address not in known],
        "title_limit": TITLE_CHAR_LIMIT,
        "address_limit": ADDRESS_CHAR_LIMIT,
        "model_limit": MODEL_CHAR_LIMIT,
    }


def _picked(added: dict[str, Any] | None) -> dict[str, str]:
    """Return the values of the form for all agents: a server that was just added, with its only
    model if it has one, or else the present choice."""
    if added is not None and added["is_allowed"]:
        names = added["names"] or []
        return {"server": added["server"].name, "model": names[0] if len(names) == 1 else ""}
    server, model = _as_chosen(choice_for_all()) or ("", "")
    return {"server": server, "model": model}


def _role_entry(role: Role, tested: str | None, result: TestResult | None) -> dict[str, Any]:
    model, choice = model_of(role.agents[0]).as_known(), role.choice
    return {
        "role": role,
        "seen": form_mark((role.keys, _as_chosen(choice))),
        "facts": model.facts,
        "price": model.price,
        "is_embedded": choice.server.name == EMBEDDED,
        "is_local": not choice.server.host,
        "result": result if tested == role.key else None,
    }


def _state_of_embedded() -> str:
    server = read_embedded_server()
    if is_alive(server) or settings.LLM == "embedded":
        return describe(server)
    if not can_run_embedded():
        return "It does not run in this installation."
    if uses_embedded(all_agents()):
        return "It does not run yet. It starts when Story Engine is started again."
    return (
        "It does not run, because no agent uses it. Choose it above, then start Story Engine again."
    )


def _server_entry(server: Server, allowed: set[str], listed: str) -> dict[str, Any]:
    is_allowed = not server.host or server.host in allowed
    listing, is_silent = Listing(), False
    if listed == server.name and server.name != EMBEDDED and is_allowed:
        try:
            listing = names_at(server)
        except (ConsentMissing, KeysUnreadable):
            listing = Listing()
        is_silent = listing.names is None
    return {
        "server": server,
        # The environment's address may have a user name and password in it.
        "address": address_of(server.address) if server.address else "",
        "is_embedded": server.name == EMBEDDED,
        "is_own": server.name not in (EMBEDDED, ENVIRONMENT),
        "state": _state_of_embedded() if server.name == EMBEDDED else "",
        "is_running": server.name == EMBEDDED and is_ready(read_embedded_server()),
        "is_allowed": is_allowed,
        "names": listing.names,
        "said": listing.said,
        "is_silent": is_silent,
        "may_lack_v1": is_silent and lacks_version(server.address),
        "key_source": "" if server.name == EMBEDDED else source_of_key(server),
        "variable": variable_for(server),
        "why_no_pasting": why_no_pasting(server),
    }
