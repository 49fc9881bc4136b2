from django.http import HttpRequest
from ninja import Router

router = Router(tags=["Harbour"])


@router.get("/tide", response=int)
def get_tide(request: HttpRequest) -> int:
    """Return the height of the water."""
    return 3
