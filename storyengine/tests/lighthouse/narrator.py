"""The narrator of the lighthouse, who tells what can be seen. Nobody is the actor of the narrator's
turns."""

from agents.prompting.agent import Agent
from agents.prompting.declarations import cast_layer
from agents.prompting.layer_sources import own_pieces, prompt_file, recent_context
from agents.prompting.sandwich import LayerDeclaration
from storyengine.tests.lighthouse.state import what_is_here

NARRATOR = Agent(
    None,
    "lighthouse.narrator",
    "Narrator of what is seen",
    "gpt-4o",
    output_tokens=500,
    reasoning_tokens=1_000,
    temperature=0.5,
    layers=(
        LayerDeclaration(
            "SYSTEM",
            prompt_file("storyengine.tests.lighthouse.narrator"),
            role="system",
            has_heading=False,
        ),
        cast_layer(),
        LayerDeclaration("WHAT_IS_HERE", what_is_here),
        LayerDeclaration("RECENT_CONTEXT", recent_context),
        LayerDeclaration("USER_PROMPT", own_pieces("USER_PROMPT")),
    ),
)
