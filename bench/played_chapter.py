"""Reads a played chapter from the program's own database, for the figures of bench.replay.

This is a separate program (python -m bench.played_chapter SESSION_ID), because it needs Django's
settings. It prints a JSON object. `canon` and `open` have the canon and the open threads of the
memory before the last prompt. `estimates` has an entry for each call: the agent, the estimated
tokens of the request, and its counted tokens.
"""

import json
import os
import sys
import uuid
from typing import TYPE_CHECKING

import django

from bench.token_figures import count_tokens

if TYPE_CHECKING:
    from sessions.models import Session

# The name of a model that was never called, so that the program has learned nothing about its
# tokens.
MODEL = "bench-stand-in"


def main(session_id: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    from sessions.access import get_chapter

    chapter = get_chapter(uuid.UUID(session_id))
    print(json.dumps({**read_facts(chapter), "estimates": replay_estimates(chapter)}))


def read_facts(chapter: "Session") -> dict[str, list[str]]:
    from memory.fold.folding import block_of, fold
    from memory.fold.present import present

    blocks = chapter.memory_blocks.filter(to_prompt_index__lt=chapter.prompt_index)
    now = present(
        fold(block_of(block) for block in blocks.order_by("created_at", "pk")), chapter.characters
    )
    return {
        "canon": [fact.text for fact in now.canon],
        "open": [fact.text for fact in now.open_threads],
    }


def replay_estimates(chapter: "Session") -> list[tuple[int | None, float, int]]:
    """Return the estimates of the chapter's requests, as if one model had counted the tokens of all
    of them."""
    from agents.calling.stored_prompts import read_messages
    from agents.prompting.budget import calibrate, read_weight_per_token
    from agents.prompting.weighing import weigh
    from agents.providers.base import Usage

    estimates = []
    for artifact in chapter.llm_artifacts.order_by("created_at"):
        texts = [message.content for message in read_messages(artifact)]
        weight = sum(map(weigh, texts))
        counted = sum(map(count_tokens, texts))
        guess = weight / read_weight_per_token(MODEL, artifact.agent)
        estimates.append((artifact.agent_id, guess, counted))
        usage = Usage(input_tokens=counted, output_tokens=0, cached_tokens=0)
        calibrate(MODEL, artifact.agent, weight, usage)
    return estimates


if __name__ == "__main__":
    main(sys.argv[1])
