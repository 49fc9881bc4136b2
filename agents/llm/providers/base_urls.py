"""Mends the address of a server as people write or copy it, and says what is wrong if it cannot be
mended."""

import re
from contextlib import suppress
from ipaddress import ip_address
from socket import inet_aton
from urllib.parse import urlsplit

# The signs around an address that was copied from a text or a file.
_AROUND = " \t\r\n\u00a0\u200b\ufeff\"'`<>(){},;.\u2018\u2019\u201c\u201d"
# The name of a setting, which was copied with its value.
_SETTING = re.compile(r"\A(?:export\s+)?\w+\s*=\s*(?=[\"']?https?:)", re.IGNORECASE)
# The ends of the addresses that calls are sent to. The program adds these ends itself. The ends
# that begin with api are Ollama's own. The time is linear in the length of a row of slashes.
_CALLED = re.compile(
    r"(?<!/)/++(?:chat/completions|completions|models|responses|embeddings|messages|chat"
    r"|api/(?:chat|generate|tags|show|embed))?/*+$",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
# A scheme as people write it. It may be miswritten or stand twice.
_AS_WRITTEN = re.compile(
    r"\A(?:https?:?/+)*(https?)(?:[:\uff1a]/{0,2}|/{1,2})(?=[^/:\s])", re.IGNORECASE
)
# The hosts that are this machine. Nobody uses https there.
_THIS_MACHINE = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[::1\])(?=[:/]|$)", re.IGNORECASE)
# The usual servers, by the port on this machine or by the host, with the end of their addresses.
_USUAL_ENDS = {
    **dict.fromkeys(("11434", "1234", "8080", "8000", "5000", "5001", "4000", "1337"), "/v1"),
    "api.openai.com": "/v1", "openrouter.ai": "/api/v1", "api.mistral.ai": "/v1",
    "api.groq.com": "/openai/v1", "api.together.xyz": "/v1", "api.anthropic.com": "/v1",
    "api.x.ai": "/v1", "api.cerebras.ai": "/v1", "api.fireworks.ai": "/inference/v1",
    "generativelanguage.googleapis.com": "/v1beta/openai",
}  # fmt: skip
_HIGHEST_PORT = 65_535
# A possible name of a host. If it consists of numbers alone, it has to be an address of four
# numbers.
_HOST = re.compile(r"(?=.{1,253}\Z)(?:[\w-]{1,63}\.)*[\w-]{1,63}\.?")
_NUMBERS = re.compile(r"[\d.]+")


def mended(text: str) -> str:
    """Return the address in the form that calls need, as far as only one form can be meant."""
    address = _SETTING.sub("", text.strip(_AROUND), count=1).strip(_AROUND)
    address = _AS_WRITTEN.sub(r"\1://", address, count=1)
    if _THIS_MACHINE.match(address):
        address = f"http://{address}"
    while (shorter := _CALLED.sub("", address)) != address:
        address = shorter
    scheme, _, rest = address.partition("://")
    if not _SCHEME.match(address):
        return address
    host, slash, path = rest.partition("/")
    path = re.sub("/{2,}", "/", f"{slash}{path}").rstrip("/")
    usual = _usual_end(host.lower())
    # The address has only a part of the usual end, or the path /api, where Ollama and others have
    # their own protocols.
    is_part = path in ("", "/api") or usual.startswith(f"{path}/") or usual.endswith(path)
    return f"{scheme}://{host}{usual if usual and is_part else path}"


def _usual_end(host: str) -> str:
    name, _, port = host.rpartition(":")
    is_port = name and _THIS_MACHINE.match(host)
    return _USUAL_ENDS.get(port if is_port else host, "")


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
    if parts.scheme not in ("http", "https") or not host or not _is_host(host):
        return "This is no address of a server."
    if parts.query or parts.fragment:
        return "An address has no ? and no # in it."
    port = parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")
    is_number = port[2].isascii() and port[2].isdecimal()
    if port[1] and not (is_number and 0 < int(port[2][:9]) <= _HIGHEST_PORT):
        return f"A port is a number from 1 to {_HIGHEST_PORT}."
    return ""


def _is_host(host: str) -> bool:
    """Return whether the text can be a host: an address of numbers, or a name."""
    with suppress(ValueError):
        return bool(ip_address(host))
    with suppress(OSError):
        # A short form of an address, such as 127.1, which programs on this machine read too.
        inet_aton(host)
        return "." in host
    return bool(_HOST.fullmatch(host)) and not _NUMBERS.fullmatch(host)


def lacks_version(address: str) -> bool:
    """Return whether the address has no path, although most servers answer under /v1."""
    try:
        return bool(address) and not urlsplit(address).path.strip("/")
    except ValueError:
        return False
