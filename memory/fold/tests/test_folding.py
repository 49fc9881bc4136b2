from typing import Any

import pytest

from memory.blocks.same_names import key_of
from memory.canon.ruling_payloads import Answer, answer_payload
from memory.fold.facts import Fact
from memory.fold.folding import fold, fold_chapter
from memory.fold.present import Present, present
from memory.fold.records import Block, Prompts
from memory.fold.tests.fold_blocks import DELTA, LOCK, correction, delta, lock
from memory.models import MemoryBlock
from memory.telling.now_view import now_view
from memory.tests.factories import write_delta
from sessions.models import Session, State
from sessions.tests.factories import add_prompts, make_active_chapter


def answer(answer: Answer, **said: str) -> Block:
    question = "memory says the keeper drowned, but he knocks"
    return Block("canon_correction", 7, 7, answer_payload(question, answer, **said))


def now(*blocks: Block) -> Present:
    return present(fold(blocks))


def texts(facts: tuple[Fact, ...]) -> list[str]:
    return [fact.text for fact in facts]


def places(*blocks: Block) -> dict[str, str]:
    here = now(*blocks)
    return {one.name: one.place for one in (*here.cast, *here.others)}


class TestNames:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("The king is dead.", "the  king\nis dead"),
            ("“The king” is dead!", "'the king' is dead"),
            ("the king\u2019s heir", "the king's heir"),
            ("a wet-list", "a wet list"),
            ("**The king** is dead", "_the king_ is dead"),
            ("CANON-7", "canon 7"),
            ("door_state", "door state"),
        ],
    )
    def test_case_punctuation_and_spacing_do_not_count(self, one: str, other: str) -> None:
        assert key_of(one) == key_of(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("it is -5 outside", "it is 5 outside"),
            ("it costs 1.5", "it costs 15"),
            ("it costs .5", "it costs 5"),
            ("at 3:15", "at 315"),
            ("5% are left", "5 are left"),
            ("we're lost", "were lost"),
            ("???", "!"),
        ],
    )
    def test_what_carries_meaning_counts(self, one: str, other: str) -> None:
        assert key_of(one) != key_of(other)


class TestCanon:
    def test_it_comes_from_the_lock_and_every_delta_in_order(self) -> None:
        blocks = [
            lock(),
            delta(1, canon_locks=["the bell is cracked"]),
            delta(2, canon_locks=["The keeper drowned.", "nobody sleeps"]),
        ]
        assert now(*blocks).canon == (
            Fact("the keeper drowned", Prompts(0, 0), Prompts(8, 14), is_in_lock=True),
            Fact("the bell is cracked", Prompts(1, 7), Prompts(1, 7)),
            Fact("nobody sleeps", Prompts(8, 14), Prompts(8, 14)),
        )


class TestCorrections:
    def test_the_new_fact_stands_for_the_old_one(self) -> None:
        here = now(lock(), correction(replaces="The keeper DROWNED.", canon="the keeper lives"))
        assert texts(here.canon) == ["the keeper lives"]
        assert here.withdrawn == (
            Fact("the keeper drowned", Prompts(0, 0), Prompts(7, 7), "the keeper lives", True),
        )

    def test_a_later_delta_does_not_bring_the_old_fact_back(self) -> None:
        here = now(
            lock(),
            correction(replaces="the keeper drowned", canon="the keeper lives"),
            delta(2, canon_locks=["the keeper drowned"]),
        )
        assert texts(here.canon) == ["the keeper lives"]

    def test_a_later_correction_does(self) -> None:
        here = now(
            lock(),
            correction(replaces="the keeper drowned", canon="the keeper lives"),
            correction(9, replaces="the keeper lives", canon="the keeper drowned"),
        )
        assert texts(here.canon) == ["the keeper drowned"]

    def test_nothing_replaced_is_a_new_fact_and_nothing_new_a_withdrawal(self) -> None:
        here = now(lock(), correction(canon="ice bears weight"))
        assert texts(here.canon) == ["the keeper drowned", "ice bears weight"]
        assert texts(now(lock(), correction(replaces="the keeper drowned")).canon) == []

    @pytest.mark.parametrize(
        ("gone", "section"),
        [
            ("lamp: dark", "state"),
            ("wet list", "items"),
            ("Mara Venn and Tom: distrust", "relationships"),
            ("Three knocks under the hull", "timeline"),
            ("Tom: the ferry", "where"),
            ("who knocks?", "open"),
        ],
    )
    def test_it_withdraws_whatever_memory_says(self, gone: str, section: str) -> None:
        def shown(*blocks: Block) -> list[str]:
            sections = {one.key: one.items for one in now_view(fold(blocks))}
            return [item.replaces for item in sections.get(section, ())]

        assert gone in shown(lock(), delta(**DELTA))
        assert gone not in shown(lock(), delta(**DELTA), correction(replaces=gone))

    def test_a_new_value_stands_again(self) -> None:
        here = now(
            delta(**DELTA),
            correction(replaces="lamp: dark"),
            delta(2, state_changes=[{"key": "lamp", "after": "lit"}]),
        )
        assert texts(here.state) == ["lamp: lit"]


class TestQuestions:
    @pytest.mark.parametrize(
        ("said", "canon"),
        [
            (answer(Answer.KEEP), ["the keeper drowned"]),
            (
                answer(Answer.KEEP, old="the keeper drowned", new="the keeper knocks"),
                ["the keeper drowned"],
            ),
            (
                answer(Answer.TAKE_NEW, old="the keeper drowned", new="the keeper knocks"),
                ["the keeper knocks"],
            ),
            (
                answer(Answer.IGNORE, old="the keeper drowned", new="the keeper knocks"),
                ["the keeper drowned"],
            ),
            (
                correction(replaces="the keeper drowned", canon="the keeper lives"),
                ["the keeper lives"],
            ),
        ],
    )
    def test_an_answer_or_a_correction_of_the_fact_settles_it(
        self, said: Block, canon: list[str]
    ) -> None:
        here = now(lock(), delta(**{**DELTA, "canon_locks": []}), said)
        assert here.questions == ()
        assert sorted(texts(here.canon)) == sorted(canon)

    def test_an_unrelated_correction_does_not(self) -> None:
        assert now(delta(**DELTA), correction(canon="ice bears weight")).questions

    def test_a_word_is_not_enough_to_name_a_question(self) -> None:
        assert now(delta(**DELTA), correction(replaces="keeper")).questions

    def test_what_was_settled_is_not_asked_again(self) -> None:
        again = delta(2, contradictions_or_questions=DELTA["contradictions_or_questions"])
        assert now(delta(**DELTA), answer(Answer.IGNORE), again).questions == ()

    def test_an_answer_is_a_correction_that_says_what_it_answers(self) -> None:
        assert answer_payload("is he?", Answer.TAKE_NEW, new="he is") == {
            "memory_type": "canon_correction",
            "replaces": "",
            "canon": "he is",
            "reason": "",
            "answers": "is he?",
            "answer": "take_new",
        }


class TestWhereabouts:
    def test_who_acts_is_where_the_scene_is_and_bears_the_chapters_name(self) -> None:
        assert places(lock(), delta(**DELTA)) == {
            "Mara Venn": "the ferry",
            "Tom": "the ferry",
            "the boatman": "the ferry",
        }

    def test_who_is_not_mentioned_stays_where_last_seen(self) -> None:
        moved = delta(
            2,
            location_updates={"where": "the light"},
            character_actions=[{"agent_slot": 2, "name": "", "did": "climbs"}],
        )
        assert places(lock(), delta(**DELTA), moved)["Mara Venn"] == "the ferry"
        assert places(lock(), delta(**DELTA), moved)["Tom"] == "the light"

    @pytest.mark.parametrize(
        "key", ["Tom's location", "location: Tom", "tom_position", "whereabouts of Tom"]
    )
    def test_a_stated_place_holds_until_a_block_says_otherwise(self, key: str) -> None:
        apart = delta(2, state_changes=[{"key": key, "before": "", "after": "the attic"}])
        acts = delta(3, character_actions=[{"name": "Tom", "did": "listens"}])
        joins = delta(4, location_updates={"where": "the light"}, **{"major_events": [TOM_ACTS]})
        blocks = [lock(), delta(**DELTA), apart, acts]
        assert places(*blocks)["Tom"] == "the attic"
        assert texts(now(*blocks).state) == ["lamp: dark"]
        assert places(*blocks, joins)["Tom"] == "the light"

    def test_a_name_that_two_bear_is_nobodys(self) -> None:
        agents = [{"slot": 1, "name": "Ann Reed"}, {"slot": 2, "name": "Ann Oak"}]
        seen = delta(location_updates={"where": "the inn"}, major_events=[ANN_ACTS])
        assert places(lock({"agents": agents}), seen) == {"Ann": "the inn"}


TOM_ACTS = {"event": "Tom arrives", "participants": ["Tom"]}
ANN_ACTS = {"event": "Ann arrives", "participants": ["Ann"]}


class TestThreads:
    @pytest.mark.parametrize(
        "closing",
        [
            {"state_changes": [{"key": "Who knocks", "after": "resolved", "notes": "the keeper"}]},
            {"state_changes": [{"key": "thread: who knocks?", "after": "answered: the keeper"}]},
            {"unresolved_threads": [{"thread": "Resolved: who knocks?", "stakes": "the keeper"}]},
            {"unresolved_threads": [{"thread": "who knocks? [RESOLVED]", "stakes": "the keeper"}]},
        ],
    )
    def test_a_block_that_says_so_closes_one(self, closing: dict[str, Any]) -> None:
        here = now(delta(**DELTA), delta(2, **closing))
        assert texts(here.open_threads) == []
        assert [(one.text, one.first, one.latest) for one in here.closed_threads] == [
            ("who knocks?", Prompts(1, 7), Prompts(8, 14))
        ]
        assert "the keeper" in here.closed_threads[0].aside
        assert texts(here.state) == ["lamp: dark"]

    def test_a_later_mention_opens_it_again(self) -> None:
        closing = delta(2, state_changes=[{"key": "who knocks?", "after": "resolved"}])
        again = delta(3, unresolved_threads=["who knocks?"])
        assert texts(now(delta(**DELTA), closing, again).open_threads) == ["who knocks?"]

    def test_silence_closes_nothing(self) -> None:
        assert texts(now(delta(**DELTA), delta(2)).open_threads) == ["who knocks?"]


class TestOrderWithinAStretch:
    """The deltas of a stretch have different audiences, so that one tells what was before and after
    what the other tells."""

    def test_the_value_of_the_latest_prompt_holds(self) -> None:
        lit = {"key": "lamp", "after": "lit", "at": [2]}
        dark = {"key": "lamp", "after": "dark", "at": [6]}
        here = now(delta(state_changes=[dark]), delta(state_changes=[lit]))
        assert texts(here.state) == ["lamp: dark"]
        assert [one.text for one in here.past] == ["lamp: lit"]

    def test_the_place_of_the_latest_prompt_holds(self) -> None:
        ferry = {"key": "Tom's location", "after": "the ferry", "at": [6]}
        quay = {"key": "Tom's location", "after": "the quay", "at": [2]}
        assert places(lock(), delta(state_changes=[ferry]), delta(state_changes=[quay])) == {
            "Tom": "the ferry"
        }
        moved = [
            delta(location_updates={"where": where, "at": [at]})
            for where, at in (("the mill", 5), ("the chapel", 3))
        ]
        assert now(lock(), *moved).scene.text == "the mill"  # type: ignore[union-attr]

    def test_a_thread_that_was_closed_last_is_closed(self) -> None:
        over = {"key": "who knocks?", "after": "resolved", "at": [6]}
        asked = {"thread": "who knocks?", "at": [2]}
        blocks = [delta(state_changes=[over]), delta(unresolved_threads=[asked])]
        here = now(*blocks)
        assert texts(here.open_threads) == []
        assert texts(here.closed_threads) == ["who knocks?"]


class TestLastValues:
    def test_a_state_key_has_its_last_value_and_both_ranges(self) -> None:
        here = now(
            delta(**DELTA), delta(2, state_changes=[{"key": "LAMP", "before": 1, "after": True}])
        )
        assert here.state == (Fact("lamp: true", Prompts(1, 7), Prompts(8, 14), "before: 1"),)

    def test_a_pair_has_its_last_shift_in_whatever_order_it_is_named(self) -> None:
        later = {"between": "tom and MARA", "change": "trust", "evidence": ""}
        here = now(lock(), delta(**DELTA), delta(2, relationship_shifts=[later]))
        assert here.relationships == (
            Fact("Mara Venn and Tom: trust", Prompts(1, 7), Prompts(8, 14)),
        )


@pytest.mark.django_db
class TestFoldChapter:
    def test_it_folds_the_chapters_blocks_in_order_and_sees_new_ones(self) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 7)
        other = Session.objects.create(state=State.ACTIVE)
        for at, payload in ((chapter, LOCK), (other, {"canon_locks": ["elsewhere"]})):
            at.memory_blocks.create(
                type=MemoryBlock.Type.WORLD_CHAPTER_LOCK,
                from_prompt_index=0,
                to_prompt_index=0,
                json_payload=payload,
            )
        assert texts(present(fold_chapter(chapter)).canon) == ["the keeper drowned"]
        write_delta(chapter.turns.get(number=7).chosen, from_prompt_index=1, payload=DELTA)
        assert fold_chapter(chapter) == fold([lock(), delta(**DELTA)])

    def test_it_reads_the_blocks_once(self, django_assert_num_queries: Any) -> None:
        chapter = Session.objects.create(state=State.ACTIVE)
        chapter.memory_blocks.create(
            type=MemoryBlock.Type.WORLD_CHAPTER_LOCK,
            from_prompt_index=0,
            to_prompt_index=0,
            json_payload=LOCK,
        )
        folded = fold_chapter(chapter)
        with django_assert_num_queries(1):
            assert fold_chapter(chapter) is folded
