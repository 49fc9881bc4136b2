import pytest
from django.test import Client

from sessions.models import Session
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


def test_a_missing_chapter_leads_to_the_list(client: Client, draft: Session) -> None:
    gone = address(draft, "play")
    draft.delete()
    response = client.get(gone)
    assert response.status_code == 404
    assert "may have been reset or deleted" in response.content.decode()


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
