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
from sessions.records_admin import RecordAdmin, related_records, show_records


class OwnerAdmin(RecordAdmin):
    """A page of a story or chapter, with links to the records that belong to it."""

    def get_fields(self, request: Any, obj: Any = None) -> list[Any]:
        @admin.display(description=f"records of this {self.opts.verbose_name}")
        def records(owner: Any) -> SafeString:
            return related_records(owner)

        return [self.opts.pk.name, records, *super().get_fields(request, obj)[1:]]

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[Any]:
        return [self.opts.pk.name, *super().get_readonly_fields(request, obj)]


@admin.register(Story)
class StoryAdmin(OwnerAdmin):
    list_display = ["__str__", "created_at", "archived_at"]
    list_filter = ["created_at", "archived_at"]
    search_fields = ["title", "story_id", "chapters__title"]


@admin.register(Session)
class ChapterAdmin(OwnerAdmin):
    """Deleted chapters are listed too, as long as their records exist."""

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


@admin.register(Event)
class EventAdmin(RecordAdmin):
    list_display = ["__str__", "beginning", "chapter", "agent_slot", "created_at"]
    list_filter = ["role", "kind", "agent_slot", "created_at"]
    search_fields = ["text"]
    read_in_lists = ("text",)

    @admin.display(description="text")
    def beginning(self, event: Event) -> str:
        return Truncator(event.text).chars(80)


@admin.register(EventTerms)
class EventTermsAdmin(RecordAdmin):
    list_display = ["__str__", "of_event"]
    list_filter = ["language"]
    search_fields = ["event__session__title", "event__session__session_id", "event__text"]

    def get_list_select_related(self, request: Any) -> list[str]:
        return ["event"]

    @admin.display(description="event")
    def of_event(self, terms: EventTerms) -> str:
        return Truncator(terms.event.text).chars(80)


show_records(
    Tab1Inputs,
    "__str__ chapter saved_at",
    "world_text chapter_text",
)
show_records(
    CastMember,
    "__str__ chapter slot is_selected",
    "name",
    filters="slot is_selected",
)
show_records(
    Change, "__str__ chapter attempt position created_at", "kind cause", filters="kind created_at"
)
show_records(Turn, "__str__ chapter chosen")
show_records(
    Attempt,
    "__str__ chapter turn submitted_at",
    "words error",
    filters="status kind submitted_at",
)
