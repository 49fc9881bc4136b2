"""Template filters that format numbers and times."""

from datetime import datetime, timedelta
from decimal import Decimal

from django import template
from django.utils import timezone
from django.utils.timesince import timesince

register = template.Library()


@register.filter
def thousands(value: int) -> str:
    """Format a number with commas: 12480 becomes 12,480."""
    return f"{value:,}"


@register.filter
def compact(value: int) -> str:
    """Shorten a number: 31200 becomes 31k."""
    if value < 1_000:
        return str(value)
    if value < 10_000:
        return f"{value / 1_000:.1f}k".replace(".0k", "k")
    return f"{value / 1_000:.0f}k" if value < 1_000_000 else f"{value / 1_000_000:.1f}M"


@register.filter
def dollars(value: Decimal) -> str:
    """Format an amount of dollars: 0.1234 becomes $0.12. A positive amount below a cent becomes
    "under $0.01"."""
    return f"${value:,.2f}" if value >= Decimal("0.01") or not value else "under $0.01"


@register.filter
def plural(value: int, forms: str) -> str:
    """Format a number with its noun. With `plural:"prompt,prompts"`, 2 becomes "2 prompts"."""
    one, many = forms.split(",")
    return f"{value:,} {one if value == 1 else many}"


@register.filter
def seconds_since(moment: datetime) -> int:
    """Return the number of whole seconds since a moment, or 0 if the moment is in the future."""
    return max(0, int((timezone.now() - moment).total_seconds()))


@register.filter
def about_time(seconds: int) -> str:
    """Format a number of seconds as an estimate: "a few seconds", "40 seconds" or "12 minutes"."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 95:
        return f"{round(seconds, -1)} seconds"
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 95 else f"{round(minutes / 60)} hours"


@register.filter
def ago(moment: datetime) -> str:
    """Format the time since a moment, such as "just now" or "3 hours ago"."""
    if timezone.now() - moment < timedelta(minutes=1):
        return "just now"
    return f"{timesince(moment, depth=1)} ago"


@register.filter
def as_seconds(milliseconds: int) -> str:
    """Format milliseconds as seconds: 850 becomes 0.85 s, and 12345 becomes 12.3 s."""
    seconds = milliseconds / 1_000
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.1f} s"
