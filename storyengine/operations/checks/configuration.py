"""Checks of the configuration, which report faults when the program starts."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Tags, register

from agents.calling.spending import uncapped_models
from agents.llm.embedded.catalogue import KNOWN_MODELS
from agents.llm.facts.model_facts import CapabilityFileError, read_known_models
from agents.llm.providers.base_urls import problem_of
from agents.llm.providers.http_clients import host_of
from agents.modes.registry import all_agents
from storyengine.access.listening import (
    SHORTEST_GOOD_SECRET,
    is_beyond_loopback,
    is_held_back,
)
from storyengine.settings.private_files import files_for_others

# With fewer tokens, memory is no use in a chapter of some length.
_FEW_MEMORY_TOKENS = 1_000
# The middleware that replaces Django's own classes. Django's checks, which the settings silence,
# would look only for Django's classes.
PROTECTION = tuple(
    f"storyengine.access.middleware.{name}"
    for name in ("SecurityMiddleware", "CsrfViewMiddleware", "XFrameOptionsMiddleware")
)
# Settings of the middleware above, with the harm if a setting is missing. Django does not check
# these settings, because it finds none of its own classes.
ALWAYS = {
    "SECURE_CONTENT_TYPE_NOSNIFF": "browsers may take a download for a page",
    "SECURE_REFERRER_POLICY": "other sites learn the addresses of chapters",
    "SECURE_CROSS_ORIGIN_OPENER_POLICY": "pages of other sites keep hold of a window of this one",
}
WITH_HTTPS = {
    "SECURE_SSL_REDIRECT": "pages are also answered unencrypted",
    "SECURE_HSTS_SECONDS": "browsers come back unencrypted",
    "SECURE_PROXY_SSL_HEADER": "every page is redirected to itself for ever",
    "SESSION_COOKIE_SECURE": "the login also travels unencrypted",
    "CSRF_COOKIE_SECURE": "the token of forms also travels unencrypted",
}


# A check without arguments, and a check in the form that Django calls.
Check = Callable[[], Iterable[CheckMessage]]
RegisteredCheck = Callable[..., list[CheckMessage]]


def check(*tags: str, deploy: bool = False) -> Callable[[Check], RegisteredCheck]:
    """Register a check, which is a function without arguments that yields messages.

    Django calls a check with arguments that name the apps to check. These arguments are not passed
    on to the function.
    """

    def register_check(find_faults: Check) -> RegisteredCheck:
        # functools.wraps is not used, because Django looks at the signature of the function.
        def run(**_: object) -> list[CheckMessage]:
            return list(find_faults())

        return register(run, *tags, deploy=deploy)

    return register_check


@check(Tags.security)
def check_access() -> Iterator[CheckMessage]:
    if settings.PASSWORD and settings.DEBUG:
        yield checks.Warning(
            "DEBUG is on while the program serves other machines.",
            hint="Error pages would show them settings and texts. Unset DEBUG.",
            id="storyengine.W001",
        )
    if settings.PASSWORD and not settings.API_TOKEN:
        yield checks.Info(
            "A password is set and no API token, so the API refuses every call.",
            hint="Set STORYENGINE_API_TOKEN to open it to programs.",
            id="storyengine.I001",
        )
    if settings.PASSWORD and is_beyond_loopback() and not settings.HTTPS:
        yield _unencrypted()


@check(Tags.security)
def check_secrets() -> Iterable[CheckMessage]:
    secrets = (
        ("STORYENGINE_PASSWORD", settings.PASSWORD, "storyengine.W005", is_held_back()),
        ("STORYENGINE_API_TOKEN", settings.API_TOKEN, "storyengine.W014", False),
    )
    return [
        _short(name, check_id, is_held_back=held_back)
        for name, secret, check_id, held_back in secrets
        if 0 < len(secret) < SHORTEST_GOOD_SECRET
    ]


def _short(name: str, check_id: str, *, is_held_back: bool) -> CheckMessage:
    hint = (
        "It alone stands between whoever reaches the program and every story: choose a longer one"
    )
    if is_held_back:
        hint += (
            ". Until then the program listens on this machine alone. To let other machines reach "
            "it with this one, say so with STORYENGINE_HOST=0.0.0.0"
        )
    return checks.Warning(
        f"{name} has fewer than {SHORTEST_GOOD_SECRET} characters.", hint=f"{hint}.", id=check_id
    )


@check(Tags.security)
def check_proxies() -> Iterator[CheckMessage]:
    """Warn if the settings name no proxy, or trust every proxy.

    Wrong passwords are counted by visitors' addresses, and only a trusted proxy may name these
    addresses.
    """
    if settings.HTTPS and not settings.PROXIES:
        yield checks.Warning(
            "FORWARDED_ALLOW_IPS names no proxy: all visitors count as one when wrong "
            "passwords are counted, and one who guesses locks out all.",
            hint="Set it to the address from which the proxy that speaks HTTPS connects.",
            id="storyengine.W015",
        )
    elif "*" in settings.PROXIES:
        yield checks.Warning(
            "FORWARDED_ALLOW_IPS is *: a visitor can write any address into X-Forwarded-For, "
            "and guess passwords from a new one each time.",
            hint="Name the proxy's address or network, with compose 172.16.0.0/12.",
            id="storyengine.W016",
        )


@check(Tags.security)
def check_private_files() -> Iterator[CheckMessage]:
    """Warn of files that other users can still read, because the program could not change them."""
    files = files_for_others(settings.DATA_FOLDER, settings.DATABASES["default"])
    if files:
        yield checks.Warning(
            f"Other users of this machine can read or change {', '.join(map(str, files))}.",
            hint="Run chmod go= on them as their owner; where one is a link, on what it leads to.",
            id="storyengine.W018",
        )


def _unencrypted() -> CheckMessage:
    return checks.Warning(
        "STORYENGINE_HTTPS is not set: password, cookies and texts travel unencrypted.",
        hint="Put a proxy that speaks HTTPS in front, and set it to true; or listen on this "
        "machine alone, with STORYENGINE_HOST=127.0.0.1.",
        id="storyengine.W007",
    )


@check(Tags.security)
def check_middleware() -> Iterable[CheckMessage]:
    return [
        checks.Error(
            f"{name} is not in MIDDLEWARE.",
            hint="It stands in for Django's class of that name: forms, frames and headers are "
            "unguarded without it. Put it back (see storyengine/settings).",
            id="storyengine.E003",
        )
        for name in PROTECTION
        if name not in settings.MIDDLEWARE
    ]


@check(Tags.compatibility)
def check_models_file() -> Iterator[CheckMessage]:
    try:
        read_known_models(settings.MODELS_FILE)
    except CapabilityFileError as error:
        yield checks.Error(
            f"STORYENGINE_MODELS_FILE cannot be used. {error}",
            hint="agents/llm/facts/models.toml shows the form and explains the fields.",
            id="storyengine.E004",
        )


@check(Tags.compatibility)
def check_model() -> Iterable[CheckMessage]:
    return _check_model_server() if settings.LLM == "openai" else _check_embedded_model()


@check(Tags.compatibility)
def check_caps() -> Iterator[CheckMessage]:
    try:
        models = uncapped_models()
    except CapabilityFileError:
        # Nothing is reported here, because check_models_file reports this error.
        return
    if models:
        yield checks.Warning(
            "The cap in dollars cannot stop calls of models without a known price: "
            f"{', '.join(models)}.",
            hint="Set STORYENGINE_CHAPTER_TOKENS or a cap in tokens on the page Models, or give "
            "prices in STORYENGINE_MODELS_FILE.",
            id="storyengine.W008",
        )


@check(Tags.compatibility)
def check_memory() -> Iterator[CheckMessage]:
    if settings.MEMORY_TOKENS < _FEW_MEMORY_TOKENS:
        yield checks.Warning(
            f"STORYENGINE_MEMORY_TOKENS is {settings.MEMORY_TOKENS}: prompts will leave out most "
            "of what happened.",
            hint=f"Set it to at least {_FEW_MEMORY_TOKENS}, or leave it out, for the default.",
            id="storyengine.W019",
        )


def _check_embedded_model() -> Iterator[CheckMessage]:
    name = settings.EMBEDDED_MODEL
    if not (name in KNOWN_MODELS or Path(name).expanduser().is_file()):
        yield checks.Error(
            f"STORYENGINE_EMBEDDED_MODEL is {name!r}, which is neither a known model nor a file.",
            hint=f"Use {' or '.join(KNOWN_MODELS)}, or the path of a GGUF file.",
            id="storyengine.E002",
        )


def _check_model_server() -> Iterator[CheckMessage]:
    if problem := problem_of(settings.OPENAI_BASE_URL):
        yield checks.Error(
            f"OPENAI_BASE_URL is not a web address. {problem}",
            hint="It looks like https://api.openai.com/v1 or http://localhost:11434/v1.",
            id="storyengine.E001",
        )
        return
    address = urlsplit(settings.OPENAI_BASE_URL)
    host = host_of(settings.OPENAI_BASE_URL)
    if host and not settings.OPENAI_API_KEY:
        yield checks.Warning(
            f"OPENAI_API_KEY is not set; {host} will most likely refuse the calls of all agents "
            "for which no other server was chosen.",
            hint="Set it, choose another server on the page Models, or unset STORYENGINE_LLM to "
            "use the embedded model.",
            id="storyengine.W002",
        )
    if host and address.scheme == "http":
        yield checks.Warning(
            f"Texts and the API key go to {host} unencrypted.",
            hint="Use an https:// address for OPENAI_BASE_URL.",
            id="storyengine.W003",
        )
    chosen = settings.MODEL_BY_AGENT
    names_every_model = settings.MODEL or all(
        chosen.get(agent.model_setting) for agent in all_agents()
    )
    if address.hostname != "api.openai.com" and not names_every_model:
        yield checks.Warning(
            f"STORYENGINE_MODEL is not set; {address.hostname} is asked for OpenAI's models.",
            hint="Set it to a model that this server has.",
            id="storyengine.W006",
        )


@check(Tags.security, deploy=True)
def check_production() -> Iterator[CheckMessage]:
    if settings.SECRET_KEY_IS_GENERATED:
        yield checks.Warning(
            "SECRET_KEY is not set; the one in the data folder is used.",
            hint="Logins end when that folder is lost or not shared by all processes.",
            id="storyengine.W004",
        )
    # If there is a password and the server listens beyond loopback, check_access warns at every
    # start, so this check does not.
    if not settings.HTTPS and not (settings.PASSWORD and is_beyond_loopback()):
        yield _unencrypted()
    if not settings.PASSWORD:
        yield checks.Warning(
            "STORYENGINE_PASSWORD is not set.",
            hint="Without it the program serves its own machine alone.",
            id="storyengine.W017",
        )
    if "*" in settings.ALLOWED_HOSTS:
        yield checks.Warning(
            "ALLOWED_HOSTS is not set, or has a *: requests for every host name are answered.",
            hint="Set it to the name that the program is reached by.",
            id="storyengine.W012",
        )


@check(Tags.security, deploy=True)
def check_guards() -> Iterable[CheckMessage]:
    """Check the settings of the middleware that no environment variable sets. A warning means a
    mistake in the source."""
    harm = ALWAYS | (WITH_HTTPS if settings.HTTPS else {})
    wrong = {name: what for name, what in harm.items() if not getattr(settings, name)}
    if settings.X_FRAME_OPTIONS != "DENY":
        wrong["X_FRAME_OPTIONS"] = "pages of other sites may show pages of this one inside them"
    return [
        checks.Warning(
            f"{name} is {getattr(settings, name)!r}: {what}.",
            hint="Put it back to what storyengine/settings sets it to.",
            id="storyengine.W013",
        )
        for name, what in wrong.items()
    ]
