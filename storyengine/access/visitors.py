"""The address under which a visitor's wrong passwords and tokens are counted."""

from ipaddress import IPv6Address, IPv6Network, ip_address

from django.http import HttpRequest

# What a provider gives to one connection, at the least: whoever has one address of it has all.
_IPV6_PREFIX = 64


def counted_address(request: HttpRequest) -> str | None:
    """The visitor's address, of IPv6 the first one of its network; None where none is known."""
    try:
        address = ip_address(request.META.get("REMOTE_ADDR") or "")
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    # By its number, which has no zone.
    return str(IPv6Network((int(address), _IPV6_PREFIX), strict=False).network_address)
