from django.conf import settings
from django.http import HttpRequest


def account(request: HttpRequest) -> dict[str, bool]:
    """Tell templates whether there is a login. Only then can the user log out."""
    return {"can_log_out": bool(settings.PASSWORD)}
