"""The pages that change the lists of a scenario: places, people, and the facts that people know."""

import json
import uuid
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.modes.fields import save_mode_setup
from explorer.ready import begin_ready, find_ready
from explorer.scenario_file import (
    MOST_BYTES,
    parse_scenario,
    replace_scenario,
    write_scenario,
)
from explorer.setup import PLAYER, PersonSetup, PlaceSetup, check_exploration, exploration_of
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import is_setup_open
from sessions.exceptions import InvalidInput
from sessions.language.text import tidied
from storyengine.web.render import go, show
from storyengine.web.saved_first import save_first
from world.names import normalized

Setup = dict[str, Any]
_OF_PERSONA = ("name", "pronouns", "seen_as", "description")
# For each list of the setup: the field that tells the user which entry is which, and the number in
# the address that names an entry.
_SHOWN = (
    *("places.{place}.name", "people.{person}.name", "people.{person}.knowledge.{fact}.content"),
    "people.{person}.relationships.{tie}.name",
    *("talk.{example}.text", "lorebook.entries.{entry}.content", "output_rules.{rule}.pattern"),
)


def _changing(change: Callable[..., None], anchor: str) -> Callable[..., HttpResponse]:
    """Return a view that changes the setup by a function of the setup and of the numbers in the
    address, and leads back to Tab 1, or in play to Tab 2. The fields that were typed are saved
    before."""

    @require_POST
    def view(request: HttpRequest, session_id: uuid.UUID, **numbers: int) -> HttpResponse:
        save_first(request, session_id)

        def apply(setup: Setup) -> None:
            _check_seen(request, setup, **numbers)
            change(setup, **numbers)

        _save(session_id, apply)
        return HttpResponseRedirect(f"{_page_of(session_id)}#{anchor}")

    return view


def _page_of(session_id: uuid.UUID) -> str:
    """Return the address of the page where the setup can be changed."""
    if is_setup_open(get_chapter(session_id)):
        return reverse("pages:world", args=[session_id])
    return f"{reverse('pages:play', args=[session_id])}?open=cells"


def _check_seen(request: HttpRequest, setup: Setup, **numbers: int) -> None:
    """Raise InvalidInput if the numbers name other entries than the page showed, because another
    window has changed the list."""
    for pattern in _SHOWN:
        try:
            field = pattern.format(**numbers)
        except KeyError:
            continue
        stored = str(_found(setup, field))
        shown = request.POST.get(f"setup.{field}", stored)
        if tidied(shown).strip() != tidied(stored).strip():
            raise InvalidInput(
                f"Another window has changed this list, and “{stored[:60]}” stands here now. "
                "Nothing was removed or added; load the page anew."
            )


def _found(setup: Setup, path: str) -> Any:
    found: Any = setup
    for part in path.split("."):
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found


def _save(session_id: uuid.UUID, change: Callable[[Setup], None]) -> None:
    """Save what the function makes of the setup. Raises InvalidInput if the entry to change does
    not exist any more, and WrongState for a chapter of another way to play."""
    check_exploration(get_chapter(session_id))

    def apply(setup: Setup) -> None:
        try:
            change(setup)
        except LookupError:
            raise InvalidInput("It is gone already. Nothing was changed.") from None

    save_mode_setup(session_id, apply)


def _free(names: list[str], stem: str) -> str:
    """Return the stem, or the stem with the first number that makes a name nobody has."""
    taken = {name.casefold() for name in names}
    numbered = (f"{stem} {number}" for number in range(2, len(names) + 3))
    return (
        stem
        if stem.casefold() not in taken
        else next(name for name in numbered if name.casefold() not in taken)
    )


def _add_place(setup: Setup) -> None:
    name = _free([one["name"] for one in setup["places"]], "A new place")
    setup["places"].append(PlaceSetup(name=name).model_dump(mode="json"))


def _remove_place(setup: Setup, place: int) -> None:
    gone = setup["places"].pop(place)["name"]
    for other in setup["places"]:
        other["ways"] = [way for way in other["ways"] if normalized(way) != normalized(gone)]
    for one in setup["people"]:
        if one["location"] == gone:
            one["location"] = ""
    if setup["starting_place"] == gone:
        setup["starting_place"] = ""


def _add_person(setup: Setup) -> None:
    names = [one["name"] for one in setup["people"]]
    name = _free([*names, setup["persona"]["name"]], "Somebody new")
    setup["people"].append(PersonSetup(name=name).model_dump(mode="json"))


def _be_person(setup: Setup, person: int) -> None:
    chosen = setup["people"][person]
    for one in setup["people"]:
        one["is_player"] = one is chosen


def _be_oneself(setup: Setup) -> None:
    for one in setup["people"]:
        one["is_player"] = False


def _adding(to: str, entry: Setup, anchor: str) -> Callable[..., HttpResponse]:
    """Return a view that adds an entry to the list at this place of the setup."""

    def add(setup: Setup, **numbers: int) -> None:
        _found(setup, to.format(**numbers)).append(dict(entry))

    return _changing(add, anchor)


def _removing(entry: str, anchor: str) -> Callable[..., HttpResponse]:
    """Return a view that removes the entry at this place of the setup."""

    def remove(setup: Setup, **numbers: int) -> None:
        entries, _, number = entry.format(**numbers).rpartition(".")
        _found(setup, entries).pop(int(number))

    return _changing(remove, anchor)


add_place = _changing(_add_place, "places")
remove_place = _changing(_remove_place, "places")
add_person = _changing(_add_person, "people")
remove_person = _removing("people.{person}", "people")
be_person = _changing(_be_person, "people")
be_oneself = _changing(_be_oneself, "persona")
add_fact = _adding("people.{person}.knowledge", {"content": ""}, "people")
remove_fact = _removing("people.{person}.knowledge.{fact}", "people")
add_tie = _adding("people.{person}.relationships", {"name": ""}, "people")
remove_tie = _removing("people.{person}.relationships.{tie}", "people")
add_talk = _adding("talk", {}, "talk")
remove_talk = _removing("talk.{example}", "talk")
add_lore = _adding("lorebook.entries", {}, "lore")
remove_lore = _removing("lorebook.entries.{entry}", "lore")
add_rule = _adding("output_rules", {}, "rules")
remove_rule = _removing("output_rules.{rule}", "rules")


@require_http_methods(["GET", "HEAD", "POST"])
def begin(request: HttpRequest, name: str) -> HttpResponse:
    """Ask who the user is in a finished scenario, and then begin a chapter from it and lead to its
    play. Every answer may be left out."""
    ready = find_ready(name)
    if request.method != "POST":
        context = {"ready": ready, "someone": ready.setup.player, "usual_name": PLAYER}
        return show(request, "explorer/before_play.html", context)  # type: ignore[arg-type]
    told = {field: request.POST.get(field, "").strip() for field in _OF_PERSONA}
    persona = {field: text for field, text in told.items() if text}
    chapter = begin_ready(name, persona=None if ready.setup.player else persona)
    return go(request, reverse("pages:play", args=[chapter.pk]))  # type: ignore[arg-type]


@require_POST
def use_ready(request: HttpRequest, session_id: uuid.UUID, name: str) -> HttpResponse:
    """Put a finished scenario in place of what Tab 1 has. The fields that a scenario does not have
    are kept: the user's own person, the narrator's style, and the texts that guide the narrator."""
    replace_scenario(session_id, find_ready(name).put_into)
    return HttpResponseRedirect(reverse("pages:world", args=[session_id]))


@require_POST
def import_scenario(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Put the scenario of a file in place of what Tab 1 has."""
    sent = request.FILES.get("file")
    if sent is None:
        raise InvalidInput("No file was chosen. Nothing was changed.")
    content = sent.read(MOST_BYTES + 1)
    replace_scenario(session_id, lambda before: parse_scenario(content, before=before))
    return go(request, reverse("pages:world", args=[session_id]))  # type: ignore[arg-type]


@require_safe
def export_scenario(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Download the scenario as a file that can be imported again."""

    content = json.dumps(write_scenario(exploration_of(get_chapter(session_id))), indent=2)
    response = HttpResponse(content, content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="scenario.json"'
    return response
