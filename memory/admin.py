from django.contrib import admin

from memory.models import DraftChoice, MemoryBlock, NarrativeDraft, WorkingCopy
from sessions.records_admin import RecordAdmin


@admin.register(MemoryBlock)
class MemoryBlockAdmin(RecordAdmin):
    list_display = ["__str__", "chapter", "created_at"]
    list_filter = ["type", "created_at"]
    list_select_related = ["session"]
    search_fields = ["session__title", "session__session_id", "json_payload"]
    heavy_fields = ("json_payload",)


@admin.register(NarrativeDraft)
class NarrativeDraftAdmin(RecordAdmin):
    list_display = ["__str__", "chapter", "target_words", "created_at"]
    list_filter = ["created_at"]
    list_select_related = ["session"]
    search_fields = ["session__title", "session__session_id", "chapter_text"]
    heavy_fields = ("chapter_text", "narrative_agent_definition_text", "source_snapshot")


@admin.register(WorkingCopy)
class WorkingCopyAdmin(RecordAdmin):
    list_display = ["__str__", "chapter", "saved_at"]
    list_filter = ["saved_at"]
    list_select_related = ["session"]
    search_fields = ["session__title", "session__session_id", "text"]
    heavy_fields = ("text",)


@admin.register(DraftChoice)
class DraftChoiceAdmin(RecordAdmin):
    list_display = ["__str__", "chapter", "draft", "chosen_at"]
    list_select_related = ["session", "draft"]
    search_fields = ["session__title", "session__session_id"]
