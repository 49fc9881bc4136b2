"""Reads everything that Tab 2 shows. A longer chapter does not take more queries."""

import hashlib
import json
import uuid
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from agents.calling.consent import is_allowed, provider_host
from agents.calling.model_access import heard_by_small_model, model_of
from agents.calling.servers.choices import uses_embedded
from agents.flows.remembering.memory_calls import MemoryBehind, find_memory_behind
from agents.flows.replies.what_is_read import WhatIsRead, what_is_read
from agents.flows.telling.ending import Setback, find_setback
from agents.models import Job
from agents.modes.declaration import Beginning, Mode, Stage
from agents.modes.registry import (
    agent_of,
    agents_in,
    find_agent,
    find_mode,
    has_stage,
    who_answers,
)
from agents.running.jobs import latest_jobs
from agents.running.recovery import is_left_behind, recover
from agents.running.results import MOST_VOID, void_results
from memory.blocks.stretches import CatchingUp, calls_to_accept, catching_up, stretches_to_accept
from memory.fold.folding import fold_chapter
from sessions.chapter.access import read_at_one_moment
from sessions.chapter.example import suggested_prompt
from sessions.chapter.starters import Starter, find_starter, next_prompt
from sessions.exceptions import InvalidInput, WrongState
from sessions.limits import PROMPT_CHAR_LIMIT, TAB2_CHAR_LIMIT
from sessions.models import Attempt, Event, Session, State
from sessions.play.attempts import Writer
from sessions.play.breaking import pending_attempt
from sessions.play.played_world import everybody_at, is_closed
from sessions.record.chosen_events import has_thoughts
from sessions.record.transcript import Transcript, read_transcript
from sessions.reply_lengths import ReplyLength
from sessions.roster import Character, next_slot
from storyengine.tabs.chapter.now_pages import open_question_count
from storyengine.tabs.page_status import status_with_attempts
from storyengine.tabs.play.play_attempts import (
    Choice,
    UnfinishedAttempt,
    newest_set_aside,
    read_choice,
    shown,
)
from storyengine.web.header import header_context
from storyengine.web.model_notice import read_model_notice


@dataclass(frozen=True)
class PlayPage:
    chapter: Session
    pending: UnfinishedAttempt | None
    jobs: dict[str, Job]
    # The submission key of the newest attempt. A browser that sent a prompt under this key learns
    # that the prompt has arrived.
    last_key: str
    # The transcript, or None if play has not begun or if only the status of the page was read.
    transcript: Transcript | None = None
    choice: Choice | None = None
    # The newest prompt if it was set aside. It is None if a later prompt was answered.
    set_aside: UnfinishedAttempt | None = None
    # True if the chapter has thoughts, which the page can show or hide.
    has_thoughts: bool = False
    # True if an act has closed the latest turn to other attempts.
    is_closed: bool = False
    # Late results that became void a short time ago. The page tells the user of them.
    void_results: list[Job] = field(default_factory=list)
    # The world that the mode's panel shows. It is None if the mode has no panel.
    world: Any = None

    @property
    def mode(self) -> Mode | None:
        """The chapter's mode, or None if it is not installed."""
        return find_mode(self.chapter.mode)

    @property
    def shape(self) -> str:
        """The name of the page's layout. If it has changed, the browser loads the whole page
        again."""
        match State(self.chapter.state):
            case State.DRAFT_TAB1 | State.RESETTING:
                return "draft"
            case State.LOCKING:
                return "locking"
            case State.ENDED | State.NARRATING:
                return "ended"
            case _:
                return "ending" if self.chapter.is_ending else "playing"

    @property
    def is_narrated(self) -> bool:
        """Whether a narrator can tell the chapter after its end."""
        return has_stage(self.chapter.mode, Stage.NARRATION)

    @property
    def is_remembered(self) -> bool:
        return has_stage(self.chapter.mode, Stage.MEMORY)

    @property
    def running(self) -> UnfinishedAttempt | None:
        return self.pending if self.pending and self.pending.attempt.is_running else None

    @cached_property
    def is_model_coming(self) -> bool:
        """Whether the running reply waits until the embedded model is there."""
        return self.running is not None and model_of(agent_of(self.running.attempt)).is_on_its_way

    @cached_property
    def reading(self) -> WhatIsRead | None:
        """The request that the embedded model reads before the first word of the running reply.
        None for other models, which read a request in an instant."""
        if self.running is None or self.running.has_text:
            return None
        if not uses_embedded([agent_of(self.running.attempt)]):
            return None
        return what_is_read(self.running.attempt)

    @property
    def broken(self) -> UnfinishedAttempt | None:
        return self.pending if self.pending and self.pending.attempt.is_broken else None

    @property
    def summary(self) -> Job | None:
        return self.jobs.get(Job.Kind.SUMMARIZE)

    @property
    def is_summarizing(self) -> bool:
        return self.chapter.state == State.SUMMARIZING

    @property
    def setback(self) -> Setback | None:
        return find_setback(self.chapter, self.jobs)

    @cached_property
    def behind(self) -> MemoryBehind | None:
        """The model calls that the GM has to accept before more memory is written, or None."""
        return find_memory_behind(self.chapter, is_ending=False)

    @property
    def catching_up(self) -> CatchingUp | None:
        return catching_up(self.chapter)

    @property
    def asks_at_end(self) -> bool:
        return bool(stretches_to_accept(self.chapter, is_ending=True))

    @cached_property
    def open_questions(self) -> int:
        return open_question_count(fold_chapter(self.chapter))

    @cached_property
    def everybody(self) -> tuple[Character, ...]:
        """All who can perceive the next prompt, people without a panel included."""
        return everybody_at(self.chapter)

    @property
    def poll_seconds(self) -> int:
        """The seconds between two polls of the page.

        While a reply streams, the polls show whether the connection still stands. An idle page
        polls too, because another window may play a turn.
        """
        if self.is_busy:
            return 2
        return 3 if self.running else 5

    @property
    def is_busy(self) -> bool:
        """Whether work in the background can change the page."""
        # A job may end after the chapter was read and before the jobs are read. Then only the state
        # of the chapter shows that the page has to poll.
        waits = self.shape == "ending" or self.is_summarizing
        return waits or any(job.is_live for job in self.jobs.values())

    @property
    def can_act(self) -> bool:
        """Whether the user can act now. There must be a turn that the act can follow, and no reply
        may be in flight."""
        return self.shape == "playing" and self.running is None and self.chapter.prompt_index > 0

    @property
    def can_reroll(self) -> bool:
        return self.can_act and not self.is_closed

    @property
    def can_edit(self) -> bool:
        """Whether the user can edit the text of the latest reply."""
        number = self.chapter.prompt_index
        return self.can_reroll and any(
            one.is_told and one.role == Event.Role.AGENT and one.prompt_index == number
            for one in (self.transcript.entries if self.transcript else [])
        )

    @property
    def can_write_again(self) -> bool:
        """Whether the words of the latest prompt can be changed and sent again."""
        return self.can_reroll and self.choice is not None and bool(self.choice.chosen.words)

    @property
    def latest_reply(self) -> str:
        """The text of the chosen reply, even if the page shows replies of other attempts below this
        reply."""
        entries = self.transcript.entries if self.transcript else []
        return next((one.rendered for one in reversed(entries) if one.is_told), "")

    @property
    def suggestion(self) -> str:
        """The prompt that the page suggests in the example chapter and after the turns of a
        starter, or ""."""
        if self.shape != "playing" or self.pending:
            return ""
        return suggested_prompt(self.chapter) or next_prompt(self.chapter)

    @cached_property
    def beginning(self) -> Beginning | None:
        """The premise and the first deeds that the chapter's mode shows as long as play has only
        begun, or None."""
        if self.shape != "playing" or self.pending or self.mode is None:
            return None
        return self.mode.pages.beginning_of(self.chapter)

    @property
    def starter(self) -> Starter | None:
        """The starter of the chapter, as long as its first prompts are all that was played."""
        if self.pending or not next_prompt(self.chapter):
            return None
        return find_starter(self.chapter.starter)

    @property
    def next_number(self) -> int:
        """The number that the next prompt will have."""
        return self.chapter.prompt_index + 1

    @cached_property
    def answering(self) -> list[Character]:
        """The characters who would answer a prompt that addresses them. In some modes other
        characters take part without answering."""
        asked = ((one, self._writer(one.slot)) for one in self.chapter.characters)
        return [one for one, writer in asked if writer and writer.actor == one.slot]

    @cached_property
    def narrator(self) -> str:
        """The title of the agent that answers a prompt to nobody, or "" if such a prompt is
        refused."""
        writer = self._writer(None)
        agent = find_agent(writer.agent) if writer and writer.actor is None else None
        return agent.title if agent else ""

    @cached_property
    def is_narrated_in_play(self) -> bool:
        """Whether a narrator answers all prompts, so that the user is one person of the story."""
        return bool(self.narrator) and not self.answering

    @cached_property
    def goes_on_alone(self) -> bool:
        """Whether the narrator also answers a prompt without words."""
        writer = self._writer(None) if self.is_narrated_in_play else None
        return writer is not None and not writer.needs_words

    def _writer(self, actor: int | None) -> Writer | None:
        try:
            return who_answers(self.chapter, actor)
        except (InvalidInput, WrongState):
            return None

    @property
    def panel_slot(self) -> int:
        """The slot of the panel that the page shows, or 0 if no character answers prompts.

        While a prompt is being answered, the page already shows the panel of the next character.
        """
        chosen, slots = self.chapter.next_agent_slot, [one.slot for one in self.answering]
        if not slots:
            return 0
        if self.running and not self.running.is_reroll and chosen == self.running.attempt.actor:
            return next_slot(chosen, slots)
        return chosen if chosen in slots else min(slots)

    @property
    def answerer(self) -> str:
        """The name of the character, or the title of the agent, that answers the next prompt."""
        return self.chapter.character(self.panel_slot).name if self.panel_slot else self.narrator

    @cached_property
    def version(self) -> str:
        """A digest of everything that the page shows. When the digest changes, the page is out of
        date."""
        chapter = self.chapter
        shown = [
            self.shape,
            chapter.state,
            chapter.prompt_index,
            chapter.last_summarized_prompt_index,
            chapter.title,
            chapter.shows_all_replies,
            chapter.shows_thoughts,
            # The choice of another attempt changes only this value.
            chapter.last_played_at.isoformat(),
            self.last_key,
            self.setback.job.error if self.setback else "",
            calls_to_accept(chapter, is_ending=False),
            chapter.accepted_calls,
            [(job.kind, job.status) for job in self.jobs.values()],
        ]
        if self.pending:
            attempt = self.pending.attempt
            shown += [str(attempt.pk), str(attempt.run_id), attempt.status]
        return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def read_play(session_id: uuid.UUID) -> PlayPage:
    """Return the page of the chapter, as the chapter is at one moment.

    If it were read at two moments, it could have a prompt without its reply, and say that no reply
    is being written. Such a page would not poll again.
    """
    recover(session_id)
    return read_at_one_moment(session_id, _read)


def read_play_status(session_id: uuid.UUID) -> PlayPage:
    """Return a page that has only the values for its `shape` and `version`. Two queries read these
    values, because open pages ask for them often.

    If a process has died, the attempts and jobs that it left running are ended first.
    """
    page = _read_status(session_id)
    if is_left_behind(page.chapter, page.jobs, page.pending.attempt if page.pending else None):
        recover(session_id)
        page = _read_status(session_id)
    return page


def play_context(page: PlayPage) -> dict[str, Any]:
    """Return the context of Tab 2's template and of its partial templates."""
    host = provider_host()
    return header_context(page.chapter, "play") | {
        "page": page,
        "mode": page.mode,
        "world": page.world,
        "transcript": page.transcript,
        "open_turn": page.chapter.prompt_index if page.can_reroll else 0,
        "window": TAB2_CHAR_LIMIT,
        "limit": PROMPT_CHAR_LIMIT,
        "reply_lengths": ReplyLength.choices,
        "submission_key": str(uuid.uuid4()),
        "warms": page.shape == "playing" and uses_embedded(agents_in(page.chapter)),
        "notice": read_model_notice(),
        "heard": heard_by_small_model(agents_in(page.chapter), page.chapter),
        "host": host,
        "is_allowed": is_allowed(host),
    }


def _read(chapter: Session) -> PlayPage:
    sent = chapter.attempts.filter(kind__in=Attempt.IN_PLAY).order_by("-submitted_at")
    page = PlayPage(
        chapter=chapter,
        pending=shown(pending_attempt(chapter), chapter),
        jobs=latest_jobs(chapter),
        last_key=sent.values_list("submission_key", flat=True).first() or "",
    )
    if page.shape in ("draft", "locking"):
        return page
    mode = page.mode
    return replace(
        page,
        transcript=read_transcript(
            chapter,
            with_all_replies=chapter.shows_all_replies,
            with_thoughts=chapter.shows_thoughts,
        ),
        has_thoughts=has_thoughts(chapter),
        choice=read_choice(chapter),
        set_aside=newest_set_aside(chapter),
        is_closed=bool(mode and mode.world.acts) and is_closed(chapter, chapter.prompt_index),
        void_results=_new_void_results(chapter) if mode and mode.kinds_of_results else [],
        world=mode.world.now(chapter) if mode and mode.pages.panel else None,
    )


def _new_void_results(chapter: Session) -> list[Job]:
    """Return the late results that have become void since the turn before the latest turn."""
    before = chapter.turns.filter(number=chapter.prompt_index - 1)
    since = before.values_list("chosen__committed_at", flat=True).first() or chapter.created_at
    return list(void_results(chapter).filter(updated_at__gte=since)[:MOST_VOID])


def _read_status(session_id: uuid.UUID) -> PlayPage:
    chapter, attempt, last_key = status_with_attempts(session_id)
    return PlayPage(chapter, shown(attempt, chapter), latest_jobs(chapter), last_key)
