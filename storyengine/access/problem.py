"""Refusals in the form of RFC 9457."""

from django.http import JsonResponse


def problem(
    status: int, title: str, detail: str, *, kind: str = "", instance: str = ""
) -> JsonResponse:
    """Return a refusal as a problem. Without a `kind`, its type is "about:blank", which means that
    the problem says no more than its status."""
    content = {
        "type": f"urn:storyengine:{kind}" if kind else "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
    }
    if instance:
        content["instance"] = instance
    return JsonResponse(content, status=status, content_type="application/problem+json")
