"""Refuses connections to the addresses of services that clouds and network cards offer themselves.

A name is resolved here, and the connection is made to the very address that was checked.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable

import httpcore2
import httpx2
from httpcore2 import SOCKET_OPTION

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Addresses of metadata services that are not link-local: AWS over IPv6, Alibaba and Oracle Cloud.
_METADATA = {
    ipaddress.ip_address(text)
    for text in ("fd00:ec2::254", "100.100.100.200", "192.0.0.192", "fd20:ce::254")
}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_refused(address: _Address) -> bool:
    """Return whether nothing may be sent to this address, also if it is an IPv4 address within an
    IPv6 address."""
    if isinstance(address, ipaddress.IPv6Address):
        within = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64 or int(address) >> 32 == 0:
            within.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if any(one is not None and is_refused(one) for one in within):
            return True
        # The same address with a zone is another object.
        address = ipaddress.IPv6Address(int(address))
    return (
        address.is_link_local
        or address.is_multicast
        or address in _METADATA
        or address.is_unspecified
    )


def check_connections(client: httpx2.AsyncClient) -> None:
    """Let the client connect only to addresses that are not refused. A proxy resolves names itself,
    so its connections are not checked here."""
    if isinstance(client._transport, httpx2.AsyncHTTPTransport):
        # The client has no option for this.
        pool = client._transport._pool
        pool._network_backend = _CheckedNetwork(pool._network_backend)


class _CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """A network that connects only to addresses that are not refused."""

    def __init__(self, network: httpcore2.AsyncNetworkBackend) -> None:
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception = httpcore2.ConnectError("the name has no address")
        async with asyncio.timeout(timeout):
            found = await _resolve(host, port)
        if any(is_refused(address) for address in found):
            raise httpcore2.ConnectError("the address is refused")
        # IPv4 and IPv6 are tried one after the other, as the system orders them.
        for address in found:
            try:
                return await self._network.connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


async def _resolve(host: str, port: int) -> list[_Address]:
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    try:
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError("the name has no address") from error
    return list(dict.fromkeys(ipaddress.ip_address(info[4][0]) for info in infos))
