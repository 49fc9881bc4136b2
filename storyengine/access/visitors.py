"""The address under which a visitor's wrong passwords and tokens are counted."""

from ipaddress import IPv6Address, IPv6Network, ip_address

from django.http import HttpRequest

# The prefix length of the smallest network that a provider gives to a customer. The customer can
# use every address in it.
_IPV6_PREFIX = 64


def counted_address(request: HttpRequest) -> str | None:
    """Return the visitor's address. For IPv6, return the first address of its network.

    Returns None if the address is not known.
    """
    try:
        address = ip_address(request.META.get("REMOTE_ADDR") or "")
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    # The address is converted to a number first, because this removes its zone.
    return str(IPv6Network((int(address), _IPV6_PREFIX), strict=False).network_address)
