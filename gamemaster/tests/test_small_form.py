"""The embedded model is asked for a character's reply by one plain question."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.flows.tests.playing import play, texts_of
from agents.llm.providers.scripted import ScriptedProvider
from agents.prompting.letters import Letters, letters_of
from gamemaster.small_form import told_of
from sessions.models import Session
from sessions.tests.factories import make_active_chapter

ALPHABETS = {
    "Latin": "AaBbZzÄäßÉéŁłŐőŞşÑñØø",
    "Greek": "ΑαΆάΩωΊί",
    "Cyrillic": "АаЁёЯяІіЇїЂђ",
    "Armenian": "Աաֆ",
    "Hebrew": "אבת",
    "Arabic": "ابتپچی",
    "Devanagari": "कखगाि्",
    "Georgian": "აბჰ",
    "Hangul": "가나힣",
    "Han": "日本のテー語",
}


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter(
        agent_names={"1": "Mara Venn", "2": "Tom"},
        agent_identity_text_by_slot={
            "1": "Net mender, forty.\nVoice: dry.\nSecret: SHE-SOLD-THE-BOAT."
        },
        language="en",
    )


@pytest.mark.django_db
class TestTheRequest:
    @pytest.fixture(autouse=True)
    def _is_embedded(self, provider: ScriptedProvider) -> None:
        provider.name = "embedded"

    def test_it_has_the_last_beat_that_the_character_witnessed_and_no_reply(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        for number in (1, 2, 3):
            play(chapter, f"BEAT-{number} comes to you.", slot=number % 2 + 1)
        play(chapter, "WHISPERED to you.", slot=2, witnesses=[2])
        play(chapter, "You see the lamp. “Do you?” asks Tom.", slot=1)
        *_, asked = provider.history[-1].messages
        assert "BEAT-2" not in asked.content
        assert "BEAT-3 comes to Tom." in asked.content
        assert "WHISPERED" not in asked.content
        assert "SHE-SOLD-THE-BOAT" not in asked.content
        assert "Mara Venn: Net mender, forty. Voice: dry." in asked.content
        assert "Now: You see the lamp. “Do you?” asks Tom." in asked.content

    def test_a_chapter_in_another_language_gets_the_usual_request(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        play(chapter, "The lamp over the quay goes out, and it is dark in the house.")
        assert '" I " act' in provider.history[-1].extra_body["grammar"]
        Session.objects.update(language="de")
        chapter.refresh_from_db()
        play(chapter, "Das Licht geht aus.")
        assert "SHE-SOLD-THE-BOAT" in str(provider.history[-1].messages)
        assert "grammar" not in provider.history[-1].extra_body

    def test_a_reply_that_says_again_what_was_said_is_asked_for_again(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        said = '"Who let the lamp go out?" I climb the stairs to the gallery with a match.'
        new = '"Nobody asked me for oil." I turn the empty can over in my hands.'
        provider.enqueue(said, said, new)
        play(chapter, "The lamp goes out.")
        play(chapter, "Tom looks at you.")
        assert texts_of(chapter)[-1] == new

    @pytest.mark.parametrize(
        "bad",
        [
            "\"I'm sorry, I can't help you with that.\" I look at the tide table.",
            '"The tide table falls from its nail, I see." I pick it up.',
            '"Leave the table there." I turn to the wall. "Leave the table there."',
            '"The table?" I walk over and see that Mara Venn picks it up.',
            '"It is late." I put on my coat and go.',
        ],
        ids=["declines", "recites", "says it twice", "has two of the speaker", "beside the point"],
    )
    def test_a_reply_that_no_reader_could_use_is_asked_for_again(
        self, chapter: Session, provider: ScriptedProvider, bad: str
    ) -> None:
        new = '"Nobody touches the table." I hang it up again and feel the nail.'
        provider.enqueue(bad, new)
        play(chapter, "The tide table falls from its nail.")
        assert texts_of(chapter)[-1] == new


@pytest.mark.parametrize(
    ("beat", "told"),
    [
        ("You are late. Your hat is wet.", "Tom is late. Tom's hat is wet."),
        ("What do you do?", "What does Tom do?"),
        (
            "Ib asks you to wait. In the hall you find him.",
            "Ib asks Tom to wait. In the hall you find him.",
        ),
        (
            "How many of you are there? She looks at you.",
            "How many of you are there? She looks at Tom.",
        ),
        ('She asks: "Are you well?"', 'She asks: "Are you well?"'),
    ],
)
def test_you_becomes_the_name_outside_of_quotation_marks(beat: str, told: str) -> None:
    assert told_of(beat, "Tom") == told
    assert told_of(beat, r"To\1") == told.replace("Tom", r"To\1")


def letters(script: str) -> Letters:
    found = letters_of([ALPHABETS[script]])
    assert found is not None
    return found


@given(st.sampled_from(sorted(ALPHABETS)), st.data())
def test_the_letters_of_a_script_hold_each_word_of_it(script: str, data: st.DataObject) -> None:
    word = data.draw(st.text(ALPHABETS[script], min_size=1))
    assert re.fullmatch(f"[{letters(script).within}]+", word)
