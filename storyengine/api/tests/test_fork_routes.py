import pytest

from sessions.chapter.chapters import delete_chapter
from sessions.models import Session, State
from storyengine.api.tests.calling import address, assert_problem, call
from storyengine.exchange.tests.chapters import make_whole_chapter

pytestmark = pytest.mark.django_db


def test_a_fork_opens_under_an_address_of_its_own() -> None:
    origin = make_whole_chapter()
    response = call("POST", address(origin, "fork"), {"number": 4})
    assert response.status_code == 201
    fork = Session.objects.exclude(pk=origin.pk).get()
    assert response.headers["Location"] == address(fork)
    document = response.json()
    assert document == call("GET", address(fork)).json()
    assert (document["state"], document["prompt_index"]) == ("ACTIVE", 4)
    assert [event["text"] for event in document["events"][::2]] == [
        f"Ночь 🌊 {number}" for number in range(1, 5)
    ]
    assert document["narrative_drafts"] == []
    assert document["pending_turn"] is None


def test_it_says_where_it_came_from_also_in_the_list() -> None:
    origin = make_whole_chapter()
    fork = call("POST", address(origin, "fork"), {"number": 4}).json()
    first = call("GET", "/api/session").json()["items"][0]
    for document in (fork, first):
        assert document["session_id"] == fork["session_id"]
        assert document["origin_id"] == str(origin.pk)
        assert (document["origin_title"], document["forked_at_prompt"]) == ("The Dark Lamp", 4)
    delete_chapter(origin.pk)
    left = call("GET", f"/api/session/{fork['session_id']}").json()
    assert (left["origin_id"], left["origin_title"]) == (None, "The Dark Lamp")
    assert left["forked_at_prompt"] == 4


def test_one_that_is_being_stored_is_asked_for_again() -> None:
    origin = make_whole_chapter()
    path, key = address(origin, "fork"), {"Idempotency_Key": "one"}
    call("POST", path, {"number": 4}, **key)
    Session.objects.exclude(pk=origin.pk).update(state=State.IMPORTING)
    response = call("POST", path, {"number": 4}, **key)
    assert_problem(response, 409, "fork-under-way")
    assert response.headers["Retry-After"] == "2"


@pytest.mark.parametrize("number", [0, 11, 10**30])
def test_a_number_that_is_not_this_chapters_is_404(number: int) -> None:
    path = address(make_whole_chapter(), "fork")
    assert_problem(call("POST", path, {"number": number}), 404, "unknown-turn")
    assert Session.objects.count() == 1
