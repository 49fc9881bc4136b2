"""A draft as pages show it: each paragraph with the prompts that it tells."""

from dataclasses import dataclass
from functools import cached_property

from memory.fold.prompt_numbers import ranges_of
from memory.fold.records import Prompts
from memory.models import NarrativeDraft
from memory.prose.receipts.draft_receipts import (
    DraftReceipts,
    Receipt,
    SceneReceipts,
    read_receipts,
)
from memory.prose.receipts.matching import Confidence
from memory.prose.receipts.paragraphs import Kind
from sessions.models import Session
from sessions.record.transcript import Entry
from storyengine.web.numbers import number_up_to
from storyengine.web.prose import heading_in


@dataclass(frozen=True)
class ShownTurn:
    """A turn that a paragraph tells, with its sentences that no paragraph tells."""

    number: int
    entries: tuple[Entry, ...]
    left_out: list[str]
    # Whether the turn belongs to another scene than the paragraph.
    is_of_another_scene: bool


@dataclass(frozen=True)
class ShownReceipt:
    """A paragraph with its receipt, as the page shows it."""

    receipt: Receipt
    scene: SceneReceipts
    is_open: bool = False
    tells_asked_prompt: bool = False

    @property
    def number(self) -> int:
        return self.receipt.paragraph.number

    @property
    def kind(self) -> Kind:
        return self.receipt.paragraph.kind

    @property
    def words(self) -> str:
        """The words of a heading, without its signs of Markdown."""
        text = self.receipt.paragraph.text
        return heading_in(text) or text

    @property
    def prompts(self) -> list[Prompts]:
        return ranges_of(self.receipt.prompts)

    @property
    def confidence(self) -> Confidence:
        match = self.receipt.match
        return Confidence.INVENTED if match is None else match.confidence


@dataclass(frozen=True)
class ShownScene:
    scene: SceneReceipts
    receipts: list[ShownReceipt]

    @property
    def prompts(self) -> Prompts:
        return Prompts(self.scene.first, self.scene.last)

    @property
    def untold_prompts(self) -> list[Prompts]:
        return ranges_of(self.scene.untold_prompts)


@dataclass(frozen=True)
class ToldDraft:
    """A draft with its number and its receipts. `paragraph` is the number of the paragraph whose
    turns are shown, and `prompt` is the number of the prompt whose paragraphs are marked. Both may
    be 0."""

    draft: NarrativeDraft
    number: int
    found: DraftReceipts
    paragraph: int
    prompt: int

    @cached_property
    def scenes(self) -> list[ShownScene]:
        return [
            ShownScene(
                scene,
                [
                    ShownReceipt(
                        one,
                        scene,
                        is_open=one.paragraph.number == self.paragraph,
                        tells_asked_prompt=self.prompt in one.prompts,
                    )
                    for one in scene.receipts
                ],
            )
            for scene in self.found.scenes
        ]

    @cached_property
    def opened(self) -> ShownReceipt | None:
        """The paragraph whose turns are shown, or None."""
        shown = (one for scene in self.scenes for one in scene.receipts)
        return next((one for one in shown if one.is_open), None)

    @property
    def turns(self) -> list[ShownTurn]:
        """The turns that the opened paragraph tells."""
        if self.opened is None:
            return []
        scene = self.opened.scene
        return [
            ShownTurn(
                number,
                self.found.turns.get(number, ()),
                self.found.left_out_of(number),
                is_of_another_scene=not scene.first <= number <= scene.last,
            )
            for number in self.opened.receipt.prompts
        ]

    @property
    def judged_count(self) -> int:
        return sum(one.match is not None for one in self.found.receipts)

    @property
    def untold_prompts(self) -> list[Prompts]:
        return ranges_of(self.found.untold_prompts)

    @property
    def paragraphs_of_prompt(self) -> list[int]:
        return self.found.paragraphs_of.get(self.prompt, [])


def read_told(
    chapter: Session, draft: NarrativeDraft, number: int, *, paragraph: str = "", prompt: str = ""
) -> ToldDraft:
    """Return the draft with its receipts. `paragraph` and `prompt` are texts from an address."""
    found = read_receipts(chapter, draft)
    return ToldDraft(
        draft,
        number,
        found,
        paragraph=number_up_to(len(found.receipts), paragraph),
        prompt=number_up_to(chapter.prompt_index, prompt),
    )
