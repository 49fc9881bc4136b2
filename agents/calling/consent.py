"""Stores the hosts to which the GM allows texts to be sent. Calls to any other host are refused."""

from agents.calling.model_access import provider_host
from agents.exceptions import ConsentMissing
from agents.models import ProviderConsent
from sessions.exceptions import InvalidInput

__all__ = [
    "ConsentMissing",
    "check_consent",
    "grant",
    "granted_hosts",
    "is_allowed",
    "provider_host",
    "withdraw",
]


def check_consent() -> None:
    """Raise ConsentMissing if texts would be sent to a host that the GM has not allowed."""
    host = provider_host()
    if not is_allowed(host):
        raise ConsentMissing(host)


def is_allowed(host: str) -> bool:
    return not host or ProviderConsent.objects.filter(host=host).exists()


def grant(host: str) -> None:
    """Store the GM's consent to this host. Only the host in the settings can be allowed."""
    if not host or host != provider_host():
        raise InvalidInput(
            f"{host[:100] or 'No host'} is not where this program would send texts, "
            f"which is {provider_host() or 'nowhere: they stay on this machine'}."
        )
    ProviderConsent.objects.get_or_create(host=host)


def withdraw(host: str) -> None:
    ProviderConsent.objects.filter(host=host).delete()


def granted_hosts() -> list[ProviderConsent]:
    return list(ProviderConsent.objects.order_by("host"))
