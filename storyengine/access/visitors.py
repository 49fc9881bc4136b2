"""The address under which a visitor's wrong passwords and tokens are counted."""

from ipaddress import IPv6Address, IPv6Network, ip_address

from django.http import HttpRequest

# The smallest network that one customer of a provider gets, in which he has every address.
_IPV6_PREFIX = 64


def counted_address(request: HttpRequest) -> str | None:
    """Return the visitor's IPv4 address or first IPv6 address of his network; None if unknown."""
    try:
        address = ip_address(request.META.get("REMOTE_ADDR") or "")
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    # The address as a number leaves out its zone.
    return str(IPv6Network((int(address), _IPV6_PREFIX), strict=False).network_address)
