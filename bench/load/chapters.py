"""Builds chapters directly in the database. Django has to be set up before."""

from testing.tab2_chapters import CHUNK, build_chapter

# The least number of prompts of a chapter. Chapters have up to six more, so that all of them soon
# need a summary, but not at the same moment.
PROMPTS_BEFORE = 8


def to_play(count: int) -> list[str]:
    """Build chapters with different numbers of prompts after their last summary."""
    return [str(build_chapter(2 * (PROMPTS_BEFORE + n % CHUNK)).pk) for n in range(count)]
