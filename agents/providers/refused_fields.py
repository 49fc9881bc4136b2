"""Finds the field of a request that a server refuses by name. The other names of the fields and the
words of such a refusal are known here and nowhere else."""

import re
from collections.abc import Collection
from functools import cache

from agents.providers.server_words import ServerWords

TOOLS, TOOL_CHOICE, RESPONSE_FORMAT = "tools", "tool_choice", "response_format"
# The kind of RESPONSE_FORMAT that has a schema. A server may refuse it alone.
JSON_SCHEMA = "json_schema"
# The fields that shape the answer. A request without one of them has to say the form in words.
OF_FORM = frozenset({TOOLS, RESPONSE_FORMAT, JSON_SCHEMA})
# The two names of the output limit.
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")

# What servers call a field besides its own name.
_ALSO_CALLED = {
    RESPONSE_FORMAT: (
        r"json[_ ]?schema|json[_ ](?:mode|object)|structured[_ ]outputs?|guided[_ ]\w+|grammar"
    ),
    TOOLS: (
        r"tool[_ -]?(?:use|usage|calls?|calling|choice)|function[_ -]?(?:calls?|calling)|functions"
    ),
    "max_tokens": r"max[_ ](?:new|output)[_ ]tokens|num_predict",
    "max_completion_tokens": r"max[_ ](?:new|output)[_ ]tokens|num_predict",
    "reasoning_effort": r"reasoning\.effort|reasoning|thinking",
    "stop": r"stop[_ ](?:sequences?|words?|strings?|tokens?)",
    "stream": r"streaming|stream (?:this model|responses?|mode)",
}
# The names that are no ordinary words. Any other name counts only where it stands as a name.
_CLEAR = ("temperature", TOOLS)
_QUOTES = "\"'`“”\u2018\u2019«»"
_FIELD = r"(?:parameter|argument|field|propert(?:y|ies)|option|key|param|keyword|setting)"

# The words that refuse a field or its value.
_REFUSES = re.compile(
    r"unsupported|unrecogni[sz]ed|unknown|unexpected|unavailable|invalid|illegal|deprecat|disabled"
    r"|n[o']t (?:\w+ ){0,2}(?:support|allow|permit|accept|implement|availab|recogni|valid|enable)"
    r"|no longer|extra (?:inputs?|fields?|propert)|additional propert|no endpoints found|removed"
    r"|cannot|can only|must (?:be|not)|should be|not one of|out of range|requires? "
    r"|only .{0,60}(?:allowed|supported|accepted|available|permitted)|too (?:large|high|big)"
    r"|at most|(?:greater|less|more|larger) than|\d > \d|exceeds|failed to|conversion failed",
    re.IGNORECASE,
)
# Such words refuse the whole field and not one of its values.
_IS_UNKNOWN = re.compile(
    r"unrecogni[sz]ed|unknown|unexpected|extra (?:inputs?|fields?|propert)|additional propert",
    re.IGNORECASE,
)
# Parts of a path to something that no request can do without.
_NEEDED = {"messages", "model", "prompt", "input"}
_PATH = re.compile(r"[\w-]+")


def refused_field(words: ServerWords, sent: Collection[str]) -> str:
    """Return the field that these words refuse, out of the fields that the request has sent.
    Return "" if they refuse none of them."""
    for path in words.fields:
        parts = _PATH.findall(path)
        if not _NEEDED.isdisjoint(parts):
            return ""
        if named := next((part for part in parts if part in sent), ""):
            return named
    if not (_REFUSES.search(words.text) or _REFUSES.search(" ".join(words.codes))):
        return ""
    found = [
        (match.start(), is_alias, name)
        for name in sent
        for is_alias, pattern in enumerate(_patterns(name))
        if (match := pattern.search(words.text))
    ]
    return min(found)[2] if found else ""


def is_unknown(words: ServerWords) -> bool:
    """Return whether the server does not know the field at all, whatever its value is."""
    return bool(_IS_UNKNOWN.search(f"{words.text} {' '.join(words.codes)}"))


@cache
def _patterns(name: str) -> list[re.Pattern[str]]:
    """Return the patterns for the name of a field and for what servers call it besides."""
    if "_" in name or name in _CLEAR:
        clear = re.escape(name).replace("_", "[_ ]?")
        own = rf"(?<!\w){clear}(?!\w)"
    else:
        plain = re.escape(name)
        own = (
            rf"[{_QUOTES}](?:[\w$]+[./])*{plain}[{_QUOTES}.\[]"
            rf"|(?<![\w])(?:body|request|\$)[./]{plain}\b"
            rf"|{_FIELD}s?(?: \w+)?\W{{1,3}}{plain}\b|(?<!\w){plain} {_FIELD}\b"
            rf"|(?:^|[:.;] ){plain}(?=:|\W*$| (?:is|are|not) )"
        )
    called = _ALSO_CALLED.get(name)
    patterns = [own, rf"(?<!\w)(?:{called})(?!\w)"] if called else [own]
    return [re.compile(pattern, re.IGNORECASE) for pattern in patterns]
