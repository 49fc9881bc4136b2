"""The log of the light: the lighthouse's own kind of memory block, which has the signals of an
attempt."""

from collections.abc import Mapping
from typing import Any

from memory.blocks.blocks import write_own_block
from memory.fold.records import Fold, Prompts, Truth
from memory.telling.block_kinds import BlockKind
from memory.telling.rendering import Section
from sessions.models import Attempt
from storyengine.tests.lighthouse.outcome import SIGNAL

LOG = "lighthouse.log"


def enter_signals(attempt: Attempt) -> None:
    given = list(attempt.events.filter(kind=SIGNAL))
    if given:
        payload = {"signals": [one.text for one in given]}
        write_own_block(attempt, LOG, payload, given[0].witnesses)


def _read(payload: Mapping[str, Any], prompts: Prompts) -> Fold:
    signals = [f"Signal: {text.strip()}" for text in payload["signals"]]
    return Fold(truths={one: Truth(one, prompts, prompts) for one in signals})


def _sections(payload: Mapping[str, Any]) -> list[Section]:
    return [Section("Signals", [str(one) for one in payload["signals"]])]


LOG_KIND = BlockKind("Log of the light", _read, _sections)
