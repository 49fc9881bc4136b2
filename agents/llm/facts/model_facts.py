"""Facts about models. They come from models.toml and from the user's capability file, which has
priority over models.toml."""

import tomllib
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from django.conf import settings
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from agents.llm.facts.hosted_models import find_listed

# An unknown model gets the full tier if its window has at least this many tokens. A request of the
# full tier has about a tenth of this number of tokens.
_FULL_TIER_WINDOW = 100_000
# No model gets the full tier if its window has fewer tokens than this.
_FULL_TIER_LEAST = 16_384

_FILE = Path(__file__).with_name("models.toml")

Tokens = Annotated[int, Field(gt=0)]
Dollars = Annotated[Decimal, Field(ge=0)] | None
Reliability = Literal["low", "medium", "high", "very_high"]


class CapabilityFileError(Exception):
    """A capability file cannot be used. The message names the file and the fault."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=False))
class ModelFacts:
    """The abilities of a model. Limits are in tokens, and prices in dollars per million tokens."""

    context_window: Tokens
    max_output: Tokens
    open_weights: bool
    character_output: Annotated[int, Field(ge=0)]
    narrator_output: Annotated[int, Field(ge=0)]
    token_parameter: Literal["max_tokens", "max_completion_tokens"]
    # Whether the model takes a temperature and a top_p, and whether it takes stop sequences.
    accepts_temperature: bool
    accepts_stop: bool
    reasons: bool
    json_schema: bool
    # How well the model keeps to JSON or XML if only the text of the request asks for this format.
    json_reliability: Reliability
    xml_reliability: Reliability
    tools: bool
    reasoning_effort: bool
    streaming: bool
    tier: Literal["full", "medium", "minimal"]
    input_price: Dollars = None
    output_price: Dollars = None
    cached_price: Dollars = None
    is_known: bool = True
    # True if the server or the GM named the window. Otherwise the number comes from the program's
    # own lists or is an assumption, and the real window may be larger.
    is_window_told: bool = False


_FACTS: TypeAdapter[ModelFacts] = TypeAdapter(ModelFacts)


def facts_of(model: str, address: str = "") -> ModelFacts:
    """Return the facts about the model with this name at the server with this address, which is the
    environment's server if the address is "".

    The facts come from the entry for the name in a capability file. If there is no entry, they come
    from a list of hosted models and from cautious defaults.
    """
    return _facts_of(
        model,
        settings.MODELS_FILE,
        address or settings.OPENAI_BASE_URL,
        settings.CONTEXT_WINDOW,
        settings.MAX_OUTPUT,
    )


# The facts are cached, because each request needs them several times. The cached facts do not
# become wrong, because only tests change settings while the program runs.
@lru_cache(maxsize=64)
def _facts_of(
    model: str, own_file: str, base_url: str, context_window: int, max_output: int
) -> ModelFacts:
    """Return the facts about a model under these settings. 0 stands for a number that is not
    set."""
    if known := _find_known(model, own_file):
        is_set = known.open_weights and context_window
        return with_window(known, context_window, is_told=True) if is_set else known
    default = read_default()
    listed = find_listed(model, base_url)
    window = context_window or (listed and listed.context_window) or default.context_window
    unknown = replace(default, max_output=max_output or default.max_output, is_known=False)
    return with_window(unknown, window, is_told=bool(context_window))


def with_window(facts: ModelFacts, window: int, *, is_told: bool) -> ModelFacts:
    """Return these facts with another context window, and with the tier that suits this window.

    `is_told` is True if the server or the GM named the window. A large window gives the full tier
    to an unknown model, but does not change the tier of a known model. No model keeps the full tier
    with a small window.
    """
    tier = facts.tier
    if not facts.is_known and window >= _FULL_TIER_WINDOW:
        tier = "full"
    elif tier == "full" and window < _FULL_TIER_LEAST:
        tier = "medium"
    return replace(facts, context_window=window, tier=tier, is_window_told=is_told)


def _find_known(model: str, own_file: str) -> ModelFacts | None:
    # Servers write the name of the same model differently, such as qwen3-14b and Qwen/Qwen3-14B. So
    # a pattern may match the whole name or the part after the last slash.
    name = model.lower()
    short_name = name.rsplit("/", 1)[-1]
    for pattern, facts in read_known_models(own_file):
        if fnmatchcase(name, pattern) or fnmatchcase(short_name, pattern):
            return facts
    return None


@cache
def read_known_models(own_file: str) -> list[tuple[str, ModelFacts]]:
    """Return the entries of the capability files as pairs. Each pair has a pattern, which matches
    names in lower case, and the facts about the models with these names.

    The first pattern that matches a name counts. `own_file` is "" if the user has no capability
    file. Raises CapabilityFileError if a file cannot be used.
    """
    defaults = _read(_FILE)["default"]
    files = [Path(own_file).expanduser(), _FILE] if own_file else [_FILE]
    known = []
    for file in files:
        for entry in _read(file).get("model", []):
            patterns = _patterns_in(file, entry.pop("pattern", ""))
            facts = _facts_in(file, ", ".join(patterns), {**defaults, **entry})
            is_told = file != _FILE and "context_window" in entry
            facts = replace(facts, is_window_told=is_told)
            known += [(pattern.lower(), facts) for pattern in patterns]
    return known


@cache
def read_default() -> ModelFacts:
    return _facts_in(_FILE, "default", _read(_FILE)["default"])


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CapabilityFileError(f"{file} cannot be read: {error}") from error


def _patterns_in(file: Path, pattern: object) -> list[str]:
    patterns = pattern if isinstance(pattern, list) else [pattern]
    named = [each for each in patterns if isinstance(each, str) and each]
    if not named or len(named) < len(patterns):
        raise CapabilityFileError(f"{file}: an entry's pattern is to be a name or a list of names")
    return named


def _facts_in(file: Path, pattern: str, entry: dict[str, Any]) -> ModelFacts:
    try:
        return _FACTS.validate_python(entry)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CapabilityFileError(f"{file}: {pattern}: {field}: {first['msg']}") from error
