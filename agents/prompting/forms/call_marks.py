"""Knows the marks between which models write tool calls, and what may begin at a place in a text.

Each decision looks at no more than LOOK_AHEAD signs. As long as these signs have not arrived, the
decision may be left open.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agents.prompting.escaping import CALL_ELEMENT
from agents.prompting.forms.json_scanning import LOOK_AHEAD, may_begin

# A value of JSON, an element with the name of a tool, lines of Python, the name before the
# arguments, a mark around calls, the beginning of a fence, or a sign between two calls.
Kind = Literal["json", "element", "code", "name", "label", "braces", "mark", "fence", "between"]


@dataclass(frozen=True)
class Found:
    kind: Kind
    # The mark itself, and the name of a tool in it.
    text: str = ""
    name: str = ""
    is_end: bool = False


_BAR = "[|\N{FULLWIDTH VERTICAL LINE}]"
_WORDS = r"[\w\N{LOWER ONE EIGHTH BLOCK} -]"
# The words of a mark without the signs between them, such as "toolcallsbegin".
_MARK_WORDS = re.compile(
    r"(?:longcat|dsml)?(?:start|end|begin)?(?:tool|function)s?"
    r"(?:calls?|use|code|request|sep|prefix|suffix)(?:section|argument)?s?(?:begin|start|end|sep)?"
    r"|(?:start|end)action|action(?:start|end)|python(?:tag|start|end)|plugin|(?:dsml)?invoke|usetool"
)
_MARK = re.compile(
    rf"<(?P<before>{_BAR}?/?{_BAR}?)(?:\w{{1,20}}:|DSML{_BAR})?(?P<words>{_WORDS}{{1,60}}){_BAR}?>"
    r"|\[(?P<slash>/?)(?:END_)?(?P<bracket>(?i:TOOL_(?:CALLS?|REQUEST))|ARGS|CALL_ID)\]"
)
_ELEMENTS = ("function", "invoke", "tool", "tool_call", "function_call", CALL_ELEMENT)
_ELEMENT = re.compile(
    rf"<(?:\w{{1,20}}:|{_BAR}DSML{_BAR})?(?P<element>{'|'.join(_ELEMENTS)})(?:\s+name\s*=\s*|\s*=\s*)[\"']?"
    r"(?P<name>[^\"'<>\s/]+)[\"']?[^<>]*?(?P<is_whole>/?)>"
)
_OWN_ELEMENT = re.compile(
    r"<(?P<element>(?P<name>[A-Za-z]\w{0,63}))(?:\s+\w+\s*=[^<>]*?)?\s*(?P<is_whole>/?)>"
)
_PAIRS = re.compile(r"(?=<(?:longcat_)?arg_key>|<parameter[\s=])")
# The words that models write in lines before a name and before its arguments.
_LABEL = (
    r"(?:Action|Tool|Function|(?:Tool|Function)[ _]?[Cc]all|Call|\u273fFUNCTION\u273f)\s*:\s*"
    r"|(?:assistant)?commentary to="
)
_ARGUMENTS_LABEL = r"(?:Action Input|Arguments|Parameters|Args|Input|\u273fARGS\u273f)\s*:\s*"
_NAMED = re.compile(
    rf"(?P<label>{_LABEL})?[`*]*(?:functions\.)?(?P<name>[A-Za-z][\w.]{{0,63}})[`*]*\s*:?\s*"
    rf"(?P<second>{_ARGUMENTS_LABEL})?(?:(?:json|code)\s*)?(?=\{{|```)"
)
_NAMED_SO_FAR = re.compile(
    rf"(?:{_LABEL})?[`*]*(?:functions\.)?(?P<name>[A-Za-z][\w.]{{0,63}})[`*]*\s*:?\s*"
    r"[\u273f]?[A-Za-z]{0,10}[ \u273f]?[A-Za-z]{0,5}\s*:?\s*`{0,2}"
)
_LABELLED = re.compile(rf"(?:{_LABEL})(?=[{{\[`<])")
_LABELS = (
    *("Action:", "Tool:", "Function:", "Tool call:", "Tool Call:", "Tool_call:", "Function call:"),
    *("Function Call:", "Call:", "\u273fFUNCTION\u273f:", "assistantcommentary to="),
    "commentary to=",
)
_FENCE = re.compile(r"```+[ \t]*(?P<language>[\w-]{0,20})[ \t]*\n?\s*")
# The languages of fences that have nothing but calls.
TOOL_FENCES = frozenset(
    {"tool_code", "tool_call", "tool_calls", "tool_use", "function_call", "function_calls"}
)
_FENCE_SO_FAR = re.compile(r"`{1,2}|```+[ \t]*[\w-]{0,20}[ \t]*\n?\s*")
_CODE = re.compile(
    r"\[?(?:print\()?\[?(?:\w{1,30}\.)?(?P<name>[A-Za-z]\w{0,63})\((?=\s*(?:\)|\w+\s*=|[\"']))"
)
_CODE_SO_FAR = re.compile(
    r"\[?(?:print\()?\[?(?:\w{1,30}\.)?(?P<name>\w{0,64})(?P<inside>\(\s*(?:\w+\s*)?)?"
)
_RESULT = re.compile("\u273f(?:RESULT|RETURN)\u273f:?")
_CALL_WORD = re.compile(r"call:(?P<name>[A-Za-z]\w{0,63})(?=\{)")
_UNKNOWN_NAME = re.compile(r"\[\w*(?:[a-z][A-Z]|_)\w*")
_UNKNOWN_CODE = re.compile(r"\[\w*(?:[a-z][A-Z]|_)\w*\(\s*(?:\)|\w+\s*=)")
_HEAD = re.compile(r"(?P<name>[A-Za-z][\w.:/-]{0,99})(?=\s*(?:\{|\[(?:ARGS|CALL_ID)\]|<|```))")
_HEAD_SO_FAR = re.compile(
    r"[A-Za-z][\w.:/-]{0,99}\s*\[?(?:[A-Z_]*)|[A-Za-z][\w.:/-]{0,99}\s*`{0,2}"
)
# The letters that a mark may begin with. Text that cannot become a mark is let through.
_BEGINNINGS = (
    "tool", "function", "invoke", "pythontag", "startfunction", "startaction", "endfunction",
    "endaction", "antml", "minimax", "action", "plugin", "pythonst", "pythonend",
    "longcattool", "longcatarg", "dsml", "usetool", CALL_ELEMENT,
)  # fmt: skip
_TAG_SO_FAR = re.compile(
    rf"<{_BAR}?/?{_BAR}?[\w:\N{{LOWER ONE EIGHTH BLOCK}} |\N{{FULLWIDTH VERTICAL LINE}}-]*[^<>\n]*"
)
_BRACKET_MARKS = ("[TOOL_CALLS]", "[TOOL_CALL]", "[TOOL_REQUEST]", "[ARGS]", "[CALL_ID]")


def letters(text: str) -> str:
    return "".join(sign for sign in text if sign.isascii() and sign.isalpha()).casefold()


def find_here(
    window: str, tools: Iterable[str], *, is_whole: bool, within: bool, in_fence: bool
) -> Found | Literal["open"] | None:
    """Return the mark or the call at the beginning of the window. Return None if it begins with
    words of the story, and "open" if more of the text is needed.

    `is_whole` says that nothing follows the window. `within` is True behind a mark or in a fence,
    where names and separators may stand.
    """
    is_whole = is_whole or len(window) >= LOOK_AHEAD
    names = frozenset(tools)
    match window[0]:
        case "<":
            found, is_open = _tag(window, names)
        case "`":
            found, is_open = _fence(window, names, is_whole=is_whole, in_fence=in_fence)
        case "{" | "[":
            found, is_open = _json(window, names, within=within)
        case "," | ";" | "}" | ")":
            found, is_open = _between(window, within=within)
        case "\u273f":
            found, is_open = _named(window, names)
        case sign if sign.isalpha():
            found, is_open = _word(window, names, within=within)
        case _:
            return None
    return "open" if found is None and is_open and not is_whole else found


def unfinished_mark(text: str) -> bool:
    """Return whether the text at the end of an answer is the beginning of a mark, and no words."""
    said = letters(text[:40])
    if text[0] == "[":
        return len(text) > 4 and any(mark.startswith(text) for mark in _BRACKET_MARKS)
    has_sign = any(
        sign in text for sign in "_=|\N{FULLWIDTH VERTICAL LINE}\N{LOWER ONE EIGHTH BLOCK}"
    )
    is_named = re.match(rf"<(?:\w+:)?(?:{'|'.join(_ELEMENTS)})\s+name\s*=", text)
    return bool(is_named) or (
        has_sign
        and len(said) > 2
        and any(one.startswith(said) or said.startswith(one) for one in _BEGINNINGS)
    )


_BEFORE_NAMES = ("print", "default_api", "functions", "tools", "functools")


@lru_cache(maxsize=32)
def word_starts(tools: frozenset[str]) -> frozenset[str]:
    """Return the beginnings of the names of tools. A word with such a beginning may begin a call in
    Python. The set is empty if there are no tools."""
    names = {*_spellings(tools), *_BEFORE_NAMES} if tools else set()
    return frozenset(name[:end] for name in names for end in range(len(name) + 1))


def is_name(word: str, tools: frozenset[str]) -> bool:
    return word in _spellings(tools)


@lru_cache(maxsize=32)
def call_starts(tools: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern of the signs and words that may begin a call within words of the story."""
    names = "|".join([*sorted(_spellings(tools)), "print"])
    code = rf"|(?<![\w.])(?:(?:default_api|functions|tools)\.)?(?:{names})\(" if tools else ""
    known = "|".join(sorted(_spellings(tools)))
    named = (
        rf"|(?<![\w.])(?:{known})[`*]*\s*:?\s*[A-Za-z\u273f ]{{0,12}}:?\s*[{{`]" if tools else ""
    )
    functools = r"|functools(?=\[)" if tools else ""
    return re.compile(rf"[<{{\[`]{code}{named}{functools}|(?m:^(?:{'|'.join(_LABELS)}))")


def label_start(text: str, near: int) -> int:
    """Return the place in the last line where a label may begin, or -1."""
    at = max(text.rfind("\n") + 1, near)
    line = text[at:]
    return at if line and any(one.startswith(line) for one in _LABELS) else -1


def _spellings(tools: frozenset[str]) -> set[str]:
    return {*tools, *(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in tools)}


def _tag(window: str, tools: frozenset[str]) -> tuple[Found | None, bool]:
    if _PAIRS.match(window):
        return Found("element"), False
    if element := _ELEMENT.match(window) or _OWN_ELEMENT.match(window):
        is_own = element.re is _OWN_ELEMENT
        if not is_own or element["name"] in tools:
            name, whole = element["name"], bool(element["is_whole"])
            return Found("element", element[0], name, is_end=whole), False
    if mark := _MARK.match(window):
        if _MARK_WORDS.fullmatch(letters(mark["words"])):
            is_end = "/" in mark["before"] or bool(
                re.search("end|suffix", mark["words"].casefold())
            )
            return Found("mark", mark[0], is_end=is_end), False
        if "/" in mark["before"] and letters(mark["words"]) in ("function", "invoke", "call"):
            return Found("mark", mark[0], is_end=True), False
        return None, False
    if not _TAG_SO_FAR.fullmatch(window) or window[1:2].isspace():
        return None, False
    said = letters(window[:40])
    beginnings = (*_BEGINNINGS, "arg", "parameter", *(name.casefold() for name in tools))
    may_be = not said or any(one.startswith(said) or said.startswith(one) for one in beginnings)
    return None, may_be


def _json(window: str, tools: frozenset[str], *, within: bool) -> tuple[Found | None, bool]:
    begins = may_begin(window)
    if begins:
        return Found("json"), False
    if window[0] == "{":
        return None, begins is None
    if mark := _MARK.match(window):
        return Found("mark", mark[0], mark["bracket"], is_end=bool(mark["slash"])), False
    if within and (empty := re.match(r"\[\s*\]", window)):
        return Found("between", empty[0]), False
    found, is_open = _code(window, tools, within=within)
    is_mark = any(mark.startswith(window.upper()) for mark in _BRACKET_MARKS)
    return found, is_open or is_mark or begins is None


def _between(window: str, *, within: bool) -> tuple[Found | None, bool]:
    if within:
        return Found("between", window[0]), False
    apart = re.match(r"[;,]\s*(?=\{)", window)
    return Found("between", apart[0]) if apart else None, not window[1:].strip()


def _word(window: str, tools: frozenset[str], *, within: bool) -> tuple[Found | None, bool]:
    if within and (call := _CALL_WORD.match(window)):
        return Found("braces", call[0], call["name"]), False
    found, is_open = _code(window, tools, within=within)
    if within and not (found or is_open):
        return _head(window)
    if found:
        return found, False
    named, may_be_named = _named(window, tools)
    return named, is_open or may_be_named


def _named(window: str, tools: frozenset[str]) -> tuple[Found | None, bool]:
    """Return a name with its arguments behind it, or a label alone."""
    if result := _RESULT.match(window):
        return Found("mark", result[0], is_end=True), False
    if named := _NAMED.match(window):
        is_known = named["name"] in _spellings(tools)
        if is_known or (named["label"] and (named["second"] or "to=" in named["label"])):
            return Found("name", named[0], named["name"]), False
    if label := _LABELLED.match(window):
        return Found("label", label[0]), False
    if window.startswith("functools["):
        return Found("mark", "functools"), False
    if any(one.startswith(window.rstrip()) for one in (*_LABELS, "\u273fRESULT\u273f")):
        return None, True
    so_far = _NAMED_SO_FAR.fullmatch(window)
    is_labelled = window.startswith(_LABELS)
    return None, bool(so_far and (is_labelled or so_far["name"] in word_starts(tools)))


def _head(window: str) -> tuple[Found | None, bool]:
    """Return the name before the arguments of a call, and whether the window may be the beginning
    of such a name."""
    if head := _HEAD.match(window):
        return Found("name", head[0], head["name"]), False
    return None, bool(_HEAD_SO_FAR.fullmatch(window))


def _fence(
    window: str, tools: frozenset[str], *, is_whole: bool, in_fence: bool
) -> tuple[Found | None, bool]:
    if in_fence:
        closing = re.match(r"```+", window)
        is_open = not closing and re.fullmatch(r"`{1,2}", window) is not None
        return (Found("fence", closing[0], is_end=True) if closing else None), is_open
    fence = _FENCE.match(window)
    if not fence or fence.end() == len(window):
        return None, bool(_FENCE_SO_FAR.fullmatch(window))
    if window[fence.end()] == "`":
        return None, False
    inner = find_here(window[fence.end() :], tools, is_whole=is_whole, within=False, in_fence=False)
    if inner == "open":
        return None, True
    is_call = fence["language"] in TOOL_FENCES
    is_call = is_call or (inner is not None and inner.kind in ("json", "element", "code", "mark"))
    return (Found("fence", fence[0], fence["language"]) if is_call else None), False


def _code(window: str, names: frozenset[str], *, within: bool) -> tuple[Found | None, bool]:
    if code := _CODE.match(window):
        is_call = code["name"] in _spellings(names) or within
        # Without tools, no name is known. But no words of a story look like this name with a list
        # of arguments.
        is_call = is_call or bool(not names and window[0] == "[" and _UNKNOWN_CODE.match(window))
        return (Found("code", "", code["name"]) if is_call else None), False
    if not (so_far := _CODE_SO_FAR.fullmatch(window)):
        return None, False
    is_list = not names and window[0] == "[" and bool(_UNKNOWN_NAME.match(window))
    if so_far["inside"]:
        return None, within or is_list or so_far["name"] in _spellings(names)
    return None, within or is_list or so_far["name"] in word_starts(names)
