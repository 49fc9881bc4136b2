"""Adds and removes servers, and stores the user's choices and caps."""

from contextlib import suppress
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal

from django.db import transaction
from django.utils.text import slugify

from agents.calling.servers.addresses import PRESETS, clean_address
from agents.calling.servers.caps import HIGHEST_DOLLARS, HIGHEST_TOKENS, Caps, caps_of_environment
from agents.calling.servers.choices import (
    ALL,
    EMBEDDED,
    ENVIRONMENT,
    Server,
    can_run_embedded,
    embedded_server,
    environment_server,
    refresh_choices,
    server_from,
)
from agents.calling.servers.keys import KeysUnreadable, forget_key
from agents.calling.servers.refused_fields import forget_refused_fields
from agents.models import ModelChoice, ModelServer, SpendingCap
from agents.modes.registry import all_agents
from sessions.exceptions import InvalidInput
from sessions.language.text import clean_line

TITLE_CHAR_LIMIT = 60
MODEL_CHAR_LIMIT = 200
_MOST_SERVERS = 40


def all_servers() -> list[Server]:
    """Return the embedded model, the environment's server, and the servers that were added."""
    rows = ModelServer.objects.filter(is_removed=False).order_by("added_at", "name")
    return [embedded_server(), environment_server(), *map(server_from, rows)]


def find_server(name: str) -> Server:
    """Return the server with this name. Raises InvalidInput."""
    for server in all_servers():
        if server.name == name:
            return server
    raise InvalidInput("There is no server with this name. Nothing was changed.")


def add_server(title: str, address: str) -> Server:
    """Add a server, and return it. Raises InvalidInput."""
    title = clean_line(title, limit=TITLE_CHAR_LIMIT, label="The server's name")
    address = clean_address(address)
    name = slugify(title.replace(".", "-"))[:40].strip("-_").replace("_", "-")
    if not name or name in (EMBEDDED, ENVIRONMENT):
        raise InvalidInput("Give the server a name with letters or digits. Nothing was added.")
    bound = {preset.name: preset.address for preset in PRESETS}
    with transaction.atomic():
        earlier = ModelServer.objects.filter(name=name).first()
        known = earlier.address if earlier is not None else bound.get(name, address)
        if known != address:
            raise InvalidInput(
                f"The name {name} belongs to {known}, so that a key for this name goes nowhere "
                "else. Nothing was added; choose another name."
            )
        if earlier is not None and not earlier.is_removed:
            raise InvalidInput("There is a server with this name already. Nothing was added.")
        if ModelServer.objects.count() >= _MOST_SERVERS:
            raise InvalidInput(f"At most {_MOST_SERVERS} servers can be kept. Nothing was added.")
        # Another request may add the same name at this moment. The name still belongs to the
        # address that was stored first.
        row, _ = ModelServer.objects.update_or_create(
            name=name,
            defaults={"title": title, "is_removed": False},
            create_defaults={"title": title, "address": address},
        )
        if row.address != address:
            raise InvalidInput("There is a server with this name already. Nothing was added.")
    return server_from(row)


def remove_server(name: str) -> None:
    """Remove a server, and the agents' choices of this server. Its pasted key goes too, unless
    another server has the same address. Raises InvalidInput."""
    server = find_server(name)
    if name in (EMBEDDED, ENVIRONMENT):
        raise InvalidInput(f"{server.title} is always there. Nothing was removed.")
    if not any(one.address == server.address != "" for one in all_servers() if one.name != name):
        # A pasted key belongs to the address, and another server may have the same address. If the
        # file of keys cannot be used, no key is sent, and the page says so.
        with suppress(KeysUnreadable):
            forget_key(server)
    with transaction.atomic():
        ModelChoice.objects.filter(server_id=name).delete()
        ModelServer.objects.filter(name=name).update(is_removed=True)
        forget_refused_fields(server.address)
    refresh_choices()


def choose_models(choices: dict[str, tuple[str, str] | None]) -> None:
    """Store a server and a model for each key of an agent, or for all agents (""). None removes a
    choice. Either all choices are stored or none. Raises InvalidInput."""
    known = {agent.model_setting for agent in all_agents()} | {ALL}
    with transaction.atomic():
        for key, chosen in choices.items():
            if key not in known:
                raise InvalidInput("There is no agent with this name. Nothing was changed.")
            if chosen is None:
                ModelChoice.objects.filter(agent=key).delete()
                continue
            ModelChoice.objects.update_or_create(agent=key, defaults=_fields(*chosen))
            # A new choice of the model forgets all refused fields, because the server may have been
            # changed.
            forget_refused_fields(find_server(chosen[0]).address, chosen[1].strip())
    refresh_choices()


def save_caps(caps: Caps) -> None:
    """Store the caps on what a chapter may cost, in place of the stored caps. With None, no cap is
    stored, and the cap of the environment counts. Raises InvalidInput for a cap that is higher than
    the cap of the environment."""
    own = caps_of_environment()
    if caps.dollars is not None:
        highest = own.dollars or HIGHEST_DOLLARS
        least = Decimal("0.01")
        if not caps.dollars.is_finite() or not least <= caps.dollars <= highest:
            raise InvalidInput(
                f"The cap in dollars must be ${least} to "
                f"{_highest(f'${highest:,.2f}', own.dollars)}. Nothing was changed."
            )
        caps = replace(caps, dollars=caps.dollars.quantize(least, ROUND_DOWN))
    if caps.tokens is not None:
        limit = own.tokens or HIGHEST_TOKENS
        if not 1 <= caps.tokens <= limit:
            raise InvalidInput(
                f"The cap in tokens must be 1 to {_highest(f'{limit:,}', own.tokens)}. "
                "Nothing was changed."
            )
    SpendingCap.objects.update_or_create(
        defaults={"dollars": caps.dollars, "tokens": caps.tokens}, name="default"
    )
    refresh_choices()


def _highest(number: str, of_environment: object) -> str:
    return f"{number}, which the environment allows at most" if of_environment else number


def _fields(name: str, model: str) -> dict[str, object]:
    find_server(name)
    model = clean_line(model, limit=MODEL_CHAR_LIMIT, label="The model's name")
    if name == EMBEDDED:
        if not can_run_embedded():
            raise InvalidInput(
                "The embedded model does not run here, because STORYENGINE_LLM is openai and each "
                "process of this installation is started by itself. Nothing was changed."
            )
        return {"server": None, "builtin": EMBEDDED, "model": ""}
    if not model:
        raise InvalidInput("Name a model of this server. Nothing was changed.")
    if name == ENVIRONMENT:
        return {"server": None, "builtin": ENVIRONMENT, "model": model}
    return {"server_id": name, "builtin": "", "model": model}
