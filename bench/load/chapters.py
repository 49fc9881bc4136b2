"""Builds chapters directly in the database. Django has to be set up before."""

from sessions.models import Session, State
from storyengine.tabs.chapter_page import read_page
from storyengine.tabs.play_page import read_play
from testing.tab2_chapters import CHUNK, build_chapter, count_queries

# The least number of prompts of a chapter. Chapters have up to six more, so that all of them soon
# need a summary, but not at the same moment.
PROMPTS_BEFORE = 8
# A page has a name, a path, the status of its answer, and the number of its queries.
Page = tuple[str, str, int, int]


def to_play(count: int) -> list[str]:
    """Build chapters with different numbers of prompts after their last summary."""
    return [str(build_chapter(2 * (PROMPTS_BEFORE + n % CHUNK)).pk) for n in range(count)]


def pages(events: int) -> list[Page]:
    """Build two chapters with so many events, one in play and one ended, and return their pages."""
    played, ended = build_chapter(events), build_chapter(events)
    Session.objects.filter(pk=ended.pk).update(state=State.ENDED)
    play, end = f"/chapters/{played.pk}", f"/chapters/{ended.pk}"
    now, told = read_play(played.pk), read_page(ended.pk, "")
    seen = f"seen={told.version}&memory={told.memory_version}"
    return [
        _page("Tab 1", f"{play}/world"),
        _page("Tab 2", f"{play}/play"),
        _page("Tab 2, poll", f"{play}/play/status?shape={now.shape}&seen={now.version}", 204),
        _page("whole transcript", f"{play}/transcript"),
        _page("calls of a prompt", f"{play}/calls/prompts/{played.prompt_index}"),
        _page("usage", f"{play}/usage"),
        _page("Tab 3", f"{end}/chapter"),
        _page("Tab 3, poll", f"{end}/chapter/status?{seen}", 204),
        _page("Tab 3, Now view", f"{end}/chapter?show=now"),
        _page("estimate of a build", f"{end}/chapter/estimate"),
    ]


def _page(name: str, path: str, status: int = 200) -> Page:
    # The first visit fills the caches of templates and of memory.
    count_queries(path, status=status)
    return name, path, status, count_queries(path, status=status)
