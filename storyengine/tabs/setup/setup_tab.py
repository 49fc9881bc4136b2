"""Tab 1: the world, the chapter and the agents. The lock on this tab begins play."""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.calling.consent import is_allowed, provider_host
from agents.calling.records.behind_failures import what_the_check_said
from agents.calling.servers.choices import uses_embedded
from agents.flows.beginning.from_starters import start_play
from agents.flows.beginning.lock_progress import read_lock_progress
from agents.flows.beginning.locking import NOTHING_TO_PLAY
from agents.models import Job
from agents.modes.declaration import Stage
from agents.modes.fields import save_mode_setup
from agents.modes.registry import find_mode, has_stage
from agents.prompting.agent import in_chapter
from agents.prompting.declarations import WORLD_SUMMARY
from agents.running.database import in_database
from agents.running.jobs import latest_jobs
from agents.running.recovery import is_left_behind, recover
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import SetupChange, choose_language, is_setup_open, save_setup
from sessions.chapter.example import fill_example, is_empty
from sessions.chapter.people import followed, persons_before
from sessions.chapter.starters import find_starter
from sessions.chapter.stories import chapter_before
from sessions.exceptions import WrongState
from sessions.language.languages import language_named, languages_to_choose
from sessions.limits import (
    MAX_AGENTS,
    MAX_CHUNK_SIZE_PROMPTS,
    MIN_CHUNK_SIZE_PROMPTS,
    TAB1_CHAR_LIMIT,
)
from sessions.models import Session, State
from sessions.roster import BESIDE_NAME, CAST_TEXTS, NAME, SLOTS, CastText, Character, default_name
from storyengine.tabs.seen_values import (
    Conflict,
    Sent,
    answer_saved,
    marks_of,
    to_save_on_tab1,
    values_of_tab1,
)
from storyengine.tabs.setup_cells import cells_context, read_cells
from storyengine.web.header import header_context
from storyengine.web.model_notice import ModelNotice, read_model_notice
from storyengine.web.numbers import read_whole_number
from storyengine.web.render import HttpRequest, go, nothing_new, show


class SetupLocked(WrongState):
    """The refusal of changes to a Tab 1 that cannot be changed any more. A page that saves by
    itself then stops trying."""

    status = 423
    title = "This chapter is locked now"


@dataclass(frozen=True)
class Panel:
    """The panel of a slot on Tab 1. The texts of a hidden panel are kept."""

    character: Character
    # The texts beside the name: texts of one line, and longer texts.
    lines: list[tuple[CastText, str]]
    longer: list[tuple[CastText, str]]
    is_hidden: bool
    # The number that the same person has in the chapter before; None for a new person.
    person_before: Character | None = None

    @property
    def default_name(self) -> str:
        return default_name(self.character.slot)


@require_safe
def show_world(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    recover(session_id)
    chapter = get_chapter(session_id)
    host, failed, panels = provider_host(), _failed_lock(chapter), _panels(chapter)
    context = header_context(chapter, "world") | {
        "panels": panels,
        "people_before": _people_of_before(chapter, panels),
        "counts": list(SLOTS),
        "chunk_sizes": list(range(MIN_CHUNK_SIZE_PROMPTS, MAX_CHUNK_SIZE_PROMPTS + 1)),
        "languages": languages_to_choose(chapter.language),
        "found_language": language_named(chapter.found_language),
        "limit": TAB1_CHAR_LIMIT,
        "name": NAME,
        "is_editable": is_setup_open(chapter),
        "mode": find_mode(chapter.mode),
        "before_in_play": _before_in_play(chapter),
        "has_lock": has_stage(chapter.mode, Stage.LOCK),
        "is_empty": is_empty(chapter),
        "starter": find_starter(chapter.starter),
        "has_forks": chapter.forks.exists(),
        "seen_values": marks_of(values_of_tab1(chapter)),
        "nothing_to_play": NOTHING_TO_PLAY,
        "failed_lock": failed,
        "check_said": what_the_check_said(failed),
        "host": host,
        "is_allowed": is_allowed(host),
        "notice": read_model_notice(),
    }
    return show(request, "world/world.html", context | cells_context(chapter))


@require_POST
def save(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Save the fields of the form. A value of Tab 1 is not changed if the form has no field for
    it, nor if another window has changed it since."""
    sent = Sent.read(request)
    try:
        conflicts = _save_fields(session_id, sent)
    except WrongState as error:
        # While agent 0 writes the lock, the lock may still fail. Tab 1 can then be changed again,
        # so this refusal is not final.
        if get_chapter(session_id).state in (State.DRAFT_TAB1, State.LOCKING):
            raise
        raise SetupLocked(
            "It has been started since, perhaps in another window, and Tab 1 takes no more "
            "changes. These words are not saved, but they are still on this page: copy them "
            "before you leave it. To play with them, load the page anew, choose “New story "
            "with this setup”, and put them in there."
        ) from error
    page = reverse("pages:world", args=[session_id])
    return answer_saved(
        request, sent, conflicts, lambda: values_of_tab1(get_chapter(session_id)), page
    )


@transaction.atomic
def _save_fields(session_id: uuid.UUID, sent: Sent) -> list[Conflict]:
    """Save the fields that every mode has and the fields that the chapter's mode adds, except the
    conflicts, which are returned. If a field is refused, no field is saved."""
    fields, conflicts = to_save_on_tab1(session_id, sent)
    save_setup(session_id, _read_change(fields))
    if cells := read_cells(fields):
        save_mode_setup(session_id, cells)
    return conflicts


@require_POST
def save_language(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    choose_language(session_id, request.POST.get("language", ""))
    return nothing_new() if request.htmx else go(request, reverse("pages:world", args=[session_id]))


@require_POST
def example(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    fill_example(session_id)
    return go(request, reverse("pages:world", args=[session_id]))


@require_POST
def lock(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    start_play(session_id)
    return go(request, reverse("pages:play", args=[session_id]))


@require_safe
async def lock_status(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Answer a poll while agent 0 writes the lock. The answer says what agent 0 waits for, or leads
    to the next tab."""
    if await in_database(_is_lock_as_seen, session_id, request.GET.get("seen", "")):
        return nothing_new()
    return await sync_to_async(_show_lock_news)(request, session_id)


def _is_lock_as_seen(session_id: uuid.UUID, seen: str) -> bool:
    chapter = get_chapter(session_id)
    jobs = latest_jobs(chapter)
    if chapter.state != State.LOCKING or is_left_behind(chapter, jobs, None):
        return False
    return _lock_version(read_model_notice(), jobs.get(Job.Kind.LOCK)) == seen


def _show_lock_news(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    recover(session_id)
    chapter = get_chapter(session_id)
    if chapter.state != State.LOCKING:
        tab = "pages:play" if chapter.tab1_locked else "pages:world"
        return go(request, reverse(tab, args=[session_id]))
    context = locking_context(chapter, latest_jobs(chapter))
    progress = context["progress"]
    # A screen reader announces each quarter once, and not every two seconds.
    tells = progress is not None and str(progress.step) != request.GET.get("step", "")
    return show(request, "play/_locking.html", context | {"tells_step": tells})


@require_safe
def model_status(request: HttpRequest) -> HttpResponse:
    """Answer a poll while the embedded model is not ready. Once it is ready, the page gets the
    event `model-ready`."""
    notice = read_model_notice()
    response = show(request, "_model_notice.html", {"notice": notice})
    if notice is None or not notice.is_waiting:
        response["HX-Trigger"] = "model-ready"
    return response


def locking_context(chapter: Session, jobs: Mapping[str, Job]) -> dict[str, Any]:
    """Return the context of the page that is shown while agent 0 writes the lock. `jobs` is the
    result of `latest_jobs`."""
    notice = read_model_notice()
    job = jobs.get(Job.Kind.LOCK)
    return {
        "chapter": chapter,
        "notice": notice,
        "error": job.error if job else "",
        "version": _lock_version(notice, job),
        "progress": read_lock_progress(job) if job else None,
        # The page shows the time since this try could begin. The time since the first try is
        # longer, and would mislead the user.
        "waits_since": job.run_after if job else None,
        "is_embedded": uses_embedded([in_chapter(WORLD_SUMMARY, chapter)]),
    }


def _lock_version(notice: ModelNotice | None, job: Job | None) -> str:
    """Return a digest of everything that changes while agent 0 writes the lock. It takes no
    queries of its own, because open pages ask for it often."""
    shown = [notice.text if notice else ""]
    shown += [job.status, job.error, job.partial_text] if job else []
    return hashlib.sha256("|".join(shown).encode()).hexdigest()[:16]


def _panels(chapter: Session) -> list[Panel]:
    selected = chapter.selected_agent_slots
    before = followed(chapter)
    numbers = persons_before(chapter, before) if before else {}
    is_open = is_setup_open(chapter)
    stored = {one: chapter.agent_texts(one.name) for one in BESIDE_NAME}

    def texts(slot: int) -> list[tuple[CastText, str]]:
        return [(one, by_slot.get(str(slot), "")) for one, by_slot in stored.items()]

    return [
        Panel(
            chapter.character(slot),
            [(one, text) for one, text in texts(slot) if one.is_line and (text or is_open)],
            [(one, text) for one, text in texts(slot) if not one.is_line],
            slot not in selected,
            before.character(number) if before and (number := numbers.get(slot)) else None,
        )
        for slot in SLOTS
    ]


def _before_in_play(chapter: Session) -> Session | None:
    """Return the chapter before if its memory still grows while this chapter waits for its lock."""
    if chapter.state != State.DRAFT_TAB1:
        return None
    before = chapter_before(chapter)
    return before if before is not None and before.is_playable else None


def _people_of_before(chapter: Session, panels: list[Panel]) -> list[Character]:
    """Return the people of the chapter before who can be the same person in this chapter: the
    people who took part there, and people who are chosen already."""
    before = followed(chapter)
    if before is None:
        return []
    named = {panel.person_before.number for panel in panels if panel.person_before}
    everybody = {one.number for one in before.everybody}
    return [one for one, _ in before.numbered_cast if one.number in named | everybody]


def _failed_lock(chapter: Session) -> Job | None:
    if chapter.state != State.DRAFT_TAB1:
        return None
    job = latest_jobs(chapter).get(Job.Kind.LOCK)
    return job if job and job.status == Job.Status.FAILED else None


def _read_change(form: Mapping[str, str]) -> SetupChange:
    count = form.get("agent_count")
    slots = None
    if count is not None:
        asked = read_whole_number(count, "The number of agents")
        slots = list(range(1, min(asked, MAX_AGENTS + 1) + 1))
    size = form.get("chunk_size")
    return SetupChange(
        world_text=form.get("world_text"),
        chapter_text=form.get("chapter_text"),
        selected_agent_slots=slots,
        texts={one.name: _by_slot(form, one.field_name) for one in CAST_TEXTS},
        agent_persons_before=_persons_before(form),
        chunk_size_prompts=None if size is None else read_whole_number(size, "The number"),
    )


def _persons_before(form: Mapping[str, str]) -> dict[str, int | None]:
    return {
        slot: read_whole_number(number, "A person") if number else None
        for slot, number in _by_slot(form, "before").items()
    }


def _by_slot(form: Mapping[str, str], field_name: str) -> dict[str, str]:
    """Return the texts of the fields that have this name and a slot. The keys are the slots."""
    parted = ((name.rpartition("_"), text) for name, text in form.items())
    return {slot: text for (name, _, slot), text in parted if name == field_name}
