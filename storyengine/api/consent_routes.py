"""The hosts that may receive texts of stories."""

from django.http import HttpRequest
from ninja import Router

from agents.calling.consent import grant, withdraw
from sessions.language.text import clean_line
from storyengine.api.bodies import ConsentBody
from storyengine.api.document_reading import read_consent
from storyengine.api.documents import ConsentDocument
from storyengine.api.problems import refusals

router = Router(tags=["Consent"])

# The longest host name that the DNS allows, in characters.
HOST_CHAR_LIMIT = 253


@router.get("/consent", response={200: ConsentDocument, **refusals()})
def get_consent(request: HttpRequest) -> ConsentDocument:
    """Return the host that would receive texts from the program, and all hosts that are allowed."""
    return read_consent()


@router.post("/consent", response={200: ConsentDocument, **refusals(400, 403, 413, 415, 422)})
def put_consent(request: HttpRequest, body: ConsentBody) -> ConsentDocument:
    """Allow the host that the program is configured for, or withdraw the consent to a host."""
    host = clean_line(body.host, limit=HOST_CHAR_LIMIT, label="The host")
    if body.allowed:
        grant(host)
    else:
        withdraw(host)
    return read_consent()
