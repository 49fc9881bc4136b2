from django.conf import settings
from django.http import HttpRequest


def account(request: HttpRequest) -> dict[str, bool]:
    """Whether there is a login to end."""
    return {"can_log_out": bool(settings.PASSWORD)}
