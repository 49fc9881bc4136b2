"""Stores the hosts that the GM allows to receive texts. Calls to any other host are refused."""

from agents.calling.model_access import provider_hosts, read_model
from agents.calling.servers.choices import environment_server, refresh_choices, server_from
from agents.exceptions import ConsentMissing
from agents.models import ModelServer, ProviderConsent
from agents.prompting.agent import Agent
from sessions.exceptions import InvalidInput

__all__ = [
    "ConsentMissing",
    "check_consent",
    "check_host",
    "grant",
    "granted_hosts",
    "hosts_to_allow",
    "is_allowed",
    "provider_host",
    "withdraw",
]


def check_consent(agent: Agent) -> None:
    """Raise ConsentMissing if the agent's texts would be sent to a host that is not allowed."""
    check_host(read_model(agent).host)


def check_host(host: str) -> None:
    """Raise ConsentMissing if the GM has not allowed this host."""
    if not is_allowed(host):
        raise ConsentMissing(host)


def provider_host() -> str:
    """Return the host about which pages ask: the first host in use that is not allowed, or else the
    first host in use, or "" if all texts stay on this machine."""
    refresh_choices()
    hosts = provider_hosts()
    if len(hosts) < 2:
        return hosts[0] if hosts else ""
    allowed = set(ProviderConsent.objects.values_list("host", flat=True))
    return next((host for host in hosts if host not in allowed), hosts[0])


def hosts_to_allow() -> list[str]:
    """Return the hosts in use, and the hosts of the servers that could be used."""
    rows = ModelServer.objects.filter(is_removed=False).order_by("name")
    servers = [environment_server(), *map(server_from, rows)]
    hosts = [*provider_hosts(), *(server.host for server in servers)]
    return [host for host in dict.fromkeys(hosts) if host]


def is_allowed(host: str) -> bool:
    return not host or ProviderConsent.objects.filter(host=host).exists()


def grant(host: str) -> None:
    """Store the GM's consent to this host. Only the hosts of servers that are known can be
    allowed."""
    present = provider_host()
    if not host or (host != present and host not in hosts_to_allow()):
        raise InvalidInput(
            f"{host[:100] or 'No host'} is not where this program would send texts, "
            f"which is {present or 'nowhere: they stay on this machine'}."
        )
    ProviderConsent.objects.get_or_create(host=host)


def withdraw(host: str) -> None:
    ProviderConsent.objects.filter(host=host).delete()


def granted_hosts() -> list[ProviderConsent]:
    return list(ProviderConsent.objects.order_by("host"))
