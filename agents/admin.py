from typing import Any

from django.contrib import admin
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString

from agents.calling.records.call_records import OUTCOME, Outcome
from agents.calling.records.stored_prompts import read_messages
from agents.calling.records.usage import usage_of
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
from sessions.records_admin import RecordAdmin, preformatted, show_records


class OutcomeFilter(admin.SimpleListFilter):
    title = parameter_name = "outcome"

    def lookups(
        self, request: HttpRequest, model_admin: "admin.ModelAdmin[Any]"
    ) -> list[tuple[str, str]]:
        return [(outcome.value, outcome.value) for outcome in Outcome]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(outcome=self.value()) if self.value() else queryset


@admin.register(LLMArtifact)
class LLMArtifactAdmin(RecordAdmin):
    list_display = [
        "__str__",
        "chapter",
        "outcome",
        "tokens",
        "first_token_ms",
        "duration_ms",
        "created_at",
    ]
    list_filter = [
        OutcomeFilter,
        "agent_id",
        "model",
        ("session", admin.RelatedOnlyFieldListFilter),
        "created_at",
    ]
    search_fields = [
        "provider",
        "model",
        "input_hash",
        # The field has the hashes of the request's texts. So a search for the hash of a text finds
        # the calls that sent this text.
        "layers",
        "raw_output_ref",
        "error",
        "server_said",
    ]
    read_in_lists = ("token_counts",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        calls: QuerySet[Any] = super().get_queryset(request).annotate(outcome=OUTCOME)
        return calls

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list, with totals over the calls on all pages that fit the filter."""
        response = super().changelist_view(request, extra_context)
        context = response.context_data if isinstance(response, TemplateResponse) else None
        if context is not None and "cl" in context:
            context["usage"] = usage_of(context["cl"].queryset)
        return response

    def get_fields(self, request: HttpRequest, obj: models.Model | None = None) -> list[Any]:
        return [*super().get_fields(request, obj), self.messages]

    @admin.display(description="messages sent")
    def messages(self, artifact: LLMArtifact) -> SafeString:
        sent = read_messages(artifact)
        return preformatted("\n\n".join(f"[{one.role}]\n{one.content}" for one in sent))

    @admin.display(ordering="outcome")
    def outcome(self, artifact: Any) -> str:
        return str(artifact.outcome)

    @admin.display(description="tokens in, out")
    def tokens(self, artifact: LLMArtifact) -> str:
        counts = artifact.token_counts
        if "input" in counts:
            return f"{counts['input']:,}, {counts['output']:,}"
        if artifact.estimated_input or artifact.estimated_output:
            return f"about {artifact.estimated_input:,}, {artifact.estimated_output:,}"
        return "not reported"


@admin.register(ProviderConsent)
class ProviderConsentAdmin(RecordAdmin):
    list_display = ["host", "granted_at"]
    search_fields = ["host"]

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Allow the deletion of a consent, because deleting the row withdraws the consent."""
        return True


show_records(PromptText, "__str__ chapter", "hash text")
show_records(
    Job,
    "__str__ chapter attempts created_at updated_at",
    "key error",
    filters="kind status queue created_at",
)
show_records(ModelServer, "name title address is_removed", "name title address")
show_records(ModelChoice, "agent server builtin model", "agent model")
show_records(
    ModelTest, "tested_at agent provider model token_counts error server_said", "agent model"
)
show_records(SpentTokens, "session provider model read cached written", "model provider")
show_records(SweepLease, "holder lease_until", "holder")
show_records(SpendingCap, "dollars tokens", "name")
show_records(EmbeddedServer, "name model phase base_url alive_at", "model message")
show_records(AdmittedCall, "admitted_at session_id", "session_id")
show_records(ProcessHeartbeat, "name beat_at", "name")
show_records(TokenCalibration, "model agent weight tokens", "model")
show_records(ReportedWindow, "model server tokens is_ceiling asked_at", "model server")
show_records(RefusedField, "model server field refused_at", "model server field")
