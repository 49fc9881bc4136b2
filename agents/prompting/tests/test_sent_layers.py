from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.prompting.fitting import assemble
from agents.prompting.layers import Layer, Piece, Trim, keep_last, text_layer
from agents.prompting.sent_layers import SentLayer, join_layers


def sent(layers: list[Layer], budget: int = 100_000) -> tuple[SentLayer, ...]:
    return assemble(layers, budget_tokens=budget, weight_per_token=3.0).layers


def a_prompt(context: int = 3) -> list[Layer]:
    return [
        text_layer("SYSTEM", "Be her.", role="system", has_heading=False),
        text_layer("AGENT_IDENTITY", "A ferrywoman."),
        Layer(
            "RECENT_CONTEXT",
            keep_last([Piece(f"{at}) A long beat. " * 20, "A beat.") for at in range(context)], 1),
            trim=Trim.CONDENSE,
        ),
        text_layer("USER_PROMPT", "The door opens."),
    ]


def test_each_layer_has_its_own_text() -> None:
    layers = {layer.name: layer for layer in sent(a_prompt())}
    assert list(layers) == ["SYSTEM", "AGENT_IDENTITY", "RECENT_CONTEXT", "USER_PROMPT"]
    assert layers["SYSTEM"].text == "Be her."
    assert layers["AGENT_IDENTITY"].text == "## AGENT_IDENTITY\nA ferrywoman."
    assert (layers["AGENT_IDENTITY"].body, layers["AGENT_IDENTITY"].characters) == (
        *("A ferrywoman.", 31),
    )
    assert len(layers["RECENT_CONTEXT"].parts) == 3


@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_layer_that_was_dropped_whole_is_listed_and_not_sent(at: int) -> None:
    dropped = Layer("MAP", (Piece("Far. " * 50),), role="system", trim=Trim.DROP, gives_way=-1)
    layers = a_prompt()
    listed = sent([*layers[:at], dropped, *layers[at:]], budget=280)
    assert (listed[at].name, listed[at].text, listed[at].dropped) == ("MAP", "", 1)
    assert listed[at].reason == "the window is full"
    assert "MAP" not in "".join(message.content for message in join_layers(listed))


def test_what_was_shortened_or_dropped_is_counted() -> None:
    [context] = [layer for layer in sent(a_prompt(context=6), budget=300) if layer.was_trimmed]
    assert context.name == "RECENT_CONTEXT"
    assert context.shortened + context.dropped > 0
    assert context.pieces == 6
    assert len(context.parts) == context.kept + context.shortened


@given(
    st.lists(
        st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text("a\n# "), st.booleans())
    )
)
def test_layers_that_follow_each_other_in_one_role_are_one_message(layers: list[Any]) -> None:
    made = [
        text_layer("TASK", text, role=role, has_heading=has_heading)
        for role, text, has_heading in layers
    ]
    messages = join_layers(sent(made))
    assert all(one.role != two.role for one, two in pairwise(messages))
    assert "\n\n".join(one.content for one in messages) == "\n\n".join(one.text for one in made)
