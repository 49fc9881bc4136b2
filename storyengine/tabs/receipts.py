"""The page that shows for each paragraph of a draft the prompts that it tells."""

import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.calling.consent import is_allowed, provider_host
from agents.exceptions import ModelNotReady, PromptTooLong
from agents.flows.rebuilding import estimate_rebuild, request_rebuild, why_not_rebuilt
from memory.drafts import check_scene, drafts_of, find_draft, telling_of
from memory.fold.records import Prompts
from memory.fold.sources import ranges_of
from memory.models import NarrativeDraft
from memory.receipts.matching import Confidence
from memory.receipts.paragraphs import Kind
from memory.receipts.reading import DraftReceipts, Receipt, SceneReceipts, read_receipts
from sessions.access import get_chapter
from sessions.exceptions import UnknownChapter
from sessions.models import Session
from sessions.transcript import Entry
from storyengine.web.header import header_context
from storyengine.web.numbers import number_up_to
from storyengine.web.render import HttpRequest, go, show


@dataclass(frozen=True)
class ShownTurn:
    """A turn that a paragraph tells, with its sentences that no paragraph tells."""

    number: int
    entries: tuple[Entry, ...]
    left_out: list[str]
    # Whether the turn belongs to another scene than the paragraph.
    is_of_another_scene: bool


@dataclass(frozen=True)
class ShownReceipt:
    """A paragraph with its receipt, as the page shows it."""

    receipt: Receipt
    scene: SceneReceipts
    is_open: bool = False
    tells_asked_prompt: bool = False

    @property
    def number(self) -> int:
        return self.receipt.paragraph.number

    @property
    def kind(self) -> Kind:
        return self.receipt.paragraph.kind

    @property
    def prompts(self) -> list[Prompts]:
        return ranges_of(self.receipt.prompts)

    @property
    def confidence(self) -> Confidence:
        match = self.receipt.match
        return Confidence.INVENTED if match is None else match.confidence


@dataclass(frozen=True)
class ShownScene:
    scene: SceneReceipts
    receipts: list[ShownReceipt]

    @property
    def prompts(self) -> Prompts:
        return Prompts(self.scene.first, self.scene.last)

    @property
    def untold_prompts(self) -> list[Prompts]:
        return ranges_of(self.scene.untold_prompts)


@dataclass(frozen=True)
class ReceiptsPage:
    chapter: Session
    number: int
    draft: NarrativeDraft
    found: DraftReceipts
    # The paragraph whose turns are shown, and the prompt whose paragraphs are marked; 0 for none.
    paragraph: int
    prompt: int

    @cached_property
    def scenes(self) -> list[ShownScene]:
        return [
            ShownScene(
                scene,
                [
                    ShownReceipt(
                        one,
                        scene,
                        is_open=one.paragraph.number == self.paragraph,
                        tells_asked_prompt=self.prompt in one.prompts,
                    )
                    for one in scene.receipts
                ],
            )
            for scene in self.found.scenes
        ]

    @cached_property
    def opened(self) -> ShownReceipt | None:
        """The paragraph whose turns are shown, or None."""
        shown = (one for scene in self.scenes for one in scene.receipts)
        return next((one for one in shown if one.is_open), None)

    @property
    def turns(self) -> list[ShownTurn]:
        """The turns that the opened paragraph tells."""
        if self.opened is None:
            return []
        scene = self.opened.scene
        return [
            ShownTurn(
                number,
                self.found.turns.get(number, ()),
                self.found.left_out_of(number),
                is_of_another_scene=not scene.first <= number <= scene.last,
            )
            for number in self.opened.receipt.prompts
        ]

    @property
    def judged_count(self) -> int:
        return sum(one.match is not None for one in self.found.receipts)

    @property
    def untold_prompts(self) -> list[Prompts]:
        return ranges_of(self.found.untold_prompts)

    @property
    def paragraphs_of_prompt(self) -> list[int]:
        return self.found.paragraphs_of.get(self.prompt, [])


@require_safe
def show_receipts(request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID) -> HttpResponse:
    """Show the draft with the receipts of its paragraphs. The address may name a paragraph, whose
    turns are shown too, and a prompt, whose paragraphs are marked."""
    page = _read_page(request, session_id, draft_id)
    context: dict[str, Any] = {"page": page, "chapter": page.chapter}
    if request.htmx:
        return show(request, "chapter/_receipt.html", context)
    context |= header_context(page.chapter, "chapter")
    return show(request, "chapter/receipts.html", context)


@require_safe
def show_told(request: HttpRequest, session_id: uuid.UUID, number: int) -> HttpResponse:
    """Show where the newest draft tells a prompt."""
    draft = drafts_of(get_chapter(session_id)).last()
    if draft is None:
        raise UnknownChapter("This chapter has no draft yet.")
    page = _read_page(request, session_id, draft.pk, prompt=number)
    context = {"page": page, **header_context(page.chapter, "chapter")}
    return show(request, "chapter/receipts.html", context)


@require_safe
def confirm_rebuild(
    request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID, number: int
) -> HttpResponse:
    """Ask the user to confirm that a scene is written again, and say what this will take."""
    chapter = get_chapter(session_id)
    draft_number, draft = find_draft(chapter, draft_id)
    check_scene(draft, number)
    scenes = telling_of(draft).scenes
    host = provider_host()
    context = header_context(chapter, "chapter") | {
        "draft": draft,
        "draft_number": draft_number,
        "number": number,
        "count": len(scenes),
        "scene": scenes[number - 1] if scenes else None,
        "why_not": why_not_rebuilt(chapter, draft),
        "host": host,
        "is_allowed": is_allowed(host),
        # The form has this key, so that it makes only one rebuild even if it is sent twice.
        "submission_key": str(uuid.uuid4()),
    }
    if not context["why_not"]:
        try:
            context["estimate"] = estimate_rebuild(chapter, draft.pk, number)
        except (PromptTooLong, ModelNotReady) as error:
            context["no_estimate"] = str(error)
    return show(request, "chapter/rebuild.html", context)


@require_POST
def rebuild(
    request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID, number: int
) -> HttpResponse:
    key = request.POST.get("submission_key", "")
    request_rebuild(session_id, draft_id, number, submission_key=key)
    return go(request, reverse("pages:draft", args=[session_id]) + "#draft-label")


def _read_page(
    request: HttpRequest, session_id: uuid.UUID, draft_id: uuid.UUID, *, prompt: int = 0
) -> ReceiptsPage:
    chapter = get_chapter(session_id)
    number, draft = find_draft(chapter, draft_id)
    found = read_receipts(chapter, draft)
    return ReceiptsPage(
        chapter,
        number,
        draft,
        found,
        paragraph=number_up_to(len(found.receipts), request.GET.get("paragraph", "")),
        prompt=prompt or number_up_to(chapter.prompt_index, request.GET.get("prompt", "")),
    )
