from django.conf import settings
from django.http import HttpRequest


def account(request: HttpRequest) -> dict[str, bool]:
    """Tell templates whether the program has a login. They show the button for logging out only
    then."""
    return {"can_log_out": bool(settings.PASSWORD)}
