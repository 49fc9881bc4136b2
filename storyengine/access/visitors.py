"""The address under which a visitor's wrong passwords and tokens are counted, and the number of
wrong tries that the database has not counted yet."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, IPv6Network, ip_address
from threading import Lock

from django.http import HttpRequest

# The prefix length of the smallest network that a provider gives to a customer. One visitor may use
# all addresses of such a network.
_IPV6_PREFIX = 64


def counted_address(request: HttpRequest) -> str | None:
    """Return the address that stands for the visitor in counts, or None if it is not known.

    All visitors of an IPv6 network are counted under the network's first address.
    """
    try:
        address = ip_address(request.META.get("REMOTE_ADDR") or "")
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    # The zone is left out by converting the address to an integer, because IPv6Network does not
    # accept an address with a zone.
    return str(IPv6Network((int(address), _IPV6_PREFIX), strict=False).network_address)


class WaitingTries:
    """The number of wrong tries of each visitor's address that the database has not counted yet.

    These tries count towards the limit too. Otherwise a visitor could send many guesses at once,
    and learn which guess is right.
    """

    def __init__(self) -> None:
        self._counts: Counter[str | None] = Counter()
        self._one_change = Lock()

    def count(self, visitor: HttpRequest) -> int:
        return self._counts[counted_address(visitor)]

    @contextmanager
    def one_more(self, visitor: HttpRequest) -> Iterator[None]:
        address = counted_address(visitor)
        with self._one_change:
            self._counts[address] += 1
        try:
            yield
        finally:
            with self._one_change:
                self._counts[address] -= 1
                if not self._counts[address]:
                    del self._counts[address]
