"""Mends the address of a server as people write or copy it, and names what cannot be mended."""

import re
from urllib.parse import urlsplit

# What stands around an address that was copied from a text or a file.
_AROUND = " \t\r\n\u00a0\u200b\"'`<>\u2018\u2019\u201c\u201d"
# The ends of addresses to which calls go. The program adds them itself.
_CALLED = re.compile(
    r"/+(?:chat/completions|completions|models|responses|embeddings)?/*$", re.IGNORECASE
)
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
# The hosts that are this machine. Nobody uses https there.
_THIS_MACHINE = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[::1\])(?=[:/]|$)", re.IGNORECASE)
# The usual servers, by the port on this machine or by the host, with the end of their addresses.
_USUAL_ENDS = {
    "11434": "/v1", "1234": "/v1", "8080": "/v1", "8000": "/v1", "api.openai.com": "/v1",
    "openrouter.ai": "/api/v1", "api.mistral.ai": "/v1", "api.groq.com": "/openai/v1",
    "api.together.xyz": "/v1",
}  # fmt: skip
_HIGHEST_PORT = 65_535


def mended(text: str) -> str:
    """Return the address in the form that calls need, as far as only one form can be meant."""
    address = text.strip(_AROUND)
    if _THIS_MACHINE.match(address):
        address = f"http://{address}"
    while (shorter := _CALLED.sub("", address)) != address:
        address = shorter
    rest = address.partition("://")[2]
    if _SCHEME.match(address) and "/" not in rest:
        name, _, port = rest.lower().rpartition(":")
        is_here = _THIS_MACHINE.match(rest)
        address += _USUAL_ENDS.get(port if is_here and name else rest.lower(), "")
    return address


def problem_of(address: str) -> str:
    """Return in a sentence what is wrong with a mended address, or "" if nothing is."""
    if re.search(r"\s", address):
        return "An address has no blanks in it."
    if "://" not in address:
        return "An address begins with http:// or https://."
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return "This is no address of a server."
    if parts.scheme not in ("http", "https") or not host:
        return "This is no address of a server."
    port = parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")
    if port[1] and not (port[2].isdecimal() and 0 < int(port[2][:9]) <= _HIGHEST_PORT):
        return f"A port is a number from 1 to {_HIGHEST_PORT}."
    return ""


def lacks_version(address: str) -> bool:
    """Return whether the address has no path, although most servers answer under /v1."""
    try:
        return bool(address) and not urlsplit(address).path.strip("/")
    except ValueError:
        return False
