from django.contrib import admin
from django.db import models
from django.http import HttpRequest

from agents.models import EmbeddedServer, Job, LLMArtifact, ProviderConsent, TokenCalibration
from sessions.records_admin import RecordAdmin


@admin.register(LLMArtifact)
class LLMArtifactAdmin(RecordAdmin):
    list_display = [
        "__str__",
        "chapter",
        "succeeded",
        "first_token_ms",
        "duration_ms",
        "created_at",
    ]
    list_filter = ["agent_id", "provider", "model", "created_at"]
    list_select_related = ["session"]
    search_fields = [
        "session__title",
        "session__session_id",
        "model",
        "input_hash",
        "raw_input_ref",
        "raw_output_ref",
        "error",
    ]
    heavy_fields = ("raw_input_ref", "raw_output_ref", "layers")

    @admin.display(boolean=True, description="succeeded", ordering="error")
    def succeeded(self, artifact: LLMArtifact) -> bool:
        return not artifact.error


@admin.register(Job)
class JobAdmin(RecordAdmin):
    list_display = ["__str__", "chapter", "attempts", "created_at", "updated_at"]
    list_filter = ["kind", "status", "created_at"]
    list_select_related = ["session"]
    search_fields = ["session__title", "session__session_id", "key", "error"]
    heavy_fields = ("partial_text", "finished_scenes", "inputs")


@admin.register(ProviderConsent)
class ProviderConsentAdmin(RecordAdmin):
    list_display = ["host", "granted_at"]
    search_fields = ["host"]

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Deleting it withdraws the consent."""
        return True


@admin.register(EmbeddedServer)
class EmbeddedServerAdmin(RecordAdmin):
    list_display = ["name", "model", "phase", "base_url", "alive_at"]
    search_fields = ["model", "message"]


@admin.register(TokenCalibration)
class TokenCalibrationAdmin(RecordAdmin):
    list_display = ["model", "weight", "tokens"]
    search_fields = ["model"]
