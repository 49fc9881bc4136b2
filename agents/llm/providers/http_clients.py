"""Makes the HTTP clients for calls of servers, and names the host of an address."""

import ipaddress
import ssl
from functools import cache, lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

from agents.llm.providers.answers.answer_heads import bound_heads
from agents.llm.providers.connecting import check_connections


@lru_cache(maxsize=8)
def host_of(base_url: str) -> str:
    """Return the host that would receive texts, or "" if this host is the machine itself."""
    # The address is parsed by the library that makes the connection, because two parsers could find
    # different hosts in the same address.
    try:
        host = httpx2.URL(base_url).host
    except httpx2.InvalidURL:
        return base_url
    if host == "localhost":
        return ""
    try:
        return "" if ipaddress.ip_address(host).is_loopback else host
    except ValueError:
        return host or base_url


def address_in_words(base_url: str) -> str:
    """Return the host, and the port if it is unusual, without the user name and password."""
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL:
        return "with an address that is none"
    return f"{url.host}:{url.port}" if url.port else url.host


def build_http_client(base_url: str, timeout: httpx2.Timeout) -> httpx2.AsyncClient:
    """Return a client that follows no redirect and sends texts only to the server at `base_url`. It
    bounds the heads of answers."""
    is_local = not host_of(base_url)
    has_tls = base_url.lower().startswith("https:")
    client = httpx2.AsyncClient(
        # Compression is refused, because a small answer could unpack into a giant one.
        headers={"Accept-Encoding": "identity"},
        # No cookies are kept, because each call would send them back, and they could grow.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        # No redirect is followed, and for this machine no proxy of the environment is used, because
        # a redirect or a proxy could send texts to a host that the GM has not allowed.
        follow_redirects=False,
        trust_env=not is_local,
        timeout=timeout,
        # Connections are kept open while the GM thinks, because making a new connection takes up to
        # 0.1 seconds.
        limits=httpx2.Limits(keepalive_expiry=120),
        verify=_tls_context() if has_tls else _no_tls_context(),
    )
    check_connections(client)
    bound_heads(client)
    return client


@cache
def _tls_context() -> ssl.SSLContext:
    # All clients share one TLS context, because loading the certificates takes longer than a call.
    return httpx2.create_ssl_context()


@cache
def _no_tls_context() -> ssl.SSLContext:
    """Return a TLS context without certificates. It is built quickly, and plain HTTP needs no
    other."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
