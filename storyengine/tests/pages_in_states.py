"""The pages of the program in their states: chapters that are not played, in play, ended, with much
memory, and with work that runs or has failed."""

from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from agents.calling.chapter_models import save_models
from agents.calling.servers.changing import add_server
from agents.models import Job
from agents.prompting.own_settings import OwnSettings
from agents.tests.replies import turn_delta, world_lock
from memory.models import NarrativeDraft
from memory.prose.editing.working_copies import save_working_copy
from memory.prose.tests.told_chapters import TOLD, add_draft, make_told_chapter
from memory.tests.factories import add_delta, add_lock
from sessions.models import Attempt, Session, State
from sessions.tests.factories import (
    add_attempt,
    add_prompts,
    make_active_chapter,
    make_cast,
    make_chapter,
)
from storyengine.tabs.tests.addresses import address
from storyengine.tests.rendered_pages import Pages, rendered
from storyengine.tests.whole_chapter import SNAPSHOT, make_whole_chapter

BLOCKS = 40
NAMES = {"1": "Mara of the Ferry", "2": "Tomasz Wieczorkowski", "3": "The Keeper's Youngest"}
LONG = " ".join(["Unverhältnismäßigkeitsbeschreibung"] * 5)


def pages_in_all_states(client: Client) -> Pages:
    """Return every page of a chapter, and the tabs of chapters in their states. The caller must
    have set a scripted provider."""
    whole = make_whole_chapter("The lamp.")
    unplayed, played = make_chapter(), remember_much(last_summarized_prompt_index=BLOCKS - 1)
    ended = remember_much(last_summarized_prompt_index=BLOCKS - 1, state=State.ENDED)
    NarrativeDraft.objects.create(
        session=ended, target_words=100, source_snapshot=SNAPSHOT, chapter_text="The lamp. " * 900
    )
    chapters = (unplayed, played, ended, *in_other_states())
    tabs = [address(one, tab) for one in chapters for tab in ("world", "play", "draft")]
    return rendered(client, ["/", *whole.addresses, *tabs, *of_drafts(), *of_models()])


def of_drafts() -> list[str]:
    """Return the pages of a chapter with two drafts, one of which is being edited."""
    chapter = make_told_chapter(state=State.ENDED)
    add_draft(chapter, *TOLD)
    first, second = "\n\n".join(["# One", *TOLD[:2]]), "\n\n".join([*TOLD[2:], "***", "The end."])
    draft = add_draft(chapter, first, second, ends=(2, 4))
    save_working_copy(chapter.pk, draft.pk, "The end of it.")
    return [
        address(chapter, "draft"),
        address(chapter, "edit-draft", draft.pk),
        address(chapter, "differences", draft.pk),
        address(chapter, "read"),
    ]


def of_models() -> list[str]:
    """Return the pages of models, also with a server of the user's and with each character on its
    own in a chapter that has set something for one."""
    chapter = make_active_chapter(agent_names=NAMES)
    add_server("Mine, with quite a long name for a server", "https://models.example/v1")
    own = OwnSettings(
        model="mine", temperature=0.5, top_p=0.9, output_tokens=400, stop=("END", "\n\n")
    )
    save_models(chapter.pk, {"AGENT_2": own})
    return ["/models/", address(chapter, "chapter-models")]


def remember_much(**fields: Any) -> Session:
    """Return a chapter with 40 memory blocks. Only two of the three characters may read every
    second delta."""
    chapter = make_active_chapter(agent_names=NAMES, title="The Dark Lamp, and what came of it")
    chapter.tab1.world_text = LONG
    chapter.tab1.save()
    make_cast(
        chapter, public_text={"1": LONG, "2": "A priest."}, pronouns={"3": "they/them/theirs"}
    )
    add_prompts(chapter, BLOCKS, text="The stairs are wet.", reply="I go up.")
    add_lock(chapter, world_lock(list(NAMES.values())))
    for number in range(1, BLOCKS):
        told = turn_delta(number, number, canon_locks=[f"Fact number {number}."])
        audience = [1, 2, 3] if number % 2 else [1, 2]
        add_delta(chapter, number, number, told, audience=audience)
    Session.objects.filter(pk=chapter.pk).update(**fields)
    return chapter


def in_other_states() -> list[Session]:
    """Return chapters with as much memory, whose pages also show unfinished or failed work."""
    running, broken, building, failed = (remember_much() for _ in range(4))
    add_attempt(running, words=LONG, partial_text=LONG * 20)
    add_attempt(broken, words=LONG, partial_text=LONG, status=Attempt.Status.FAILED, error=LONG * 5)
    Session.objects.filter(pk=building.pk).update(state=State.NARRATING)
    add_build(building, Job.Status.RUNNING)
    Session.objects.filter(pk=failed.pk).update(state=State.ENDED)
    add_build(failed, Job.Status.FAILED)
    return [running, broken, building, failed]


def add_build(chapter: Session, status: Job.Status) -> None:
    Job.objects.create(
        session=chapter,
        kind=Job.Kind.NARRATE,
        key="build",
        status=status,
        error=LONG,
        failure="NotInForm",
        partial_text="The lamp.\n\n" * 300,
        progress={"words": 600, "target_words": 2_500},
        lease_until=timezone.now() + timedelta(hours=1),
    )
