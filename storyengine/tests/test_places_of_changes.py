"""Each change of a reply in steps says where in the text its step ended, so that a mode can tell of
it there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.calling.calls import Reply
from agents.calling.model_access import AgentModel, model_of
from agents.calling.tests.exploring import form as form
from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import says
from agents.flows.replies.incoming_text import ReplyReader
from agents.llm.providers.failures.call_errors import EmptyReply, ProviderTimeout
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.prompting.cleaning.reply_cleaning import ReplyCleaner
from agents.prompting.tools import ToolForm
from sessions.language.text import scrub_reply
from sessions.models import Session
from storyengine.api.tests.calling import address, assert_problem, call
from storyengine.tests.lighthouse.keeper import KEEPER
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import chosen, played, prompt
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse

database = pytest.mark.django_db
usual = [database, pytest.mark.usefixtures("native", "lighthouse")]

OWN, OTHER = "Mara Venn", "Tom"


def rings(text: str, strokes: int = 1, form: ToolForm = "native") -> Script:
    inside: Any = {"strokesOfTheBell": strokes}
    return says(form, text, ("ringBell", inside))


def told(chapter: Session, number: int = 1) -> list[tuple[str, str]]:
    """Return the events after the user's words, with their roles."""
    return [(one["role"], one["text"]) for one in chosen(chapter, number)["events"][1:]]


def places(chapter: Session, number: int = 1) -> list[int]:
    return [one["after_chars"] for one in chosen(chapter, number)["changes"]]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentModel, "is_small", True)


class TestInPlay:
    pytestmark = usual

    def test_a_change_stands_after_the_text_of_its_step(
        self, chapter: Session, provider: ScriptedProvider, form: ToolForm
    ) -> None:
        provider.enqueue(
            rings("I climb.\n\nI pull.", 1, form),
            rings("", 2, form),
            rings("And again.\n", 3, form),
            says(form, "It is still."),
        )
        played(chapter)
        assert told(chapter) == [
            ("agent", "I climb."),
            ("agent", "I pull."),
            ("system", "The bell rings: 1."),
            ("system", "The bell rings: 2."),
            ("agent", "And again."),
            ("system", "The bell rings: 3."),
            ("agent", "It is still."),
        ]
        assert places(chapter) == [17, 17, 29]

    def test_a_name_that_is_cleaned_away_is_not_counted(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        name, other = (chapter.character(slot).name for slot in (1, 2))
        provider.enqueue(
            rings(f"**{name}:** I pull."),
            rings(f"{name}: Again.\n\n{other}: I hear it.", 2),
            "Nothing of this is told.",
        )
        played(chapter)
        assert [text for _, text in told(chapter)] == [
            "I pull.",
            "The bell rings: 1.",
            "Again.",
            "The bell rings: 2.",
        ]

    @pytest.mark.parametrize("is_small", [False, True])
    def test_a_kept_reply_has_its_changes_in_their_places(
        self,
        chapter: Session,
        provider: ScriptedProvider,
        monkeypatch: pytest.MonkeyPatch,
        is_small: bool,
    ) -> None:
        monkeypatch.setattr(AgentModel, "is_small", is_small)
        heading = "## YOUR_REPLY\n\n" if is_small else ""
        broken = Script("It is still and", error=ProviderTimeout("Too slow."))
        provider.enqueue(rings(f"{heading}I pull."), broken)
        assert_problem(prompt(chapter), 502, "turn-failed")
        assert call("POST", address(chapter, "keep")).status_code == 201
        assert [text for _, text in told(chapter)] == [
            "I pull.",
            "The bell rings: 1.",
            "It is still and",
        ]


WORDS = ("I go", "“Go", "”", "\n", "\n\n", " ", f"{OWN}:", f"**{OWN}:**", f"{OTHER}:", "Tom", "I:")
LABELS = (f"[{OTHER}]", f"### {OTHER}", f"{OTHER} (low): ", OWN, f"{OWN} —", "GM: ", "2) ")
TEXTS = st.lists(st.sampled_from((*WORDS, *LABELS, "\r\n", "## YOUR_REPLY\n\n")), max_size=8).map(
    "".join
)


@given(steps=st.lists(TEXTS, min_size=1, max_size=4), is_small=st.booleans())
def test_what_is_counted_is_the_beginning_of_the_finished_text(
    steps: list[str], is_small: bool
) -> None:
    said = ["\n\n".join(one for one in steps[:at] if one) for at in range(1, len(steps) + 1)]
    said = [one.lstrip() for one in said]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AgentModel, "is_small", is_small)

        def reader() -> ReplyReader:
            return ReplyReader(model_of(KEEPER), ReplyCleaner(OWN, [OTHER], is_small, (2, 3)))

        def finished(text: str) -> str:
            return reader().finish(Reply(scrub_reply(text), was_cut=False)).text.rstrip()

        try:
            whole = finished(said[-1])
        except EmptyReply:
            return
        counted = [reader().chars_of(one) for one in said]
        # A heading alone is the whole reply of a small model, and would be left out before others.
        assert counted[-1] == len(whole) or not counted[-1]
        for at, beginning in zip(counted, said, strict=True):
            assert not at or finished(beginning) == whole[:at]
            assert not at or not whole[at : at + 1].strip()
