"""The context windows that servers reported for their models. They are stored in the database, by
the server's address, so that the web process and the worker have the same reports."""

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone

from agents.llm.providers.windows import WindowReport, address_of
from agents.models import ReportedWindow

# A process reads a model's report from the database at most once in this many seconds, so that not
# every request needs a query.
_HELD_SECONDS = 10.0
_held: dict[tuple[str, str], tuple[float, WindowReport | None]] = {}


def read_report(address: str, model: str) -> WindowReport | None:
    """Return the server's report on the model.

    Returns None if the server reported nothing about the model, or was not asked about it.
    """
    key = (address, model)
    held_until, report = _held.get(key, (0.0, None))
    if time.monotonic() >= held_until:
        report = _report_of(_rows(address).filter(model=_name(model)).first())
        _held[key] = (time.monotonic() + _HELD_SECONDS, report)
    return report


def store_reports(address: str, reports: Mapping[str, WindowReport | None]) -> None:
    """Store the server's reports.

    A server may have reported the actual window of a model earlier, and report now only the model's
    limit. Then the smaller of the two numbers is stored.
    """
    for model, report in reports.items():
        kept = _report_of(_rows(address).filter(model=_name(model)).first())
        if report and report.is_ceiling and kept and not kept.is_ceiling:
            kept = WindowReport(min(kept.tokens, report.tokens))
        else:
            kept = report
        ReportedWindow.objects.update_or_create(
            server=_server(address),
            model=_name(model),
            defaults={
                "tokens": kept.tokens if kept else None,
                "is_ceiling": kept is not None and kept.is_ceiling,
                "asked_at": timezone.now(),
            },
        )
        _held.pop((address, model), None)


def models_to_ask_about(
    address: str, models: Iterable[str], *, after: timedelta, after_ceiling: timedelta
) -> list[str]:
    """Return the models that the server was never asked about, or was last asked about longer ago
    than `after`.

    If the server reported only the limit of a model, `after_ceiling` is used for this model
    instead.
    """
    now = timezone.now()
    asked = {
        row.model: now - row.asked_at < (after_ceiling if row.is_ceiling else after)
        for row in _rows(address)
    }
    return [model for model in models if not asked.get(_name(model))]


def _rows(address: str) -> "QuerySet[ReportedWindow]":
    return ReportedWindow.objects.filter(server=_server(address))


def _server(address: str) -> str:
    return address_of(address)[: ReportedWindow.LONGEST]


def _name(model: str) -> str:
    return model[: ReportedWindow.LONGEST]


def _report_of(row: ReportedWindow | None) -> WindowReport | None:
    return None if row is None or row.tokens is None else WindowReport(row.tokens, row.is_ceiling)
