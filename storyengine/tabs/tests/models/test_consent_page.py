import pytest
from django.test import Client

from agents.calling.consent import grant, is_allowed
from agents.exceptions import ConsentMissing
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, ProviderConsent
from sessions.models import Attempt, Session
from sessions.tests.factories import add_attempt
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, read

pytestmark = pytest.mark.django_db

HOST = "models.example.com"


@pytest.fixture
def foreign(provider: ScriptedProvider) -> ScriptedProvider:
    provider.host = HOST
    return provider


class TestConsent:
    def test_it_names_the_host(self, client: Client, foreign: ScriptedProvider) -> None:
        html = client.get("/consent/").content.decode()
        assert [one.words for one in all_of(html, "p", "host")] == [HOST]
        assert "Nothing has been sent" in html

    def test_it_can_be_given_and_withdrawn(self, client: Client, foreign: ScriptedProvider) -> None:
        client.post("/consent/allow", {"host": HOST})
        assert is_allowed(HOST)
        assert "Withdraw the permission" in client.get("/consent/").content.decode()
        client.post("/consent/withdraw", {"host": HOST})
        assert not is_allowed(HOST)

    def test_only_the_configured_host_can_be_allowed(
        self, client: Client, foreign: ScriptedProvider
    ) -> None:
        response = client.post("/consent/allow", {"host": "<i>elsewhere</i>"})
        assert response.status_code == 422
        assert "<i>" not in response.content.decode()
        assert not ProviderConsent.objects.exists()

    def test_an_address_cannot_make_it_lead_elsewhere(
        self, client: Client, foreign: ScriptedProvider
    ) -> None:
        response = client.get("/consent/", {"chapter": "https://evil.example/"})
        assert "evil.example" not in response.content.decode()

    def test_tab_2_leads_there_while_nothing_can_be_answered(
        self, client: Client, chapter: Session, foreign: ScriptedProvider
    ) -> None:
        def links() -> set[str]:
            html = client.get(address(chapter, "play")).content.decode()
            return {one.attributes["href"] for one in all_of(html, "a")}

        there = f"/consent/?chapter={chapter.pk}"
        assert there in links()
        grant(HOST)
        assert there not in links()

    def test_what_was_refused_leads_there_and_cannot_be_retried_before(
        self, client: Client, chapter: Session, draft: Session, foreign: ScriptedProvider
    ) -> None:
        refusal = str(ConsentMissing(HOST))
        add_attempt(chapter, status=Attempt.Status.FAILED, error=refusal)
        draft.jobs.create(kind=Job.Kind.LOCK, key="lock", status=Job.Status.FAILED, error=refusal)

        def offered(one: Session, page: str, box: str) -> list[str]:
            html = client.get(address(one, page)).content.decode()
            inside = [one for one in read(html) if any(up.has_class(box) for up in one.parents)]
            return [one.words for one in inside if one.tag == "button" or one.has_class("button")]

        leads = "See what would be sent"
        for is_granted in (False, True):
            first = "Retry" if is_granted else leads
            assert offered(chapter, "play", "broken")[0] == first
            assert offered(draft, "world", "message-error") == [first]
            assert "Retry" not in offered(chapter, "play", "broken") or is_granted
            grant(HOST)
