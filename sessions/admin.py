from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from sessions.models import (
    Attempt,
    CastMember,
    Change,
    Event,
    EventTerms,
    Session,
    Story,
    Tab1Inputs,
    Turn,
)
from sessions.records_admin import RecordAdmin, related_records


@admin.register(Story)
class StoryAdmin(RecordAdmin):
    list_display = ["__str__", "created_at", "archived_at"]
    list_filter = ["created_at", "archived_at"]
    search_fields = ["title", "story_id", "chapters__title"]

    def get_fields(self, request: Any, obj: Any = None) -> list[Any]:
        return ["story_id", self.records, *super().get_fields(request, obj)[1:]]

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[Any]:
        return ["story_id", *super().get_readonly_fields(request, obj)]

    @admin.display(description="records of this story")
    def records(self, story: Story) -> SafeString:
        return related_records(story)


@admin.register(Session)
class ChapterAdmin(RecordAdmin):
    """Deleted chapters are among them as long as their records are."""

    list_display = [
        "title",
        "state",
        "prompt_index",
        "last_summarized_prompt_index",
        "last_played_at",
        "deleted_at",
    ]
    list_filter = ["state", "last_played_at", "deleted_at"]
    search_fields = ["title", "session_id", "tab1__world_text", "tab1__chapter_text"]
    heavy_fields = ("narrative_agent_definition_text",)

    def get_fields(self, request: Any, obj: Any = None) -> list[Any]:
        return ["session_id", self.records, *super().get_fields(request, obj)[1:]]

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[Any]:
        return ["session_id", *super().get_readonly_fields(request, obj)]

    @admin.display(description="records of this chapter")
    def records(self, chapter: Session) -> SafeString:
        return related_records(chapter)


@admin.register(Tab1Inputs)
class Tab1InputsAdmin(RecordAdmin):
    list_display = ["__str__", "chapter", "saved_at"]
    list_select_related = ["session"]
    search_fields = ["session__title", "world_text", "chapter_text"]
    heavy_fields = ("world_text", "chapter_text")


@admin.register(CastMember)
class CastMemberAdmin(RecordAdmin):
    list_display = ["__str__", "chapter", "slot", "is_selected"]
    list_filter = ["slot", "is_selected"]
    list_select_related = ["session"]
    search_fields = ["session__title", "session__session_id", "name"]
    heavy_fields = ("identity_text",)


@admin.register(Event)
class EventAdmin(RecordAdmin):
    list_display = ["__str__", "beginning", "chapter", "agent_slot", "created_at"]
    list_filter = ["role", "kind", "agent_slot", "created_at"]
    list_select_related = ["session"]
    search_fields = ["session__title", "session__session_id", "text"]

    @admin.display(description="text")
    def beginning(self, event: Event) -> str:
        return Truncator(event.text).chars(80)


@admin.register(EventTerms)
class EventTermsAdmin(RecordAdmin):
    list_display = ["__str__", "of_event"]
    list_filter = ["language"]
    list_select_related = ["event"]
    search_fields = ["event__session__title", "event__session__session_id", "event__text"]
    heavy_fields = ("counts",)

    @admin.display(description="event")
    def of_event(self, terms: EventTerms) -> str:
        return Truncator(terms.event.text).chars(80)


@admin.register(Change)
class ChangeAdmin(RecordAdmin):
    list_display = ["__str__", "chapter", "attempt", "position", "created_at"]
    list_filter = ["kind", "created_at"]
    list_select_related = ["session", "attempt"]
    search_fields = ["session__title", "session__session_id", "kind", "cause"]


@admin.register(Turn)
class TurnAdmin(RecordAdmin):
    list_display = ["__str__", "chapter", "chosen"]
    list_select_related = ["session", "chosen"]
    search_fields = ["session__title", "session__session_id"]


@admin.register(Attempt)
class AttemptAdmin(RecordAdmin):
    list_display = ["__str__", "chapter", "turn", "submitted_at"]
    list_filter = ["status", "kind", "submitted_at"]
    list_select_related = ["session", "turn"]
    search_fields = ["session__title", "session__session_id", "words", "error"]
    heavy_fields = ("words", "partial_text", "given", "kept_setup", "changed_layer")
