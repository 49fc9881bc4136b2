"""The marks in a model's text that are no words of the reply: the forms of hidden reasoning, and
the marks of chat templates. A new form is one more line of a table."""

import re
from dataclasses import dataclass, field

from sessions.language.chat_marks import (
    HEADINGS,
    RESERVED_TAGS,
    THOUGHT_TAGS,
    THOUGHT_WORDS,
    TURN_TAGS,
    TURN_WORDS,
)

# A bar in a mark, and the signs between the words of the mark's name.
_BAR, _JOINT = "[|\uff5c]", "[_\u2581 ]"
_THOUGHT = f"(?:{'|'.join(THOUGHT_TAGS)})"
_IN_SQUARE = f"(?:{'|'.join(THOUGHT_WORDS)})"
_TURN_TAG = "|".join((*TURN_TAGS, *RESERVED_TAGS))


@dataclass(frozen=True)
class Thoughts:
    """A form of hidden reasoning. `begin` and `end` are patterns.

    A form that is made of words and not of marks counts only at the front of an answer, and only if
    it is closed (`is_in_words`). Other forms that may also stand in a story count only if they are
    closed (`must_close`). If the beginning of a form may stand in the template of the request, its
    end counts without a beginning (`may_end_alone`). `other_end` is a further pattern of the end.
    It ends these thoughts, but means something else in other places.
    """

    begin: str
    end: str
    may_end_alone: bool = True
    is_in_words: bool = False
    must_close: bool = False
    other_end: str = r"(?!)"
    ending: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ending", re.compile(f"(?i:{self.end}|{self.other_end})"))


_TAG = rf"<\s*+(?:\w++:)?{_THOUGHT}(?:\s[^<>]{{0,80}})?/?>"
_TAG_WITH_BARS = (
    rf"<{_BAR}?(?:(?:begin|start){_JOINT}(?:of{_JOINT})?)?{_THOUGHT}"
    rf"(?:{_JOINT}(?:begin|start))?{_BAR}?>"
)
_TAG_END = (
    rf"<\s*+(?:/{_BAR}?|{_BAR}/)\s*+(?:\w++:)?{_THOUGHT}\s*+{_BAR}?>"
    rf"|<{_BAR}?(?:(?:end|stop|close){_JOINT}(?:of{_JOINT})?{_THOUGHT}"
    rf"|{_THOUGHT}{_JOINT}(?:end|stop|close)){_BAR}?>"
)
# The brackets that replace angle brackets in a text, so that its marks have no effect.
_OPEN, _CLOSE = (
    r"(?:&lt;|\\<|[\u3010\u300a\u27e8\u3008])",
    r"(?:&gt;|\\>|[\u3011\u300b\u27e9\u3009])",
)
_HERE_IS = r"Here(?:['\u2019]s| is) my "
# The words of tags that hide something only if the tag stands at the front and is closed.
_PLANS = ("plan", "planning", "notes", "draft", "critique", "internal")

# The words between `<|channel|>` or `<|start|>` and the text. They name the speaker and the
# channel.
HEADER = Thoughts(r"<\|(?:channel|start)\|>", r"<\|message\|>", may_end_alone=False)
# The text of a channel that is not the reply.
CHANNEL = Thoughts(
    r"(?:assistant<\|channel\|>)?(?:analysis|commentary)<\|message\|>",
    r"<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)",
    may_end_alone=False,
    is_in_words=True,
)
FORMS = (
    Thoughts(_TAG, _TAG_END),
    Thoughts(_TAG_WITH_BARS, _TAG_END, other_end=r"<\|end\|>"),
    Thoughts(rf"(?-i:\[{_IN_SQUARE}\])", rf"\[/{_IN_SQUARE}\]"),
    Thoughts(
        rf"\[(?:begin[_ ])?{_THOUGHT}\]",
        rf"\[(?:/|end[_ ]){_THOUGHT}\]",
        may_end_alone=False,
        must_close=True,
    ),
    Thoughts(
        rf"{_OPEN}\s*+{_THOUGHT}\s*+{_CLOSE}",
        rf"{_OPEN}\s*+/\s*+{_THOUGHT}\s*+{_CLOSE}",
        must_close=True,
    ),
    Thoughts(rf"\u25c1\s*+{_THOUGHT}\s*+\u25b7", rf"\u25c1\s*+/{_THOUGHT}\s*+\u25b7"),
    Thoughts(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    Thoughts(r"<\|channel>\s*+(?:thoughts?\b|analysis\b)?", r"<channel\|>"),
    Thoughts("<unused94>", "<unused95>"),
    HEADER,
    CHANNEL,
    *(
        Thoughts(begin, end, may_end_alone=False, is_in_words=True)
        for begin, end in (
            (r"analysis(?=[A-Z\n])", r"assistant(?:final|(?=commentary to=))"),
            (
                rf"{_HERE_IS}(?:thought process|thinking|reasoning):",
                rf"{_HERE_IS}(?:response|reply|answer):",
            ),
            (r"Thinking(?:\.\.\.|\u2026)\n", r"(?:\.\.\.|\u2026)done thinking\.?\n"),
            (
                rf"(?:\*\*|`)(?i:{_TAG})(?:\*\*|`)",
                rf"(?P<sign>\*\*|`)(?:{_TAG_END})(?P=sign)",
            ),
            (rf"(?:```|~~~)[ ]?(?i:{_THOUGHT})\n", r"\n(?:```|~~~)"),
            (rf"```(?:xml|html|text)?\n(?i:{_TAG})", rf"(?:{_TAG_END})\s*+```"),
            (r"<details type=\"reasoning\"[^<>]*+>", "</details>"),
            (r"<details>\s?<summary>(?:Thinking|Thought|Reasoning)[^<>]*+</summary>", "</details>"),
            (rf"<(?i:{'|'.join(_PLANS)})>", rf"</(?:{'|'.join(_PLANS)})>"),
        )
    ),
)
# At the front of an answer, these are the remains of a template's own marks.
LEFT_OVER = re.compile(
    r"(?:assistant<\|channel\|>)?final<\|message\|>|(?:assistant|model)[ \t]*+\n\s*+"
)
_FENCED = ("think", "thinking", "thought", "thoughts", "reasoning", "analysis")
# As long as an answer is the beginning of one of these texts, it may turn out to begin with
# thoughts in words.
_IN_WORDS = (
    *(f"{one}<|message|>" for one in ("analysis", "commentary", "final")),
    *(f"assistant<|channel|>{one}<|message|>" for one in ("analysis", "commentary", "final")),
    *(
        f"{one} my {two}:"
        for one in ("Here is", "Here's", "Here\u2019s")
        for two in ("thought process", "thinking", "reasoning")
    ),
    *("assistant\n", "model\n", "Thinking...\n", "Thinking\u2026\n"),
    *(f"{fence}{one}\n" for fence in ("```", "``` ", "~~~") for one in _FENCED),
    *(f"```{kind}\n<think>" for kind in ("", "xml", "html", "text")),
    '<details type="reasoning"',
    *(
        f"<details>{feed}<summary>{one}</summary>"
        for feed in ("", "\n")
        for one in ("Thinking", "Thought", "Thoughts", "Reasoning")
    ),
    *(f"{sign}<think>{sign}" for sign in ("**", "`")),
    *(f"<{one}>" for one in _PLANS),
)

# The tags that some models put around a reply, while they put other tags around their thoughts.
_AROUND_REPLIES = r"</?(?:answer|response|output|solution)>"
# The names between bars that belong to calls, and so do not end a reply.
_OF_CALLS = (
    r"(?![^|\uff5c<>]{0,40}(?:tool(?!s?[_\u2581 ]?(?:output|response|result))|call|python|function"
    r"|plugin|action|constrain))"
)
_TURN = (
    rf"<{_BAR}{_OF_CALLS}/?[\w\u2581 .-]{{1,40}}{_BAR}>",
    rf"<{_BAR}{_OF_CALLS}\w{{1,40}}>|<{_OF_CALLS}\w{{1,40}}{_BAR}>",
    rf"</?(?:{_TURN_TAG})>",
    r"<</?SYS>>|\[/SYS\]|(?<!<)</SYS>",
    r"</(?:assistant|user|system|human|bot)>",
    rf"</{_BAR}\w{{1,40}}{_BAR}>",
    rf"(?:&lt;|\\<){_BAR}{_OF_CALLS}\w{{1,40}}{_BAR}(?:&gt;|\\>)",
    rf"\[/?(?-i:{'|'.join(TURN_WORDS)})\]",
    rf"\[{_BAR}/?\w{{1,40}}{_BAR}\]",
)
# The marks that stand on a line of their own, or begin one.
_AT_LINE_STARTS = (
    rf"^[ \t]*+#{{1,6}}[ \t]*+(?:(?:New|Next) )?(?:{'|'.join(HEADINGS)})[ \t]*+:[ \t]*+$"
    r"|^[ \t]*+</?(?:user|human|bot|assistant|system)>[ \t]*+(?::|$)"
    r"|^[ \t]*+#{2,6}[ \t]*+(?-i:Human|User|Assistant):(?=[ \t])"
)
# The pattern that finds the next mark. The name of the group says which mark it is: `begin3` is the
# beginning of the form FORMS[3], `end3` its end.
MARK = re.compile(
    "|".join(
        [f"(?P<begin{at}>{form.begin})" for at, form in enumerate(FORMS) if not form.is_in_words]
        + [f"(?P<end{at}>{form.end})" for at, form in enumerate(FORMS) if form.may_end_alone]
        + [f"(?P<around>{_AROUND_REPLIES})", f"(?P<turn>{'|'.join(_TURN)})"]
        + [f"(?P<line>(?m:{_AT_LINE_STARTS}))"]
    ),
    re.IGNORECASE,
)
FRONT_IN_WORDS = re.compile(
    "|".join(f"(?P<begin{at}>{form.begin})" for at, form in enumerate(FORMS) if form.is_in_words)
)
# A text without any of these signs has no mark and no beginning of a mark.
SIGNS = re.compile("[<\\[\u25c1#&\\\\\u3010\u300a\u27e8\u3008\ud800-\udfff]")
# The end of a text that may be the beginning of a mark.
_UNFINISHED = re.compile(
    rf"""
    <\s*+/?\s*+(?:[a-z][\w:.-]*+(?:\s[^<>\n]{{0,80}})?)?[/|\uff5c]?\Z
    | <{_BAR}[^<>\n]{{0,60}}\Z
    | <(?:/{_BAR}|{_BAR}/)[a-z_ ]{{0,40}}{_BAR}?\Z
    | </?[a-z]{{1,20}}>[ \t]*+\Z
    | <</?[a-z]{{0,3}}>?\Z
    | (?:&(?:l(?:t(?:;/?\w{{0,30}}(?:&(?:g(?:t)?)?)?)?)?)?|\\(?:<\s?/?\s?\w{{0,30}}\\?)?)\Z
    | (?:&lt;|\\<){_BAR}[\w ]{{0,40}}{_BAR}?(?:&g?t?|\\)?\Z
    | [\u3010\u300a\u27e8\u3008]/?[a-z_]{{0,30}}\Z
    | \[[/|\uff5c]?[\w-]{{0,30}}[|\uff5c]?\Z
    | \u25c1[^\u25b7\n]{{0,30}}\Z
    | ^[ \t]*+\#{{1,6}}[ \t]*+(?:ne[wx]t?[ ])?\w{{0,12}}[ \t]*+:?[ \t]*+\Z
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
LONGEST_MARK = 160
# The remains of a mark at the end of an answer that was cut within the mark.
CUT_MARK = re.compile(
    rf"(?:<{_BAR}{_OF_CALLS}/?\w[\w\u2581 .-]{{0,40}}{_BAR}?"
    r"|</s|<(?:start|end)_of_\w*|</?think\w*)\Z",
    re.IGNORECASE,
)
# The signs that may follow `<|end|>` if the same answer has another text after it.
NEXT_CHANNEL = re.compile(r"\s*+<\|start\|>assistant(?:<\|channel\|>| to=)")
_NEXT_CHANNELS = ("<|start|>assistant<|channel|>", "<|start|>assistant to=")

# A chat template begins somebody's words with a mark and a role. This is the role.
ROLE = re.compile(
    r"\s*+(?:(?P<own>assistant|model|chatbot)|(?P<other>user|human|system|developer))"
    r"[ \t]*+(?:[:\n]|(?=<))",
    re.IGNORECASE,
)
_ROLES = ("assistant", "model", "chatbot", "user", "human", "system", "developer")

_QUOTED = ('""', "''", "``", "\u201c\u201d", "\u201e\u201c", "\u201e\u201d", "\u2018\u2019")
_QUOTATIONS = {*_QUOTED, "\u00ab\u00bb", "\u00bb\u00ab", "\u300c\u300d", "\u300e\u300f", "()"}
_OPENING = frozenset("\u201c\u201e\u00ab\u300c\u300e`(")
_WORD_ENDS = frozenset(["", *" \t.,;:!?-"])
_SENTENCE_ENDS = frozenset(".!?:;\u2026\"'\u201d\u2019\u00bb)*_~]>\u3002\uff01\uff1f\u300d\u300f")
_LABEL = re.compile(r"[^\n:]{1,60}[:\uff1a][*_\]\s]*\Z")


def unfinished_from(text: str) -> int:
    """Return the place in the text where a mark may have begun, or the length of the text."""
    begin = max(len(text) - LONGEST_MARK, 0)
    if begin:
        # A line that begins further back is no heading of a template.
        begin = next((at for at in range(begin, len(text)) if text[at] in "<[\u25c1\n"), len(text))
    found = _UNFINISHED.search(text, begin)
    return found.start() if found else len(text)


def may_begin_in_words(text: str) -> bool:
    """Return whether this beginning of an answer may become thoughts that begin in words."""
    return any(one.startswith(text) for one in _IN_WORDS)


def may_be_next_channel(text: str) -> bool:
    return any(one.startswith(text.lstrip()) for one in _NEXT_CHANNELS)


def may_become_role(text: str) -> bool:
    said = text.strip().casefold()
    return any(role.startswith(said) for role in _ROLES)


def is_line_start(before: str) -> bool:
    line = before.rpartition("\n")[2]
    return not line.strip()


def is_label(before: str) -> bool:
    """Return whether the text so far consists of a name and a colon."""
    return bool(_LABEL.fullmatch(before))


def is_quoted(before: str, after: str) -> bool:
    """Return whether a mark between these texts stands alone between quotation marks."""
    return f"{before[-1:]}{after[:1]}" in _QUOTATIONS


def ends_a_sentence(before: str) -> bool:
    said = before.rstrip(" \t")
    return not said or said[-1] == "\n" or said[-1] in _SENTENCE_ENDS


def is_within_sentence(before: str, after: str) -> bool:
    """Return whether a tag between these texts is only mentioned, by a sentence or by a quotation
    that is still open."""
    line = before.rpartition("\n")[2]
    if not line.strip():
        return False
    last, following = line[-1], after[:1]
    if last in _OPENING or (line.count('"') % 2 and '"' in (last, following)):
        return True
    return last.isspace() and not ends_a_sentence(line) and following in _WORD_ENDS
