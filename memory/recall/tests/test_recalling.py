"""Tests of the passages that a question is about, on both databases."""

import pytest

from memory.recall.recalling import Passage, Reader, recall
from memory.tests.factories import add_delta, add_lock
from sessions.models import THOUGHT, Session
from sessions.play.attempts import open_prompt
from sessions.play.committing import commit_attempt, edit_reply
from sessions.play.events import NewEvent
from sessions.tests.factories import add_reply, add_turn, make_active_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

BEATS = (
    ("The ferryman refuses the copper coin.", "I shout his name."),
    ("A lantern burns in the flooded chapel.", "I kneel and count the hymns."),
    ("Seagulls steal the bread from the sill.", "I throw my left boot at them."),
    ("The bailiff nails a warrant to the gate.", "I tear it down."),
)


# The scores of the last test.
SCORES = [(3, 2.869085972), (2, 1.759635352), (1, 1.224001927)]


def play(
    chapter: Session, *beats: tuple[str, str], witnesses: list[int] | None = None, actor: int = 1
) -> Session:
    for words, reply in beats:
        number = chapter.prompt_index + 1
        add_turn(chapter, number, words=words, reply=reply, actor=actor, witnesses=witnesses)
        chapter.prompt_index = number
        chapter.save(update_fields=["prompt_index", "updated_at"])
    return chapter


def ask(chapter: Session, question: str, k: int = 5, **reader: object) -> list[Passage]:
    return recall(Reader(chapter, **reader), question, k)  # type: ignore[arg-type]


def found(chapter: Session, question: str, k: int = 20, **reader: object) -> list[int]:
    """Return the numbers of the turns that are found, without memory."""
    passages = ask(chapter, question, k, **reader)
    return [one.prompt_index for one in passages if one.line is None]


@pytest.fixture
def chapter() -> Session:
    return play(make_active_chapter(agent_names={"1": "Mara", "2": "Tom", "3": "Ilse"}), *BEATS)


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("Who would not take coins?", 1),
        ("where did the lanterns burn", 2),
        ("THE SEAGULL AND ITS BREAD", 3),
        ("Mara tears down the warrants", 4),
    ],
)
def test_the_turn_that_a_question_is_about_comes_first(
    chapter: Session, question: str, number: int
) -> None:
    assert found(chapter, question)[0] == number


@pytest.mark.parametrize(
    ("beats", "question", "number"),
    [
        (
            (
                ("Der Kapitän versteckt die Laternen im Bootshaus.", "Ich sehe ihm zu."),
                ("Die Möwen stehlen das Brot von der Fensterbank.", "Ich werfe meinen Stiefel."),
                ("Der Vogt nagelt einen Haftbefehl an das Tor.", "Ich reiße ihn ab."),
            ),
            "Wo hat der Kapitän die Laterne versteckt?",
            1,
        ),
        (
            (
                ("渡し守は銅貨を受け取らなかった。", "私は彼の名を叫ぶ。"),
                ("礼拝堂で灯籠が燃えている。", "私は跪いて数える。"),
                ("役人が門に令状を打ち付ける。", "私はそれを破り捨てる。"),
            ),
            "灯籠はどこで燃えていたか",
            2,
        ),
        (
            (
                ("渡船人不肯收那枚铜币。", "我喊他的名字。"),
                ("灯笼在被淹的教堂里燃烧。", "我跪下来。"),
                ("那艘船在港口沉没。", "我看着水面。"),
            ),
            "船在哪里？",  # noqa: RUF001
            3,
        ),
    ],
)
def test_it_is_asked_in_german_japanese_and_chinese(
    beats: tuple[tuple[str, str], ...], question: str, number: int
) -> None:
    assert found(play(make_active_chapter(), *beats), question)[0] == number


def test_a_chapter_in_two_languages_is_found_in_both(chapter: Session) -> None:
    play(chapter, ("Die Laternen sind im Keller, und sie brennen nicht.", "Ich gehe mit ihr."))
    assert found(chapter, "Wo ist die Laterne im Keller?")[0] == 5
    assert found(chapter, "lanterns in the chapel")[0] == 2


@pytest.mark.parametrize(
    "question",
    [
        '"lantern chapel"',
        "lantern AND NOT chapel",
        "-lantern +chapel",
        "lantern* OR (chapel",
        "lantern:chapel ^2 ~ % _ \\ ' ; --",
        "lantern & !chapel <-> |",
        "\x00lantern\ud800 chapel",
    ],
)
def test_a_question_is_words_and_no_query(chapter: Session, question: str) -> None:
    assert found(chapter, question)[0] == 2


@pytest.mark.parametrize("question", ["", "  ", "?!*", "who was it and where", "zeppelin"])
def test_a_question_about_nothing_in_the_chapter_finds_nothing(
    chapter: Session, question: str
) -> None:
    assert found(chapter, question) == []


class TestAReader:
    def test_does_not_find_what_it_did_not_witness(self, chapter: Session) -> None:
        play(chapter, ("The admiral hides a ruby.", "I look away."), witnesses=[1])
        assert found(chapter, "ruby", readers=(1,)) == [5]
        assert found(chapter, "ruby", readers=(2,)) == []
        assert found(chapter, "ruby", readers=(1, 2)) == []
        assert found(chapter, "ruby") == [5]

    def test_finds_no_turn_by_a_turn_before_that_it_did_not_witness(self, chapter: Session) -> None:
        play(chapter, ("The admiral hides a ruby.", "I look away."), witnesses=[1])
        play(chapter, ("Rain falls.", "I wait."))
        assert found(chapter, "ruby", readers=(1,)) == [5, 6]
        assert found(chapter, "ruby", readers=(2,)) == []

    def test_reads_only_the_events_of_a_turn_that_it_witnessed(self, chapter: Session) -> None:
        attempt = open_prompt(chapter.pk, actor=1, words="Anchor.", submission_key="k").attempt
        commit_attempt(
            attempt, [NewEvent("I whisper: sapphire.", 1, witnesses=[1]), NewEvent("Aloud.", 2)]
        )
        [passage] = ask(chapter, "anchor", 1, readers=(3,))
        assert "sapphire" not in passage.text
        assert "Tom: Aloud." in passage.text
        assert found(chapter, "sapphire", readers=(3,)) == []

    def test_learns_nothing_of_rarity_from_turns_that_it_missed(self, chapter: Session) -> None:
        before = [(one.prompt_index, one.score) for one in ask(chapter, "lantern", readers=(2,))]
        play(chapter, *[("The lantern again.", "A lantern!")] * 3, witnesses=[1])
        after = [(one.prompt_index, one.score) for one in ask(chapter, "lantern", readers=(2,))]
        assert after == before

    def test_finds_thoughts_only_when_asked_for_and_only_its_own(self, chapter: Session) -> None:
        attempt = open_prompt(chapter.pk, actor=1, words="Fog.", submission_key="k").attempt
        commit_attempt(attempt, [NewEvent("He is a smuggler.", 1, kind=THOUGHT)])
        assert found(chapter, "smuggler") == found(chapter, "smuggler", readers=(1,)) == []
        assert found(chapter, "smuggler", readers=(1,), with_thoughts=True) == [5]
        assert found(chapter, "smuggler", readers=(2,), with_thoughts=True) == []

    def test_finds_nothing_after_its_last_prompt(self, chapter: Session) -> None:
        assert found(chapter, "warrant lantern", until=3)[0] == 2
        assert 4 not in found(chapter, "warrant lantern", until=3)


class TestWhatIsNotChosen:
    def test_is_not_found(self, chapter: Session) -> None:
        add_reply(chapter, 4, "I fold it into a zeppelin.", is_chosen=False)
        assert found(chapter, "zeppelin") == []

    def test_an_edit_is_found_by_its_new_words_alone(self, chapter: Session) -> None:
        edit_reply(chapter.pk, 4, "I read it to the zeppelin.")
        assert found(chapter, "zeppelin") == [4]
        assert found(chapter, "tear") == []


class TestAPlace:
    def test_leads_to_its_turns(self, chapter: Session) -> None:
        add_lock(chapter, {"chapter": {"location": "the harbour"}})
        add_delta(chapter, 1, 2, {"location_updates": {"where": "the old mill"}})
        add_delta(chapter, 3, 4, {"location_updates": {"where": "the salt cellar"}})
        assert found(chapter, "salt cellar") == [3, 4]
        play(chapter, ("A lantern burns.", "I wait."), ("Rain.", "I wait."))
        add_delta(chapter, 5, 6, {"state_changes": [{"key": "time", "after": "midnight"}]})
        assert found(chapter, "midnight lantern")[0] == 5
        assert found(chapter, "salt cellar") == [3, 4, 5, 6]

    def test_is_unknown_to_those_who_do_not_know_the_memory(self, chapter: Session) -> None:
        add_delta(
            chapter, 1, 4, {"location_updates": {"where": "the salt cellar"}}, audience=[1, 3]
        )
        assert found(chapter, "cellar", readers=(2,)) == []
        assert found(chapter, "cellar", readers=(3,)) == [1, 2, 3, 4]


def test_the_scores_are_the_same_on_every_database(chapter: Session) -> None:
    """The figures are written down here, so that each database is compared with the other."""
    passages = ask(chapter, "the ferryman's lantern and the left boot", 3)
    assert [(one.prompt_index, round(one.score, 9)) for one in passages] == SCORES
