import pytest
from django.template.loader import render_to_string
from django.test import Client
from pytest_django import Settings

from sessions.exceptions import ChapterError, TooLong, TurnInFlight, UnknownChapter, WrongState
from sessions.models import Session, State
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of
from testing.refusals import NOTHING_CHANGED

pytestmark = pytest.mark.django_db


def test_htmx_gets_a_message_for_the_place_where_the_gm_is(htmx: Client, chapter: Session) -> None:
    response = htmx.post(address(chapter, "cancel"))
    assert response.status_code == 409
    assert response["HX-Reswap"] == "innerHTML"
    html = response.content.decode()
    assert not all_of(html, "html")
    assert all_of(html, "div", "message-error")


def test_others_get_a_page_with_a_way_back(client: Client, chapter: Session) -> None:
    response = client.post(address(chapter, "cancel"))
    assert response.status_code == 409
    html = response.content.decode()
    assert all_of(html, "h1")
    assert address(chapter, "chapter") in {one.attributes["href"] for one in all_of(html, "a")}


@pytest.mark.parametrize(
    ("error", "bold", "lead"),
    [
        (TurnInFlight("A reply is being written. Wait for it."), "", "Wait for it."),
        (UnknownChapter("There is no such chapter. It may be deleted."), "", "It may be deleted."),
        (
            TooLong("The world has 9 words too many."),
            "Too long. ",
            "The world has 9 words too many.",
        ),
        (WrongState("Not so."), "The chapter cannot do that now. ", "Not so."),
    ],
)
def test_a_title_is_not_said_twice(error: ChapterError, bold: str, lead: str) -> None:
    [message] = all_of(render_to_string("_refusal.html", {"error": error}), "p")
    assert message.words == f"{bold}{error}"
    html = render_to_string("refusal.html", {"error": error, "back": "/"})
    assert [one.words for one in all_of(html, "p", "lead")] == [lead]


def test_a_missing_chapter_leads_to_the_list(client: Client, draft: Session) -> None:
    gone = address(draft, "play")
    draft.delete()
    response = client.get(gone)
    assert response.status_code == 404
    assert "may have been reset or deleted" in response.content.decode()


def test_what_helps_by_waiting_says_how_long(
    client: Client, chapter: Session, settings: Settings
) -> None:
    Session.objects.update(state=State.ENDED)
    settings.CALLS_PER_MINUTE = 0
    response = client.post(address(chapter, "build"))
    assert response.status_code == 429
    assert response["Retry-After"] == "60"
    assert "Retry-After" not in client.post(address(chapter, "cancel")).headers


def test_an_unknown_address_is_answered_in_the_same_style(client: Client) -> None:
    response = client.get("/nothing/here")
    assert response.status_code == 404
    assert "Nothing here" in response.content.decode()


def test_a_form_without_its_token_is_refused_in_the_same_style(chapter: Session) -> None:
    response = Client(enforce_csrf_checks=True).post(address(chapter, "reset"))
    assert response.status_code == 403
    assert NOTHING_CHANGED in response.content.decode()
    assert Session.objects.filter(pk=chapter.pk).exists()


def test_an_error_of_the_program_is_answered_in_the_same_style(
    chapter: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("storyengine.tabs.play.play_tab.read_play", fail)
    response = Client(raise_request_exception=False).get(address(chapter, "play"))
    assert response.status_code == 500
    html = response.content.decode()
    assert "That went wrong" in html
    assert "secret detail" not in html
