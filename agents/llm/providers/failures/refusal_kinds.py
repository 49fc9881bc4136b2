"""Finds the kind of a refusal by a server's words and codes. This is the only module that knows the
wordings of servers for each kind."""

import re
from enum import Enum, auto

from agents.llm.providers.failures.server_words import ServerWords

# A window outside of this range is no window.
_WINDOWS = range(256, 100_000_000)


class Kind(Enum):
    """The kind of a refusal. After LIMITED, LOADING and TROUBLE, another try may succeed."""

    OVERFLOW = auto()
    NO_CREDIT = auto()
    MODERATED = auto()
    LIMITED = auto()
    LOADING = auto()
    TROUBLE = auto()
    REFUSED = auto()


_CODES = {
    Kind.OVERFLOW: {
        "context_length_exceeded", "context_window_exceeded", "exceed_context_size_error",
        "input_too_long", "model_max_prompt_tokens_exceeded", "prompt_too_long",
        "request_too_large", "string_above_max_length", "tokens_limit_reached",
    },
    Kind.NO_CREDIT: {
        "billing_error", "billing_hard_limit_reached", "insufficient_balance",
        "insufficient_credits", "insufficient_quota",
    },
    Kind.MODERATED: {
        "content_filter", "content_filtered", "content_policy_violation", "data_inspection_failed",
        "moderation", "moderation_blocked", "prohibited_content", "responsibleaipolicyviolation",
        "safety",
    },
}  # fmt: skip

# The status that each code of an error event stands for, if the event names no status.
_STATUS_OF_CODE = {
    400: {"badrequesterror", "bad_request", "failed_precondition", "invalid_argument",
          "invalid_request_error", "validation", "validation_error"},
    401: {"authentication_error", "authenticationerror", "invalid_api_key", "unauthenticated"},
    403: {"permission_denied", "permission_error"},
    404: {"model_not_found", "not_found", "not_found_error", "notfounderror"},
    413: {"request_too_large"},
    429: {"rate_limit_error", "rate_limit_exceeded", "ratelimiterror", "resource_exhausted"},
    503: {"overloaded_error", "unavailable", "unavailable_error"},
}  # fmt: skip

# The words for the part that is too long, and the words that say that it is too long. The message
# of an overflow has both, in any order.
_OF_LENGTH = re.compile(
    r"context[ _-]?(?:length|size|window|limit)|\bcontexts?\b|n_ctx|max_model_len|\bprompts?\b"
    r"|\binputs?\b(?! should| validation)|maximum model length|number of tokens|too many tokens"
    r"|token (?:count|limit)|length of (?:the|your) messages|sequence length|total tokens"
    r"|request's tokens"
    r"|\b(?:messages?|conversation|request|sequence)\b(?=[^.]{0,40}too l(?:ong|arge))"
    r"|输入|上下文",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"exceed|too (?:long|large|many|big)|overflow|out of context|context (?:is )?full"
    r"|(?:longer|larger|greater|more|beyond)(?: than)? (?:the|its|it|max|model|\D{0,12}\d)"
    r"|only supports? \d"
    r"|maximum (?:context|model|prompt|input) length|context (?:length )?is (?:only )?\d"
    r"|not enough|reduce the length|must (?:be|have) (?:<=|less than|at most)|>=? ?\D{0,10}\d"
    r"|range of input length|超长|超过|超出",
    re.IGNORECASE,
)
# Words that look like an overflow but are none: a limit on the tokens of a minute, a lack of
# memory, and the context of a program in Go.
_NO_OVERFLOW = re.compile(
    r"per (?:second|minute|min|hour|day)\b|rate.?limit|\b[tr]p[md]\b|quota"
    r"|context (?:deadline|cancel)|time-?out|timed out|\bv?ram\b"
    r"|(?:out of|insufficient|not enough|more|system|gpu|video) memory",
    re.IGNORECASE,
)
# Such a request exceeds the tokens of a whole minute, so that no wait helps.
_NEVER_FITS = re.compile(r"request too large", re.IGNORECASE)
_WORDS = {
    Kind.NO_CREDIT: re.compile(
        r"credit balance is too low|insufficient (?:account )?(?:balance|credits?|funds)",
        re.IGNORECASE,
    ),
    Kind.MODERATED: re.compile(
        r"\bflagged\b|\bmoderat(?:ion|ed)\b|content[ _](?:filter|policy|management policy)"
        r"|usage polic(?:y|ies)|safety (?:system|filter|settings|polic)|inappropriate content"
        r"|prohibited content|content exists risk|responsible ai",
        re.IGNORECASE,
    ),
    Kind.LOADING: re.compile(
        r"(?<!error )(?<!failed )loading (?:the )?model"
        r"|model (?:\S+ )?is (?:currently |still |being )?load(?:ing|ed)\b"
        r"|model (?:is )?not (?:yet )?(?:loaded|ready)|still loading|warming up",
        re.IGNORECASE,
    ),
}
# Moderation answers with these statuses.
_OF_MODERATION = {400, 403, 422, 451, 500}
# The patterns that find the size of a window in a server's words. They are tried in this order.
_WINDOW_TOLD = (
    re.compile(r"[\d)] ?(?:tokens )?>=? ?\D{0,12}(\d[\d,]*)"),
    re.compile(r"\d ?/ ?(\d[\d,]*) tokens"),
    re.compile(r"(\d[\d,]*) (?:tokens? )?maximum context", re.IGNORECASE),
    re.compile(
        r"(?:context(?: length| size| window| limit)?|n_ctx|max_model_len"
        r"|max_seq_len|max(?:imum)? (?:model |prompt |input |sequence |allowed )?length"
        r"|maximum number of (?:input )?tokens(?: allowed)?|token limit|limit(?: of| is|:)"
        r"|capacity of|cannot exceed|must be <=|must have less than"
        r"|range of input length \D{0,12}\d,|限制)"
        r"(?!\D{0,24}\b(?:by|prompt|got|requested|given)\b)\D{0,24}?(\d[\d,]*)",
        re.IGNORECASE,
    ),
)


def status_of(words: ServerWords) -> int:
    """Return the HTTP status for an error event: the status that the event names, or the status
    that its code stands for, or 500."""
    if words.status:
        return words.status
    return next((one for one, codes in _STATUS_OF_CODE.items() if codes & words.codes), 500)


def kind_of(status: int, words: ServerWords) -> Kind:
    """Return the kind of a refusal. `status` is 0 for an error event in a stream."""
    counted = status or status_of(words)
    if counted == 401:
        return Kind.REFUSED
    if counted == 402 or _is(Kind.NO_CREDIT, words):
        return Kind.NO_CREDIT
    if _is_overflow(counted, words):
        return Kind.OVERFLOW
    if counted in _OF_MODERATION and _is(Kind.MODERATED, words):
        return Kind.MODERATED
    if counted == 429:
        return Kind.LIMITED
    if counted == 408 or counted >= 500:
        return Kind.LOADING if _is(Kind.LOADING, words) else Kind.TROUBLE
    # Under another status, only a model that is being loaded gets ready by itself.
    is_coming = _is(Kind.LOADING, words) and "loading" in words.text.lower()
    return Kind.LOADING if is_coming else Kind.REFUSED


def window_in(words: ServerWords) -> int | None:
    """Return the tokens of the window that an overflow names, or None."""
    tokens = words.window
    for pattern in _WINDOW_TOLD:
        if tokens is None and (found := pattern.search(words.text)):
            tokens = int(found[1].replace(",", "")[:12])
    return tokens if tokens is not None and tokens in _WINDOWS else None


def _is(kind: Kind, words: ServerWords) -> bool:
    if not _CODES.get(kind, set()).isdisjoint(words.codes):
        return True
    return kind in _WORDS and bool(_WORDS[kind].search(words.text))


def _is_overflow(status: int, words: ServerWords) -> bool:
    if status == 413 or _is(Kind.OVERFLOW, words) or _NEVER_FITS.search(words.text):
        return True
    if status == 429 or _NO_OVERFLOW.search(words.text):
        return False
    return bool(_OF_LENGTH.search(words.text) and _TOO_LONG.search(words.text))
