import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.models import NarrativeDraft
from memory.prose.drafts import ToldScene, find_draft, stored_scenes, tell, telling_of
from sessions.exceptions import UnknownChapter
from sessions.tests.factories import make_active_chapter


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5))
def test_the_text_of_each_scene_is_found_again(texts: list[str]) -> None:
    scenes = [ToldScene(at, at, 300, 0) for at in range(1, len(texts) + 1)]
    telling = tell(scenes, texts)
    draft = NarrativeDraft(chapter_text=telling.text, scenes=stored_scenes(telling.scenes))
    assert telling.text == "\n\n".join(texts)
    assert telling_of(draft) == telling
    assert telling_of(draft).texts == texts


@pytest.mark.django_db
def test_a_draft_is_found_by_its_id_within_its_chapter_alone() -> None:
    chapter = make_active_chapter()
    made = [
        NarrativeDraft.objects.create(
            session=chapter, target_words=300, source_snapshot={}, chapter_text=text
        )
        for text in ("The first.", "The second.")
    ]
    assert [find_draft(chapter, one.pk) for one in made] == [(1, made[0]), (2, made[1])]
    with pytest.raises(UnknownChapter):
        find_draft(make_active_chapter(), made[0].pk)
