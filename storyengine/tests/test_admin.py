"""Tests that the admin pages show every record and change none."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import models
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from agents.calling.records.stored_prompts import pack_layers, store_texts
from agents.models import (
    AdmittedCall,
    EmbeddedServer,
    Job,
    LLMArtifact,
    ModelChoice,
    ModelServer,
    ModelTest,
    ProcessHeartbeat,
    PromptText,
    ProviderConsent,
    RefusedField,
    ReportedWindow,
    SpendingCap,
    SpentTokens,
    SweepLease,
    TokenCalibration,
)
from agents.prompting.sent_layers import SentLayer
from memory.models import DraftChoice, MemoryBlock, NarrativeDraft, WorkingCopy
from sessions.chapter.stories import hide_chapter
from sessions.models import Attempt, Event, Session, Story, Tab1Inputs, Turn
from sessions.play.played_world import NewChange
from sessions.tests.factories import act, add_attempt, add_prompts, make_active_chapter

MODELS = [
    model
    for label in ("story_sessions", "memory", "agents")
    for model in apps.get_app_config(label).get_models()
]
HOSTILE = "<script>alert('no')</script>"

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    """Return a chapter with a record for every page of the admin."""
    chapter = make_active_chapter(title=f"The Dark Lamp {HOSTILE}")
    add_records(chapter)
    ProviderConsent.objects.create(host="llm.example")
    EmbeddedServer.objects.create(phase="ready", model="smollm2-135m")
    TokenCalibration.objects.create(model="smollm2-135m", agent="character")
    ProcessHeartbeat.objects.create(name="celery@story")
    SpendingCap.objects.create(tokens=7)
    ModelTest.objects.create(session=chapter, agent="memory", provider="p", model="m")
    AdmittedCall.objects.create(session_id=chapter.pk)
    ReportedWindow.objects.create(server="http://127.0.0.1/v1", model="m", tokens=4_096)
    RefusedField.objects.create(server="http://127.0.0.1/v1", model="m", field="top_p")
    return chapter


def add_records(chapter: Session, number: int = 1) -> None:
    add_prompts(chapter, number, reply=f"The lantern swings {HOSTILE}")
    act(chapter.pk, [NewChange("note", {"text": HOSTILE}, cause=HOSTILE)])
    for index in range(number):
        at = chapter.prompt_index + index
        payload = {"established_facts": ["The lantern is lit"], "note": HOSTILE}
        MemoryBlock.objects.create(
            session=chapter,
            type="turn_delta",
            from_prompt_index=at,
            to_prompt_index=at,
            json_payload=payload,
        )
        draft = NarrativeDraft.objects.create(
            session=chapter,
            target_words=500,
            source_snapshot={},
            chapter_text="The lantern swings.",
        )
        fields = {"title": "Mine", "address": "http://[::1]/v1"}
        server, _ = ModelServer.objects.get_or_create(name="mine", defaults=fields)
        ModelChoice.objects.get_or_create(
            agent="AGENT_9", defaults={"server": server, "model": "m"}
        )
        WorkingCopy.objects.create(draft=draft, session=chapter, text=HOSTILE)
        DraftChoice.objects.update_or_create(session=chapter, defaults={"draft": draft})
        words = SentLayer("", ("Light the lantern",), has_heading=False)
        layers, texts = pack_layers(chapter.pk, [words])
        store_texts(texts)
        LLMArtifact.objects.create(
            session=chapter,
            agent_id=1,
            provider="scripted",
            model="m",
            layers=layers,
            raw_output_ref="It swings.",
        )
        SweepLease.objects.get_or_create(
            defaults={"holder": "celery@here", "lease_until": chapter.created_at}
        )
        SpentTokens.objects.create(session=chapter, provider="scripted", model=f"m{at}")
        Job.objects.create(session=chapter, kind="summarize", key=str(at), error="lantern")
        lapsed = {"words": "lantern", "lease_until": chapter.created_at}
        add_attempt(chapter, submission_key=str(at), **lapsed)


def address(model: type[models.Model], page: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def test_every_model_is_there() -> None:
    assert [model for model in MODELS if not admin.site.is_registered(model)] == []


def test_the_records_of_a_deleted_chapter_lead_to_it(client: Client, chapter: Session) -> None:
    hide_chapter(chapter.pk)
    of_chapter = address(Session, "change", chapter.pk)
    event = Event.objects.filter(session=chapter).first()
    assert event is not None
    assert of_chapter in client.get(address(Event, "change", event.pk)).content.decode()
    assert client.get(of_chapter).status_code == 200
    assert of_chapter in client.get(address(Session, "changelist")).content.decode()
    story = client.get(address(Story, "change", chapter.story_id)).content.decode()
    assert "Chapters</a>: 1" in story


def test_accounts_are_not_managed_here(client: Client) -> None:
    assert "/admin/auth/" not in client.get("/admin/").content.decode()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
class TestEveryModel:
    def test_its_list_and_its_records_can_be_read(
        self, client: Client, chapter: Session, model: type[models.Model]
    ) -> None:
        record = model._default_manager.first()
        assert record is not None
        for url in (address(model, "changelist"), address(model, "change", record.pk)):
            response = client.get(url)
            assert response.status_code == 200
            assert HOSTILE not in response.content.decode()

    def test_it_can_be_searched(
        self, client: Client, chapter: Session, model: type[models.Model]
    ) -> None:
        response = client.get(address(model, "changelist"), {"q": "no such thing at all"})
        assert response.status_code == 200
        assert response.context["cl"].result_count == 0

    def test_nothing_can_be_added_or_changed(
        self, client: Client, chapter: Session, model: type[models.Model]
    ) -> None:
        record = model._default_manager.first()
        assert record is not None
        assert client.get(address(model, "add")).status_code == 403
        assert client.post(address(model, "change", record.pk), {"title": "x"}).status_code == 403

    def test_only_a_consent_can_be_deleted(
        self, client: Client, chapter: Session, model: type[models.Model]
    ) -> None:
        record = model._default_manager.first()
        assert record is not None
        client.post(address(model, "delete", record.pk), {"post": "yes"})
        is_gone = not model._default_manager.filter(pk=record.pk).exists()
        assert is_gone == (model is ProviderConsent)

    def test_the_number_of_queries_does_not_grow(
        self,
        client: Client,
        chapter: Session,
        model: type[models.Model],
        django_assert_max_num_queries: DjangoAssertNumQueries,
    ) -> None:
        for _ in range(3):
            add_records(make_active_chapter(), number=5)
        # The first visit makes the admin's account. This visit comes before the queries are
        # counted, so that only the queries of the page count.
        client.get("/admin/")
        with django_assert_max_num_queries(8):
            client.get(address(model, "changelist"))


def test_the_calls_that_sent_a_text_are_found_by_its_hash(client: Client, chapter: Session) -> None:
    words = PromptText.objects.get(text__contains="lantern")
    for query, count in ((words.hash, 1), ("no-such-hash", 0)):
        response = client.get(address(LLMArtifact, "changelist"), {"q": query})
        assert response.context["cl"].result_count == count
    page = client.get(address(LLMArtifact, "change", LLMArtifact.objects.get().pk))
    assert "[user]\nLight the lantern" in page.content.decode()


@pytest.mark.parametrize("model", [Event, MemoryBlock, NarrativeDraft, PromptText, Job, Attempt])
def test_text_is_found(client: Client, chapter: Session, model: type[models.Model]) -> None:
    response = client.get(address(model, "changelist"), {"q": "lantern"})
    assert response.context["cl"].result_count == 1


@pytest.mark.parametrize("query", ["Dark Lamp", "harbour town"])
def test_a_chapter_is_found_by_title_and_setup(
    client: Client, chapter: Session, query: str
) -> None:
    response = client.get(address(Session, "changelist"), {"q": query})
    assert response.context["cl"].result_count == 1


def test_a_chapter_leads_to_its_own_records(
    client: Client, chapter: Session, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    add_records(make_active_chapter(), number=3)
    with django_assert_max_num_queries(22):
        page = client.get(address(Session, "change", chapter.pk)).content.decode()
    records = (Event, Attempt, Turn, MemoryBlock, NarrativeDraft, LLMArtifact, Job, Tab1Inputs)
    for model in records:
        link = f"{address(model, 'changelist')}?session__exact={chapter.pk}"
        assert link in page
        listed = client.get(link)
        assert (
            listed.context["cl"].result_count
            == model._default_manager.filter(session=chapter).count()
        )


class TestModelCalls:
    @pytest.fixture
    def artifacts(self) -> list[LLMArtifact]:
        counts = {"input": 100, "output": 20, "cached": 60}
        chapters = [make_active_chapter(), make_active_chapter()]
        fields: list[dict[str, Any]] = [
            {"agent_id": 1, "model": "m", "raw_output_ref": "Yes.", "token_counts": counts},
            {"agent_id": 2, "model": "m", "raw_output_ref": "Yes.", "token_counts": counts},
            {"agent_id": 2, "model": "n", "error": "No line."},
            {"agent_id": 3, "model": "n"},
        ]
        return [
            LLMArtifact.objects.create(session=chapters[at % 2], provider="scripted", **one)
            for at, one in enumerate(fields)
        ]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({}, {0, 1, 2, 3}),
            ({"outcome": "finished"}, {0, 1}),
            ({"outcome": "failed"}, {2}),
            ({"outcome": "warm-up"}, {3}),
            ({"agent_id": "2"}, {1, 2}),
            ({"model": "n", "outcome": "stopped"}, set()),
        ],
    )
    def test_they_are_filtered_and_what_is_left_is_summed(
        self,
        client: Client,
        artifacts: list[LLMArtifact],
        query: dict[str, str],
        expected: set[int],
    ) -> None:
        response = client.get(address(LLMArtifact, "changelist"), query)
        listed = {artifacts.index(one) for one in response.context["cl"].result_list}
        assert listed == expected
        usage = response.context["usage"]
        assert usage.calls == len(expected)
        assert usage.input_tokens == 100 * len(expected & {0, 1})
