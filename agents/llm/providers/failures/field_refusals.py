"""Finds the field of a request that a server refuses by name. The other names of the fields and the
words of such a refusal are known here and nowhere else."""

import re
from collections.abc import Collection
from functools import cache

from agents.llm.providers.failures.server_words import ServerWords

TOOLS, TOOL_CHOICE, RESPONSE_FORMAT = "tools", "tool_choice", "response_format"
# The kind of RESPONSE_FORMAT that has a schema. A server may refuse only this kind.
JSON_SCHEMA = "json_schema"
# The fields that shape the answer. A request without one of them has to say the form in words.
OF_FORM = frozenset({TOOLS, RESPONSE_FORMAT, JSON_SCHEMA})
# The two names of the output limit.
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")

# Further names that servers use for a field.
_LIMIT_CALLED = r"max[_ ]?(?:new|output)[_ ]?tokens|maximum tokens|num_predict"
_ALSO_CALLED = {
    RESPONSE_FORMAT: (
        r"json[_ ]?schema|json[_ ](?:mode|object)|structured[_ ]outputs?|guided[_ ]\w+|grammar"
        r"|response[_ ]?(?:schema|mime[_ ]?type)|output[_ ](?:format|config)|xgrammar|outlines"
        r"|schema(?= (?:is|has|produces) )"
    ),
    TOOLS: (
        r"tool[_ -]?(?:use|usage|calls?|calling|choice)|function[_ -]?(?:calls?|calling)"
        r"|functions|schema for function"
    ),
    "max_tokens": _LIMIT_CALLED,
    "max_completion_tokens": _LIMIT_CALLED,
    "reasoning_effort": (
        r"reasoning\.effort|reasoning|thinking(?:[_ ](?:config|budget|level))?|think value"
    ),
    "stop": r"stop[_ ](?:sequences?|words?|strings?|tokens?)",
    "stream": r"streaming|stream (?:this model|responses?|mode)",
}
# The field whose further names may also be used of a model. If the same words name a second field
# too, the second field is meant.
_WEAKLY_CALLED = "reasoning_effort"
# The names that are no ordinary words. Any other name counts only where it stands as a name.
_CLEAR = ("temperature", TOOLS)
_QUOTES = "\"'`“”\u2018\u2019«»"
# In other scripts, letters may stand beside a name without a blank.
_NO_LETTER_BEFORE, _NO_LETTER_BEHIND = r"(?<![A-Za-z0-9_])", r"(?![A-Za-z0-9_])"
_FIELD = r"(?:parameter|argument|field|propert(?:y|ies)|option|key|param|keyword|setting)"

# The words that refuse a field or its value.
_REFUSES = re.compile(
    r"unsupported|unrecogni[sz]ed|unknown|unexpected|unavailable|invalid|illegal|deprecat|disabled"
    r"|n[o']t (?:\w+ ){0,2}(?:support|allow|permit|accept|implement|availab|recogni|valid|enable"
    r"|take|work|defined|compatible)"
    r"|no longer|extra (?:inputs?|fields?|propert)|additional propert|no endpoints found|removed?\b"
    r"|cannot|(?:can|may) only|must (?:be|not|contain)|needs? to|should be|not one of|out of range"
    r"|requires? "
    r"|only .{0,60}(?:allowed|supported|accepted|available|permitted)|enabled only"
    r"|too (?:large|high|big|many|complex)|mismatch"
    r"|at most|(?:greater|less|more|larger|lower) than|\d > \d|exceeds|failed to|conversion failed"
    r"|不支持|不合法|无效|非法|仅支持"
    r"|pas (?:pris|prise) en charge|nicht unterst|no (?:es|está) (?:compat|admit)",
    re.IGNORECASE,
)
# Such words refuse the whole field and not one of its values.
_IS_UNKNOWN = re.compile(
    r"unrecogni[sz]ed|unknown|unexpected|extra (?:inputs?|fields?|propert)|additional propert",
    re.IGNORECASE,
)
# Words in the path of a refused field that show that the field cannot be left out.
_NEEDED = {"messages", "model", "prompt", "input"}
# By these words, a message of the chat or the model is at fault, even if the words also name a
# field.
_OF_WHAT_IS_NEEDED = re.compile(
    r"\bmessages?[.\[]|tool_call_id|tool_use_id|messages? with (?:role )?['\"`]|role ['\"`]?tool"
    r"|(?:unknown|unsupported|invalid) model\b[^.]{0,10}:",
    re.IGNORECASE,
)
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
    is_refusal = _REFUSES.search(words.text) or _REFUSES.search(" ".join(words.codes))
    if not is_refusal or _OF_WHAT_IS_NEEDED.search(words.text):
        return ""
    found = [
        (bool(is_alias) and name == _WEAKLY_CALLED, match.start(), is_alias, name)
        for name in sent
        for is_alias, pattern in enumerate(_patterns(name))
        if (match := pattern.search(words.text))
    ]
    return min(found)[-1] if found else ""


def is_unknown(words: ServerWords) -> bool:
    """Return whether the server does not know the field at all, whatever its value is."""
    return bool(_IS_UNKNOWN.search(f"{words.text} {' '.join(words.codes)}"))


@cache
def _patterns(name: str) -> list[re.Pattern[str]]:
    """Return the patterns for the name of a field and for its further names."""
    if "_" in name or name in _CLEAR:
        clear = re.escape(name).replace("_", "[_ -]?")
        own = rf"{_NO_LETTER_BEFORE}{clear}{_NO_LETTER_BEHIND}"
    else:
        plain = re.escape(name)
        own = (
            rf"[{_QUOTES}](?:[\w$]+[./])*{plain}[{_QUOTES}.\[]"
            rf"|(?<![\w])(?:body|request|\$)[./]{plain}\b"
            rf"|{_FIELD}s?(?: \w+)?\W{{1,3}}{plain}\b|(?<!\w){plain} {_FIELD}\b"
            rf"|(?:^|[:.;] ){plain}(?=:|\W*$| (?:is|are|not) )|(?<!\w){plain}=\w"
            rf"|supports? {plain}(?=\W*$)"
        )
    called = _ALSO_CALLED.get(name)
    patterns = [own, rf"{_NO_LETTER_BEFORE}(?:{called}){_NO_LETTER_BEHIND}"] if called else [own]
    return [re.compile(pattern, re.IGNORECASE) for pattern in patterns]
