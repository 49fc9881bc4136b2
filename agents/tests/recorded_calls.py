"""Stores records of calls, as if a chapter had made the calls."""

from agents.calling.spending import add_to_spending
from agents.models import LLMArtifact
from sessions.models import Session


def add_call(
    chapter: Session,
    model: str = "nobody-knows",
    *,
    provider: str = "openai",
    estimated: tuple[int, int] = (0, 0),
    **tokens: int,
) -> LLMArtifact:
    """Store a call with these reported tokens (`input`, `output`, `cached`), and add them to the
    chapter's spending. `estimated` are the tokens read and written of a call without a report."""
    call = LLMArtifact.objects.create(
        session=chapter,
        agent="narrator",
        agent_id=9,
        provider=provider,
        model=model,
        input_hash="-",
        token_counts=tokens,
        estimated_input=estimated[0],
        estimated_output=estimated[1],
    )
    add_to_spending(call)
    return call
