"""Refusals in the form of RFC 9457."""

from django.http import JsonResponse


def problem(status: int, title: str, detail: str) -> JsonResponse:
    return JsonResponse(
        {"type": "about:blank", "title": title, "status": status, "detail": detail},
        status=status,
        content_type="application/problem+json",
    )
