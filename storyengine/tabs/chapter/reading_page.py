"""The page on which a chapter is read as a book, in the reader's own type and colours."""

import uuid
from dataclasses import dataclass

from django.http import HttpRequest as DjangoHttpRequest
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_POST, require_safe

from memory.models import NarrativeDraft
from memory.prose.drafts import chosen_draft, drafts_of, drafts_of_story, find_draft, told_chapters
from memory.prose.receipts.paragraphs import Kind
from sessions.chapter.access import get_chapter
from sessions.chapter.stories import chapter_after, get_story, title_of
from sessions.exceptions import WrongState
from sessions.models import Session, State
from storyengine.books.book import Block, blocks_of, readable
from storyengine.tabs.action_addresses import address_of
from storyengine.web.numbers import number_up_to
from storyengine.web.render import HttpRequest, nothing_new, show
from storyengine.web.templatetags.prose import with_tags

_COOKIE = "reading"
_YEAR = 365 * 24 * 60 * 60
# The choices of a reader: the label of each choice, and its values with their labels.
_CHOICES: dict[str, tuple[str, dict[str, str]]] = {
    "size": (
        "Type size",
        {"small": "Small", "medium": "Medium", "large": "Large", "largest": "Largest"},
    ),
    "measure": ("Width of the lines", {"narrow": "Narrow", "wide": "Wide"}),
    "page": ("Page", {"white": "White", "black": "Black"}),
}
_USUAL = {"size": "medium", "measure": "narrow", "page": "white"}


@dataclass(frozen=True)
class Choice:
    name: str
    label: str
    values: list[tuple[str, str]]
    chosen: str


@dataclass(frozen=True)
class ReadBlock:
    """A heading, a break or a paragraph, with its lines as HTML."""

    kind: str
    html: SafeString


@dataclass(frozen=True)
class ReadingPage:
    """A draft as a book. `before` and `after` are the chapters beside it in its story that have a
    draft. `untold` is the next chapter of the story if it has no draft yet."""

    chapter: Session
    draft: NarrativeDraft
    number: int
    story_title: str
    before: Session | None
    after: Session | None
    untold: Session | None
    choices: list[Choice]

    @property
    def title(self) -> str:
        return self.chapter.title

    @property
    def can_go_on(self) -> bool:
        """Whether the reader can begin the next chapter here."""
        is_last = not (self.after or self.untold)
        return is_last and self.chapter.state == State.ENDED

    @property
    def untold_address(self) -> str:
        return address_of(self.untold) if self.untold else ""

    @property
    def blocks(self) -> list[ReadBlock]:
        """The parts of the prose. A heading at its beginning that repeats the title is left out."""
        blocks = list(blocks_of(readable(self.draft.chapter_text)))
        if blocks and blocks[0].kind == Kind.HEADING:
            [first] = blocks[0].lines
            words = "".join(span.text for span in first)
            blocks = blocks[words.strip().casefold() == self.title.casefold() :]
        return [ReadBlock(block.kind.value, _as_html(block)) for block in blocks]


def _as_html(block: Block) -> SafeString:
    return mark_safe("<br>".join(map(with_tags, block.lines)))  # noqa: S308 (it is escaped)


@require_safe
def read_chapter(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Show the chosen draft of the chapter, or the draft that the address names, as a book."""
    chapter = get_chapter(session_id)
    drafts = list(drafts_of(chapter).values_list("pk", flat=True))
    asked = number_up_to(len(drafts), request.GET.get("draft", ""))
    draft = find_draft(chapter, drafts[asked - 1])[1] if asked else chosen_draft(chapter)
    if draft is None:
        raise WrongState("This chapter has no draft to read yet. Build it on Tab 3 first.")
    in_story = told_chapters(chapter.story)
    keys = [one.pk for one in in_story]
    at = keys.index(chapter.pk) if chapter.pk in keys else None
    after = in_story[at + 1] if at is not None and at + 1 < len(in_story) else None
    page = ReadingPage(
        chapter=chapter,
        draft=draft,
        number=drafts.index(draft.pk) + 1,
        story_title=title_of(chapter.story) if len(in_story) > 1 else "",
        before=in_story[at - 1] if at else None,
        after=after,
        untold=None if after else chapter_after(chapter),
        choices=_choices(request),
    )
    return show(request, "chapter/reading.html", {"page": page})


@require_safe
def read_story(request: HttpRequest, story_id: uuid.UUID) -> HttpResponse:
    """Lead to the first chapter of the story that can be read."""
    first = drafts_of_story(get_story(story_id))[0].session
    return HttpResponseRedirect(reverse("pages:read", args=[first.pk]))


@require_POST
def save_style(request: HttpRequest) -> HttpResponse:
    """Store the reader's choices in a cookie of this browser."""
    chosen = ".".join(
        value if (value := request.POST.get(name, "")) in values else _USUAL[name]
        for name, (_, values) in _CHOICES.items()
    )
    at = request.POST.get("at", "")
    is_here = url_has_allowed_host_and_scheme(at, allowed_hosts=None) and at.startswith("/")
    back = at if is_here else reverse("pages:library")
    response = nothing_new() if request.htmx else HttpResponseRedirect(back)
    response.set_cookie(
        _COOKIE,
        chosen,
        max_age=_YEAR,
        secure=request.is_secure(),
        httponly=True,
        samesite="Lax",
    )
    return response


def _choices(request: DjangoHttpRequest) -> list[Choice]:
    kept = request.COOKIES.get(_COOKIE, "").split(".")
    return [
        Choice(
            name,
            label,
            list(values.items()),
            next((one for one in kept if one in values), _USUAL[name]),
        )
        for name, (label, values) in _CHOICES.items()
    ]
