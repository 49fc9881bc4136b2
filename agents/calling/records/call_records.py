"""Reads the records of model calls: how each call ended, and which calls wrote a text."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from django.db.models import Case, CharField, Q, QuerySet, TextChoices, Value, When

from agents.calling.records.recording import STOPPED
from agents.calling.records.stored_prompts import read_layers_of
from agents.calling.servers.roles import TITLES_FOR_WRITERS
from agents.calling.spending import price_at
from agents.llm.providers.base import Message
from agents.models import Job, LLMArtifact
from agents.modes.registry import find_agent
from agents.prompting.agent import Agent
from agents.prompting.sent_layers import SentLayer, characters_of, join_layers, shared_characters
from memory.models import MemoryBlock, NarrativeDraft
from memory.prose.drafts import telling_of
from sessions.layer_words import layer_in_words
from sessions.models import Attempt, Session
from sessions.play.committing import find_turn
from sessions.record.chosen_events import attempts_at
from sessions.roster import SLOTS


class Outcome(TextChoices):
    """How a call can end. In a warm-up, the model reads the start of a request, and no text of the
    model is used."""

    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    WARM_UP = "warm-up"


# The name and number of an agent. The number is needed because all characters have the same name.
_Caller = tuple[str, int | None]
_IS_WARM_UP = (
    Q(raw_output_ref="", attempt=None, job=None)
    & (Q(agent_id__in=SLOTS) | Q(agent_id=None))
    & Q(error__in=("", STOPPED))
)
OUTCOME = Case(
    When(_IS_WARM_UP, then=Value(Outcome.WARM_UP.value)),
    When(error="", then=Value(Outcome.FINISHED.value)),
    When(error=STOPPED, then=Value(Outcome.STOPPED.value)),
    default=Value(Outcome.FAILED.value),
    output_field=CharField(),
)


@dataclass(frozen=True)
class CallRecord:
    """A call with its outcome. `use` names, in words for the page, the text that the call was used
    for. It is "" if there is no such text."""

    artifact: LLMArtifact
    outcome: Outcome
    agent: str
    use: str = ""
    is_chosen: bool = False

    @property
    def tokens(self) -> dict[str, int]:
        """The numbers of tokens that the provider reported for the call, or an empty dictionary."""
        counts: dict[str, int] = self.artifact.token_counts
        return {} if self.told_too_few else counts

    @property
    def told_too_few(self) -> int:
        """The tokens that the server says it read, if the request must have more. Otherwise 0."""
        return int(self.artifact.token_counts.get("too_few", 0))

    @property
    def counted_tokens(self) -> dict[str, int]:
        """The tokens of the call as the caps count them. They are estimates if the provider
        reported no tokens."""
        artifact = self.artifact
        if not self.is_estimated:
            return self.tokens
        return {"input": artifact.estimated_input, "output": artifact.estimated_output}

    @property
    def is_estimated(self) -> bool:
        return bool(self.artifact.estimated_input)

    @property
    def dollars(self) -> Decimal | None:
        """The price of the counted tokens. None without such tokens or without a known price."""
        counted = self.counted_tokens
        price = price_at(self.artifact.model, self.artifact.provider) if counted else None
        return None if price is None else price.of(counted)

    @property
    def estimated_tokens(self) -> int:
        return sum(int(layer.get("tokens", 0)) for layer in self.artifact.layers)


@dataclass(frozen=True)
class CallsBehind:
    """The calls that were made for a text, oldest first. `is_edited` is True if the text was edited
    by hand from the reply of the chosen call. `came_with_starter` is True if people wrote the text,
    or the text from which it was edited, for a starter."""

    calls: list[CallRecord] = field(default_factory=list)
    is_edited: bool = False
    came_with_starter: bool = False

    @property
    def chosen(self) -> CallRecord | None:
        """The call that a page shows first. This is the call that wrote the chosen reply or the
        block. If there is no such call, it is the first call that wrote a text, or else the first
        call."""
        chosen = [call for call in self.calls if call.is_chosen]
        listed = chosen or [call for call in self.calls if call.use] or self.calls
        return listed[0] if listed else None

    def find(self, artifact_id: str) -> CallRecord | None:
        """Return the call with this id, or else the call that a page shows first."""
        named = (call for call in self.calls if str(call.artifact.pk) == artifact_id)
        return next(named, self.chosen)


@dataclass(frozen=True)
class SentPrompt:
    """A request exactly as it was sent, compared with the agent's previous request."""

    layers: Sequence[SentLayer]
    characters: int
    # The number of characters at the start that this request and the agent's previous request have
    # in common. None if the agent had no earlier call in the chapter.
    shared_characters: int | None
    previous: CallRecord | None


def agent_label(chapter: Session, name: str, agent_id: int | None) -> str:
    """Return the number and the name of a character, such as "2 Mara". Return a plain name for any
    other agent, such as "Memory"."""
    if agent_id in SLOTS:
        return f"{agent_id} {chapter.character(agent_id).name}"
    agent = find_agent(name, agent_id)
    return TITLES_FOR_WRITERS.get(name, agent.title if agent else name)


def calls_of(chapter: Session) -> QuerySet[LLMArtifact]:
    """Return the chapter's calls, each with its `outcome`."""
    return chapter.llm_artifacts.annotate(outcome=OUTCOME)


def calls_behind_prompt(chapter: Session, prompt_index: int) -> CallsBehind:
    """Return all calls for this prompt, including the calls of retries, re-rolls and trials."""
    turn = find_turn(chapter, prompt_index)
    calls = calls_of(chapter).filter(attempt__turn=turn).select_related("attempt")
    artifacts = _oldest_first(calls)
    calls_by_attempt: dict[uuid.UUID | None, list[LLMArtifact]] = defaultdict(list)
    for one in artifacts:
        calls_by_attempt[one.attempt_id].append(one)
    # The chosen attempt comes last, because an edited reply and its source have the same call. The
    # entry that is made last for a call replaces the earlier one.
    committed = sorted(attempts_at(turn), key=lambda one: one.pk == turn.chosen_id)
    replies = [one for one in committed if not one.is_trial or one.pk == turn.chosen_id]
    trials = [one for one in artifacts if one.attempt and one.attempt.is_trial]
    uses = {one.pk: (f"A {_trial_of(one.attempt)}", False) for one in trials if one.attempt}
    for attempt in committed:
        call = _call_that_wrote(attempt, calls_by_attempt)
        if call is not None:
            is_chosen = attempt.pk == turn.chosen_id
            uses[call.pk] = (_use_of(attempt, len(replies), is_chosen=is_chosen), is_chosen)
    is_edited = turn.chosen.kind == Attempt.Kind.EDIT
    return replace(
        _behind(chapter, artifacts, uses),
        is_edited=is_edited,
        came_with_starter=_origin_of(turn.chosen).came_with_starter,
    )


def calls_behind_block(chapter: Session, block: MemoryBlock) -> CallsBehind:
    """Find all calls for this block, with their repairs. A ruling by the GM has no calls.

    If the block is of a mode's own kind, the calls are those of the reply that the mode made the
    block from.
    """
    is_lock = block.type == MemoryBlock.Type.WORLD_CHAPTER_LOCK
    if not is_lock and block.type != MemoryBlock.Type.TURN_DELTA:
        return _calls_behind_reply(chapter, block.attempt) if block.attempt else CallsBehind()
    jobs = chapter.jobs.filter(
        kind=Job.Kind.LOCK if is_lock else Job.Kind.SUMMARIZE,
        attempt=block.attempt,
        from_prompt_index=block.from_prompt_index,
    )
    artifacts = _oldest_first(calls_of(chapter).filter(job__in=jobs))
    written = [one for one in artifacts if not one.error and one.created_at <= block.created_at]
    return _behind(chapter, artifacts, {one.pk: ("This memory", True) for one in written[-1:]})


def _calls_behind_reply(chapter: Session, attempt: Attempt) -> CallsBehind:
    origin = _origin_of(attempt)
    artifacts = _oldest_first(calls_of(chapter).filter(attempt=origin))
    call = _call_that_wrote(origin, {origin.pk: artifacts})
    return _behind(chapter, artifacts, {call.pk: ("The reply that it tells", True)} if call else {})


def calls_behind_draft(chapter: Session, draft: NarrativeDraft) -> CallsBehind:
    """Return all calls of the job that wrote this draft, including continuations of scenes. If the
    job wrote a single scene again, the calls for the other scenes belong to earlier drafts."""
    if draft.job_id is None:
        return CallsBehind()
    artifacts = _oldest_first(calls_of(chapter).filter(job=draft.job_id))
    finished = [one for one in artifacts if not one.error]
    is_rebuilt = any(scene.job_id != str(draft.job_id) for scene in telling_of(draft).scenes)
    use = "For the scene that was rebuilt" if is_rebuilt else "For this draft"
    return _behind(chapter, artifacts, {one.pk: (use, False) for one in finished})


def read_sent_prompt(chapter: Session, call: CallRecord) -> SentPrompt:
    """Return the request of the call, layer by layer."""
    [(_, prompt)] = _with_prompts(chapter, [call.artifact])
    return prompt


def shared_with_latest_call(
    chapter: Session, agent: Agent, messages: Sequence[Message]
) -> tuple[int | None, CallRecord | None]:
    """Compare these messages with the agent's latest request. Return the number of characters at
    the start that are the same in both, and the record of the latest call."""
    before = _call_before(chapter, (agent.name, agent.agent_id))
    if before is None:
        return None, None
    earlier = join_layers(read_layers_of([before])[before.pk])
    return shared_characters(messages, earlier), record_of(chapter, before)


def read_recent_calls(
    chapter: Session, *, limit: int, offset: int
) -> list[tuple[CallRecord, SentPrompt]]:
    """Read a page of the newest calls, each with its request."""
    newest = calls_of(chapter).select_related("attempt__turn").order_by("-created_at")
    return _with_prompts(chapter, list(newest[offset : offset + limit]))


def _with_prompts(
    chapter: Session, newest_first: Sequence[LLMArtifact]
) -> list[tuple[CallRecord, SentPrompt]]:
    """Return each call with its request, which is compared with the agent's previous request."""
    before: dict[uuid.UUID, LLMArtifact] = {}
    latest: dict[_Caller, LLMArtifact] = {}
    for one in reversed(newest_first):
        caller = (one.agent, one.agent_id)
        earlier = latest.get(caller) or _call_before(chapter, caller, one.created_at)
        if earlier is not None:
            before[one.pk] = earlier
        latest[caller] = one
    layers = read_layers_of([*newest_first, *before.values()])
    messages = {key: join_layers(sent) for key, sent in layers.items()}
    prompts = []
    for one in newest_first:
        earlier = before.get(one.pk)
        shared = shared_characters(messages[one.pk], messages[earlier.pk]) if earlier else None
        previous = record_of(chapter, earlier) if earlier else None
        prompt = SentPrompt(layers[one.pk], characters_of(messages[one.pk]), shared, previous)
        prompts.append((record_of(chapter, one), prompt))
    return prompts


def _call_before(
    chapter: Session, caller: _Caller, moment: datetime | None = None
) -> LLMArtifact | None:
    """Return the agent's latest call, or its latest call before `moment` if this time is given."""
    name, agent_id = caller
    calls = calls_of(chapter).filter(agent=name, agent_id=agent_id)
    if moment is not None:
        calls = calls.filter(created_at__lt=moment)
    return calls.order_by("-created_at").first()


def record_of(
    chapter: Session, artifact: LLMArtifact, use: str = "", *, is_chosen: bool = False
) -> CallRecord:
    """Return the record of a call. The artifact must have the field `outcome` of `calls_of`."""
    outcome = Outcome(getattr(artifact, "outcome"))  # noqa: B009 - an annotation, no field
    label = agent_label(chapter, artifact.agent, artifact.agent_id)
    return CallRecord(artifact, outcome, label, use, is_chosen)


def _behind(
    chapter: Session,
    artifacts: Iterable[LLMArtifact],
    uses: dict[uuid.UUID, tuple[str, bool]],
) -> CallsBehind:
    calls = []
    for one in artifacts:
        use, is_chosen = uses.get(one.pk, ("", False))
        calls.append(record_of(chapter, one, use, is_chosen=is_chosen))
    return CallsBehind(calls)


def _oldest_first(artifacts: QuerySet[LLMArtifact]) -> list[LLMArtifact]:
    return list(artifacts.order_by("created_at"))


def _call_that_wrote(
    attempt: Attempt, calls: Mapping[uuid.UUID | None, Sequence[LLMArtifact]]
) -> LLMArtifact | None:
    """Return the call that wrote the reply of a committed attempt.

    This is the last call of the attempt in which its agent wrote any text. Other agents may have
    answered questions of tools. The reply of an edit has the call of the reply that was edited.
    """
    origin = _origin_of(attempt)
    of_attempt = calls.get(origin.pk, ())
    made = [one for one in of_attempt if one.raw_output_ref and one.agent == origin.agent]
    return made[-1] if made else None


def _origin_of(attempt: Attempt) -> Attempt:
    while attempt.kind == Attempt.Kind.EDIT and attempt.source is not None:
        attempt = attempt.source
    return attempt


def _use_of(attempt: Attempt, count: int, *, is_chosen: bool) -> str:
    origin = _origin_of(attempt)
    trial = _trial_of(origin) if origin.is_trial else ""
    if trial and not is_chosen:
        return f"A {trial}, not used"
    if attempt.kind == Attempt.Kind.EDIT and is_chosen:
        use = "The chosen reply was edited by hand from this one"
    elif count == 1:
        use = "The reply"
    else:
        use = "The chosen reply" if is_chosen else "Another reply"
    return f"{use}, a {trial}" if trial else use


def _trial_of(attempt: Attempt) -> str:
    name = str((attempt.changed_layer or {}).get("layer_name", ""))
    return f"trial with {layer_in_words(name)} changed"
