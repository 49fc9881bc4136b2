"""Pages where the Game Master corrects canon and answers the questions of memory.

These forms are not on Tab 3. The memory cell of Tab 3 is replaced whenever memory grows, and a
half-written text in it would be lost.
"""

import uuid
from collections.abc import Collection
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from memory.canon.contradictions import canon_facts, read_contradiction
from memory.canon.corrections import why_not_now, write_answer, write_correction
from memory.canon.ruling_payloads import Answer
from memory.fold.folding import fold_chapter
from memory.fold.prompt_numbers import sources_of
from memory.fold.records import Question
from memory.telling.now_view import now_view
from sessions.chapter.access import get_chapter
from sessions.exceptions import ChapterError, InvalidInput, WrongState
from sessions.limits import CANON_CHAR_LIMIT
from sessions.models import Session
from sessions.play.played_world import everybody_at
from storyengine.tabs.chapter.now_pages import find_item, find_question, prompts_of_facts, text_key
from storyengine.web.header import header_context
from storyengine.web.numbers import read_whole_number
from storyengine.web.render import HttpRequest, show

_CORRECTION = "chapter/correction.html"
_QUESTION = "chapter/question.html"
_ANSWERED = ("old", "new", "reason")


@require_safe
def show_correction(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Show the form for a ruling. If the address names an item of the Now view, the form has the
    item's text."""
    chapter = get_chapter(session_id)
    key = request.GET.get("item", "")
    item = find_item(fold_chapter(chapter), chapter.characters, key) if key else None
    context = _context(chapter, {"replaces": item.replaces if item else ""})
    context |= {"item": item, "is_gone": bool(key) and item is None}
    return show(request, _CORRECTION, context)


@require_POST
def correct(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    typed = {name: request.POST.get(name, "") for name in ("replaces", "canon", "reason")}
    try:
        write_correction(
            session_id,
            canon=typed["canon"],
            replaces=typed["replaces"],
            reason=typed["reason"],
            readers=_read_readers(request),
        )
    except (InvalidInput, WrongState) as error:
        chapter = get_chapter(session_id)
        context = _context(chapter, typed, error, _named(request))
        key = text_key(typed["replaces"])
        context["item"] = find_item(fold_chapter(chapter), chapter.characters, key)
        return show(request, _CORRECTION, context, status=error.status)
    return HttpResponseRedirect(_now_address(session_id))


@require_safe
def show_question(request: HttpRequest, session_id: uuid.UUID, key: str) -> HttpResponse:
    """Show the form for the answer to a question. The form has the two facts of the question."""
    chapter = get_chapter(session_id)
    question = _question(chapter, key)
    return show(request, _QUESTION, _context(chapter, {}) | _asked(chapter, question, {}))


@require_POST
def answer_question(request: HttpRequest, session_id: uuid.UUID, key: str) -> HttpResponse:
    chapter = get_chapter(session_id)
    question = _question(chapter, key)
    typed = {name: request.POST[name] for name in _ANSWERED if name in request.POST}
    try:
        answer = _read_answer(request.POST.get("answer", ""))
        if answer is Answer.TAKE_NEW and typed.get("new") and "old" not in typed:
            raise InvalidInput(
                "Choose the fact that the new takes the place of, or “None of these”. "
                "Nothing was changed."
            )
        write_answer(
            session_id,
            question.text,
            answer,
            old=typed.get("old", ""),
            new=typed.get("new", ""),
            reason=typed.get("reason", ""),
            readers=_read_readers(request),
        )
    except (InvalidInput, WrongState) as error:
        chapter = get_chapter(session_id)
        context = _context(chapter, typed, error, _named(request))
        context |= _asked(chapter, question, typed)
        return show(request, _QUESTION, context, status=error.status)
    return HttpResponseRedirect(_now_address(session_id))


def _context(
    chapter: Session,
    typed: dict[str, str],
    error: ChapterError | None = None,
    ticked: Collection[str] = (),
) -> dict[str, Any]:
    return header_context(chapter, "chapter") | {
        "typed": typed,
        "error": error,
        "why_not": "" if error else why_not_now(chapter),
        "limit": CANON_CHAR_LIMIT,
        "back": _now_address(chapter.pk),
        "everybody": everybody_at(chapter),
        "ticked": ticked,
    }


def _read_readers(request: HttpRequest) -> list[int] | None:
    """Return the numbers of the members whom the GM names as readers of the ruling, or None if the
    GM names nobody."""
    return [read_whole_number(one, "A reader") for one in _named(request)] or None


def _named(request: HttpRequest) -> list[str]:
    return request.POST.getlist("readers")


def _asked(chapter: Session, question: Question, typed: dict[str, str]) -> dict[str, Any]:
    sections = now_view(fold_chapter(chapter), chapter.characters)
    told = read_contradiction(question.text, sections)
    said = prompts_of_facts(sections)
    filled_in = {"new": told.new} | ({"old": told.old} if told.old else {})
    likely = [told.old] if told.old else []
    return {
        "question": question,
        "key": text_key(question.text),
        "prompts": sources_of(question.first, question.latest),
        "facts": [
            (fact, said.get(fact, []))
            for fact in dict.fromkeys([*likely, *canon_facts(sections, question.text)])
        ],
        # The form shows again what the user has sent, even if it is empty. A fact is filled in only
        # where the user has sent nothing.
        "typed": filled_in | typed,
    }


def _question(chapter: Session, key: str) -> Question:
    question = find_question(fold_chapter(chapter), key)
    if question is None:
        raise WrongState("Memory holds no such question. Nothing was changed.")
    return question


def _read_answer(text: str) -> Answer:
    try:
        return Answer(text)
    except ValueError:
        raise InvalidInput("Choose one of the three answers. Nothing was changed.") from None


def _now_address(session_id: uuid.UUID) -> str:
    return reverse("pages:draft", args=[session_id]) + "?show=now#memory"
