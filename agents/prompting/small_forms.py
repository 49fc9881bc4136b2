"""The form of an agent's requests if its model is the embedded one.

A model as small as this copies parts of a long request, speaks for everybody and loses the thread.
It writes far better from one plain question after a few examples of other stories, with a grammar
that fixes the shape of the answer. The form is the fourth tier of requests; no other model gets it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agents.prompting.layers import Piece, Tier
from agents.prompting.sandwich import LayerDeclaration, Source, Subject
from agents.prompting.sent_layers import Role
from sessions.models import Attempt, Session

# How the model writes, by llama.cpp's names. The penalty for repeated words is off, because it
# would forbid a grammar's own quotation marks.
TEMPERATURE, TOP_P = 0.7, 0.95
SAMPLING: Mapping[str, float] = MappingProxyType(
    {
        "top_k": 60,
        "min_p": 0.05,
        "repeat_penalty": 1.0,
        "dry_multiplier": 0.8,
        "dry_allowed_length": 4,
    }
)


def for_each_chapter(_chapter: Session) -> bool:
    return True


def no_grammar(_attempt: Attempt) -> str:
    return ""


def no_faults(_attempt: Attempt, _text: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class SmallForm:
    """The layers and limits of an agent's request to the embedded model. It has no tools.

    `layers` usually are a system text, examples (see `examples`) and one message of the user.
    `grammar` returns the grammar (GBNF) of the answer to an attempt, or "" for none. `faults` says
    what is wrong with an answer, in words that follow "The first answer". A model is asked anew,
    one try after the other, until an answer has no fault, and at most `most_tries` times; the
    answer with the fewest faults is taken. `hears` is one sentence for the page of play. It says
    how much of the story is in the model's requests. Chapters that the form does not suit, such as
    those in another language, get the usual request.
    """

    layers: tuple[LayerDeclaration, ...]
    output_tokens: int
    grammar: Callable[[Attempt], str] = no_grammar
    faults: Callable[[Attempt, str], Sequence[str]] = no_faults
    most_tries: int = 2
    temperature: float = TEMPERATURE
    hears: str = ""
    suits: Callable[[Session], bool] = for_each_chapter


def plain(name: str, source: Source, role: Role = "user") -> LayerDeclaration:
    """Return a layer without a heading, because the message is to look like one plain question."""
    return LayerDeclaration(name, source, role=role, has_heading=False)


def examples(*pairs: tuple[str, str]) -> tuple[LayerDeclaration, ...]:
    """Return the layers of example exchanges, each a question and its answer."""
    layers: list[LayerDeclaration] = []
    for question, answer in pairs:
        layers.append(plain("EXAMPLE", _text(question)))
        layers.append(plain("EXAMPLE_ANSWER", _text(answer), "assistant"))
    return tuple(layers)


def _text(text: str) -> Source:
    piece = Piece(text)

    def read(_subject: Subject, _tier: Tier) -> list[Piece]:
        return [piece]

    return read
