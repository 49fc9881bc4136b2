from django.conf import settings
from django.http import HttpRequest


def account(request: HttpRequest) -> dict[str, bool]:
    """Tell templates whether the program has a login, because only then can the user log out."""
    return {"can_log_out": bool(settings.PASSWORD)}
