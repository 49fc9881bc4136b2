"""Pages of Django's admin that show records and change nothing.

The rows of a chapter may be changed only by functions that check the chapter's rules. A form of the
admin would not check these rules. Each app registers its models with RecordAdmin or a subclass.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[models.Model]
else:
    _ModelAdmin = admin.ModelAdmin


_LONG = (models.TextField, models.JSONField)


class RecordAdmin(_ModelAdmin):
    # The fields of text or JSON that the columns of a list read. A list loads no others of them.
    read_in_lists: tuple[str, ...] = ()
    list_per_page = 50

    class Media:
        css = {"all": ["css/records.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[models.Model]:
        # The default manager of chapters leaves out deleted chapters.
        records = self.model._base_manager.all()
        match = request.resolver_match
        is_list = match is not None and (match.url_name or "").endswith("_changelist")
        if not is_list:
            return records
        long = (one.name for one in self.opts.fields if isinstance(one, _LONG))
        return records.defer(*{*long}.difference(self.list_display, self.read_in_lists))

    def get_list_select_related(self, request: HttpRequest) -> list[str]:
        shown = {*self.list_display, *(["session"] if "chapter" in self.list_display else [])}
        return [one.name for one in self.opts.fields if one.is_relation and one.name in shown]

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        of_chapter = ["session__title", "session__session_id"]
        return [*self.search_fields, *(of_chapter if "chapter" in self.list_display else [])]

    def get_fields(self, request: HttpRequest, obj: models.Model | None = None) -> list[Any]:
        return [_shown(field) for field in self.opts.fields]

    def get_readonly_fields(
        self, request: HttpRequest, obj: models.Model | None = None
    ) -> list[Any]:
        return [field for field in self.get_fields(request, obj) if callable(field)]

    @admin.display(description="chapter", ordering="session__title")
    def chapter(self, record: Any) -> SafeString:
        """Return a link to the record's chapter."""
        return _link("admin:story_sessions_session_change", record.session)


def show_records(
    model: type[models.Model],
    columns: str,
    searched: str = "",
    *,
    filters: str = "",
) -> None:
    """Register the model with a page that shows its records. Each argument has names of fields,
    separated by spaces; see RecordAdmin."""
    admin.site.register(
        model,
        RecordAdmin,
        list_display=columns.split(),
        search_fields=searched.split(),
        list_filter=filters.split(),
    )


def related_records(record: models.Model) -> SafeString:
    """Return a list of links, one for each kind of record that belongs to this record. Each link
    shows how many records of its kind there are."""
    links = []
    for relation in record._meta.related_objects:
        related = relation.related_model
        if not admin.site.is_registered(related):
            continue
        count = related._base_manager.filter(**{relation.field.name: record}).count()
        label = capfirst(related._meta.verbose_name_plural)
        address = reverse(f"admin:{related._meta.app_label}_{related._meta.model_name}_changelist")
        query = f"{relation.field.name}__exact={record.pk}"
        links.append(
            format_html('<li><a href="{}?{}">{}</a>: {}</li>', address, query, label, count)
        )
    return format_html('<ul class="record">{}</ul>', SafeString("".join(links)))


def _shown(field: "models.Field[Any, Any]") -> str | Callable[[Any], Any]:
    if isinstance(field, models.JSONField):
        return _preformatted(field, _pretty)
    if isinstance(field, models.TextField):
        return _preformatted(field, str)
    if isinstance(field, models.ForeignKey) and field.name == "session":
        return _chapter_link(field)
    return field.name


def _preformatted(
    field: "models.Field[Any, Any]", to_text: Callable[[Any], str]
) -> Callable[[Any], SafeString]:
    @admin.display(description=field.verbose_name)
    def show(record: Any) -> SafeString:
        return preformatted(to_text(getattr(record, field.name)))

    return show


def preformatted(text: str) -> SafeString:
    return format_html('<pre class="record">{}</pre>', text)


def _chapter_link(field: "models.Field[Any, Any]") -> Callable[[Any], SafeString]:
    @admin.display(description="chapter")
    def show(record: Any) -> SafeString:
        return _link("admin:story_sessions_session_change", record.session)

    return show


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _link(url_name: str, record: models.Model) -> SafeString:
    return format_html('<a href="{}">{}</a>', reverse(url_name, args=[record.pk]), record)
