"""Makes a short chapter whose draft leaves out one turn and invents one paragraph."""

from typing import Any

from memory.models import NarrativeDraft
from memory.prose.drafts import ToldScene, stored_scenes, tell
from sessions.models import Session
from sessions.tests.factories import add_turn, make_active_chapter

BEATS = (
    ("The ferryman refuses the copper coin and pushes off alone.", "I shout his name. Coward!"),
    ("A lantern burns in the flooded chapel. It smells of tallow.", "I kneel and count the hymns."),
    ("Seagulls steal the bread from the windowsill.", "I throw my left boot at them."),
    ("The bailiff nails a warrant to the orchard gate.", "I tear it down and eat it."),
)
TOLD = (
    "The ferryman would not have the copper coin. He pushed off alone.",
    "In the flooded chapel there burned a lantern.",
    "Far away, a clockmaker dreamed of elephants in the snow.",
    "The seagulls stole the bread, and a boot flew after them from the windowsill.",
)


def make_told_chapter(**fields: Any) -> Session:
    """Make a chapter of four turns, without a draft. The paragraphs of TOLD tell the turns 1, 2,
    none and 3."""
    chapter = make_active_chapter(**fields)
    for beat, reply in BEATS:
        play(chapter, beat, reply)
    return chapter


def play(chapter: Session, beat: str, reply: str) -> None:
    chapter.prompt_index += 1
    chapter.save()
    add_turn(chapter, chapter.prompt_index, words=beat, reply=reply)


def add_draft(chapter: Session, *texts: str, ends: tuple[int, ...] = ()) -> NarrativeDraft:
    """Add a draft of these scenes. `ends` has the last prompt of each scene; without it, the draft
    has no scenes."""
    fields: dict[str, Any] = {"chapter_text": "\n\n".join(texts)}
    if ends:
        firsts = [1, *(end + 1 for end in ends[:-1])]
        scenes = [ToldScene(*pair, 300, 0) for pair in zip(firsts, ends, strict=True)]
        telling = tell(scenes, texts)
        fields = {"chapter_text": telling.text, "scenes": stored_scenes(telling.scenes)}
    return NarrativeDraft.objects.create(
        session=chapter,
        attempt=chapter.turns.get(number=chapter.prompt_index).chosen,
        target_words=300,
        source_snapshot={
            "max_prompt_index_used": chapter.prompt_index,
            "memory_block_ids_used": [],
        },
        **fields,
    )
