"""Rules that change the narrator's finished text: a pattern, and a replacement for each match.

Patterns run in RE2, whose time grows only with the length of the text. The page, memory and later
requests have the changed text; the event keeps the original beside it.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from time import thread_time
from typing import Annotated, Any

import re2
from pydantic import ConfigDict, Field, StringConstraints, ValidationInfo, field_validator

from explorer.setup_parts import Part, Signs

MOST_RULES, RULE_LIMIT = 20, 500
# The limits of a pattern's instructions, and of a passage's characters and matches. A rule is not
# applied to a longer passage, nor if its result would be longer.
_MOST_INSTRUCTIONS, _MOST_CHARACTERS, _MOST_MATCHES = 3_000, 20_000, 5_000
# A pattern may use at most this many bytes of memory. RE2 uses it up only if a pattern has very
# many states.
_MOST_MEMORY = 2 << 20
# All rules of a passage together may compute for at most this many seconds. RE2 reads a text once
# for each match, so that a pattern whose every match looks ahead to the end would take hours.
_MOST_SECONDS = 1.0
# A reference to a group, a line break or a backslash in a replacement.
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)


@lru_cache(maxsize=64)
def _compile(pattern: str) -> Any:
    """Return the compiled pattern. Raises ValueError with the reason why it is not valid."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        said = error.args[0] if error.args else ""
        reason = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise ValueError(f"this is no pattern of RE2: {reason[:200]}") from None
    if compiled.programsize > _MOST_INSTRUCTIONS:
        raise ValueError("this pattern is too large; repeat fewer things in it")
    return compiled


class OutputRule(Part):
    """A rule. In the replacement, \\0 stands for the match, \\1 to \\9 for a group, \\n for a line
    break, and two backslashes for a backslash. A rule without a pattern does nothing."""

    model_config = ConfigDict(frozen=True)

    pattern: Annotated[Signs, StringConstraints(max_length=RULE_LIMIT)] = ""
    replacement: Annotated[Signs, StringConstraints(max_length=RULE_LIMIT)] = Field(
        "", validate_default=True
    )

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        _compile(pattern)
        return pattern

    @field_validator("replacement")
    @classmethod
    def _check_replacement(cls, replacement: str, info: ValidationInfo) -> str:
        pattern = info.data.get("pattern")
        groups = _compile(pattern).groups if pattern else 9
        for found in _ESCAPE.finditer(replacement):
            sign = found[1]
            if sign.isascii() and sign.isdigit():
                if int(sign) > groups:
                    raise ValueError(f"the pattern has no group {sign}")
            elif sign not in ("n", "\\"):
                raise ValueError("a backslash stands before 0 to 9, n or another backslash")
        return replacement


def apply_rules(rules: Sequence[OutputRule], passage: str) -> str:
    """Return the passage after all rules were applied, one after the other.

    A rule that would leave nothing of the passage is not applied. If the time runs out in a rule,
    this rule and all later rules are not applied.
    """
    until = thread_time() + _MOST_SECONDS
    for rule in rules:
        if rule.pattern and len(passage) <= _MOST_CHARACTERS:
            changed = _apply(rule, passage, until)
            if changed is None:
                break
            if changed and len(changed) <= _MOST_CHARACTERS:
                passage = changed
    return passage


def _apply(rule: OutputRule, passage: str, until: float) -> str | None:
    """Return the passage as the rule changes it, or None if the time runs out."""
    parts, end = [], 0
    for count, match in enumerate(_compile(rule.pattern).finditer(passage)):
        if thread_time() > until:
            return None
        if count == _MOST_MATCHES:
            break
        parts += [passage[end : match.start()], _filled(rule.replacement, match)]
        end = match.end()
    return "".join([*parts, passage[end:]]).strip()


def _filled(replacement: str, match: Any) -> str:
    def fill(found: re.Match[str]) -> str:
        sign = found[1]
        if sign.isdigit():
            return match.group(int(sign)) or ""
        return "\n" if sign == "n" else sign

    return _ESCAPE.sub(fill, replacement)
