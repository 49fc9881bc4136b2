"""Tells how an answer ended by the reason that the server gives. Servers write the same reason in
many ways."""

import logging
import re
from enum import Enum, auto

logger = logging.getLogger(__name__)


class Ending(Enum):
    WHOLE = auto()
    # The output limit ended the reply.
    CUT = auto()
    # The other three endings are failures. The text so far is kept.
    FILTERED = auto()
    OUT_OF_ROOM = auto()
    BROKEN = auto()


FAILURES = frozenset({Ending.FILTERED, Ending.OUT_OF_ROOM, Ending.BROKEN})

# The reasons, in small letters and without signs between their words.
_REASONS = {
    Ending.WHOLE: (
        *("stop", "stopped", "endturn", "eos", "eostoken", "stopsequence", "stopstr", "end"),
        *("toolcalls", "toolcall", "tooluse", "functioncall", "complete", "completed", "done"),
    ),
    Ending.CUT: (
        *("length", "maxtokens", "modellength", "maxlength", "maxoutputtokens", "tokenlimit"),
        *("outputlimit", "maxcompletiontokens", "modelcontextwindowexceeded", "incomplete"),
    ),
    Ending.FILTERED: (
        *("contentfilter", "contentfiltered", "safety", "recitation", "blocklist", "spii"),
        *("prohibitedcontent", "imagesafety", "sensitive", "guardrailintervened", "refusal"),
        *("moderation", "blocked"),
    ),
    Ending.OUT_OF_ROOM: ("insufficientsystemresource",),
    Ending.BROKEN: (
        *("error", "abort", "aborted", "cancelled", "canceled", "cancel", "failed", "failure"),
        *("timeout", "networkerror", "internalerror", "malformedfunctioncall", "errorfinish"),
    ),
}
# Parts of reasons that are not words of the table.
_PARTS = {
    Ending.CUT: ("length", "maxtoken", "maxnewtoken", "tokenlimit", "windowexceeded"),
    Ending.FILTERED: ("filter", "safety", "moderat", "flagged", "prohibited", "toxic", "blocked"),
    Ending.BROKEN: ("error", "fail", "abort", "cancel", "timeout", "overload"),
}
_BY_REASON = {reason: ending for ending, reasons in _REASONS.items() for reason in reasons}
_NOT_A_LETTER = re.compile("[^a-z]+")
# Some gateways write a reason with the name of its list in front, such as "FinishReason.STOP". This
# is the name of the list.
_LIST = "finishreason"
# A server may write the reason in one of these fields. In the fields after the first, only a known
# reason counts.
_OTHER_KEYS = ("finishReason", "native_finish_reason", "done_reason", "stop_reason")
# Most pieces have only this number of fields, and no reason.
_FIELDS = 3
_SHOWN = 40


def ending_of(choice: object) -> Ending | None:
    """Return how an answer ended, or None if this piece of it names no reason."""
    if not isinstance(choice, dict):
        return None
    reason = choice.get("finish_reason")
    if reason is None and len(choice) <= _FIELDS:
        return None
    if isinstance(reason, dict):
        reason = reason.get("type") or reason.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        others = (_known(_plain(choice[key])) for key in _OTHER_KEYS if choice.get(key))
        return next((ending for ending in others if ending), None)
    said = _plain(reason)
    if said in ("null", "none", "unspecified"):
        return None
    ending = _known(said)
    if ending is None:
        logger.warning("an answer ended for an unknown reason: %r", reason[:_SHOWN])
        ending = Ending.WHOLE
    return ending


def _plain(reason: object) -> str:
    said = reason.casefold() if isinstance(reason, str) else ""
    return _NOT_A_LETTER.sub("", said).removeprefix(_LIST)


def _known(said: str) -> Ending | None:
    if ending := _BY_REASON.get(said):
        return ending
    return next((one for one, parts in _PARTS.items() if any(part in said for part in parts)), None)
