"""Tests that a file whose parts contradict each other is refused, and that the message names these
parts."""

import json
from typing import Any

import pytest

from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.file_reading import read_chapter_file
from storyengine.exchange.tests.chapters import make_whole_chapter
from storyengine.exchange.tests.misfits import (
    OF_MEMORY_AND_STATE,
    Change,
    Chapter,
    begun_draft,
    more_prompts,
    refusal,
)

pytestmark = pytest.mark.django_db


def attempts_at(chapter: Chapter, number: int) -> list[Chapter]:
    attempts: list[Chapter] = chapter["turns"][number - 1]["attempts"]
    return attempts


def first_events(chapter: Chapter) -> list[Chapter]:
    events: list[Chapter] = attempts_at(chapter, 1)[0]["events"]
    return events


def gap_in_turns(chapter: Chapter) -> None:
    del chapter["turns"][2]
    chapter["prompt_index"] = 9


def repeated_turn(chapter: Chapter) -> None:
    chapter["turns"].insert(3, chapter["turns"][2])
    chapter["prompt_index"] = 11


def turns_turned_round(chapter: Chapter) -> None:
    chapter["turns"].reverse()


def turns_from_nought(chapter: Chapter) -> None:
    for turn in chapter["turns"]:
        turn["number"] -= 1


def fewer_turns(chapter: Chapter) -> None:
    del chapter["turns"][-1]


def chosen_beyond(chapter: Chapter) -> None:
    chapter["turns"][9]["chosen"] = 3


def attempts_unordered(chapter: Chapter) -> None:
    attempts_at(chapter, 10).reverse()


def actor_absent(chapter: Chapter) -> None:
    attempts_at(chapter, 1)[0]["actor"] = 4


def edit_beyond(chapter: Chapter) -> None:
    attempts_at(chapter, 10)[2]["source"] = 3


def edit_of_itself(chapter: Chapter) -> None:
    attempts_at(chapter, 10)[2]["source"] = 2


def edit_of_nothing(chapter: Chapter) -> None:
    attempts_at(chapter, 10)[2] |= {"kind": "edit", "source": None}


def prompt_of_another(chapter: Chapter) -> None:
    attempts_at(chapter, 10)[1]["source"] = 0


def trial_of_nothing_changed(chapter: Chapter) -> None:
    attempts_at(chapter, 10)[2]["changed_layer"] = None


def trial_of_half_a_change(chapter: Chapter) -> None:
    del attempts_at(chapter, 10)[2]["changed_layer"]["text_before"]


def trial_of_more_than_a_change(chapter: Chapter) -> None:
    attempts_at(chapter, 10)[2]["changed_layer"]["call_id"] = "of another installation"


def trial_of_a_layer_in_words(chapter: Chapter) -> None:
    attempts_at(chapter, 10)[2]["changed_layer"]["layer"] = "two"


def prompt_with_a_changed_layer(chapter: Chapter) -> None:
    attempts_at(chapter, 10)[0]["changed_layer"] = attempts_at(chapter, 10)[2]["changed_layer"]


def prompt_that_carries_something(chapter: Chapter) -> None:
    attempts_at(chapter, 10)[0]["given"] = {}


def words_that_carry_something(chapter: Chapter) -> None:
    chapter["unanswered_attempts"][0]["given"] = {"degrees": 1}


def witness_unknown(chapter: Chapter) -> None:
    attempts_at(chapter, 1)[0]["witnesses"] = [1, 4]


def witness_doubled(chapter: Chapter) -> None:
    attempts_at(chapter, 1)[0]["witnesses"] = [1, 1]


def witness_of_event_unknown(chapter: Chapter) -> None:
    first_events(chapter)[1]["witnesses"] = [7]


def witness_of_event_doubled(chapter: Chapter) -> None:
    first_events(chapter)[0]["witnesses"] = [1, 2, 1]


def witness_of_words_unknown(chapter: Chapter) -> None:
    chapter["unanswered_attempts"][1]["witnesses"] = [4]


def no_events(chapter: Chapter) -> None:
    first_events(chapter).clear()


def no_reply(chapter: Chapter) -> None:
    del first_events(chapter)[1]


def no_words(chapter: Chapter) -> None:
    del first_events(chapter)[0]


def reply_first(chapter: Chapter) -> None:
    first_events(chapter).reverse()


def words_twice(chapter: Chapter) -> None:
    first_events(chapter).append(first_events(chapter)[0])


def system_first(chapter: Chapter) -> None:
    first_events(chapter).insert(0, first_events(chapter)[0] | {"role": "system"})


def other_words(chapter: Chapter) -> None:
    first_events(chapter)[0]["text"] = "Something else."


def speaker_absent(chapter: Chapter) -> None:
    first_events(chapter)[1]["agent_slot"] = 4


def speaking_words(chapter: Chapter) -> None:
    first_events(chapter)[0]["agent_slot"] = 1


def delta_of_no_attempt(chapter: Chapter) -> None:
    chapter["memory_blocks"][1]["attempt"] = None


def delta_beyond_attempts(chapter: Chapter) -> None:
    chapter["memory_blocks"][1]["attempt"] = 1


def lock_of_an_attempt(chapter: Chapter) -> None:
    chapter["memory_blocks"][0]["attempt"] = 0


def correction_of_an_attempt(chapter: Chapter) -> None:
    chapter["memory_blocks"][2]["attempt"] = 0


def lock_of_some(chapter: Chapter) -> None:
    chapter["memory_blocks"][0]["audience"] = [1]


def delta_of_nobody_named(chapter: Chapter) -> None:
    chapter["memory_blocks"][1]["audience"] = None


def audience_absent(chapter: Chapter) -> None:
    chapter["memory_blocks"][1]["audience"] = [1, 7]


def audience_twice(chapter: Chapter) -> None:
    chapter["memory_blocks"][1]["audience"] = [1, 1]


def readers_unordered(chapter: Chapter) -> None:
    chapter["memory_blocks"][2]["audience"] = [2, 1]


def delta_twice(chapter: Chapter) -> None:
    chapter["memory_blocks"].insert(2, chapter["memory_blocks"][1])


def uncounted_delta_twice(chapter: Chapter) -> None:
    """Add the same delta twice. Its attempt is not chosen."""
    delta = {**chapter["memory_blocks"][1], "from_prompt_index": 8, "to_prompt_index": 10}
    chapter["memory_blocks"][2:2] = [delta | {"attempt": 2}] * 2


def uncounted_delta(chapter: Chapter) -> None:
    """Choose another attempt at turn 7, to which the delta does not belong. The stretch then has no
    delta that counts."""
    chapter["turns"][6] |= {"attempts": attempts_at(chapter, 7) * 2, "chosen": 1}


def draft_beyond_attempts(chapter: Chapter) -> None:
    chapter["narrative_drafts"][0]["attempt"] = 3


def draft_of_nothing_played(chapter: Chapter) -> None:
    chapter["narrative_drafts"][0]["source_snapshot"]["max_prompt_index_used"] = 0


def drafts_unordered(chapter: Chapter) -> None:
    chapter["narrative_drafts"].reverse()


def slot_twice(chapter: Chapter) -> None:
    chapter["cast"][1]["slot"] = 1


def nobody_takes_part(chapter: Chapter) -> None:
    for one in chapter["cast"]:
        one["is_selected"] = False


def add_people(chapter: Chapter, count: int = 1, **fields: Any) -> None:
    person = chapter["cast"][0] | {"slot": None, "name": "Ilse"}
    chapter["cast"] += [person | fields] * count


def person_without_name(chapter: Chapter) -> None:
    add_people(chapter, name="")


def person_apart(chapter: Chapter) -> None:
    add_people(chapter, is_selected=False)


def crowd(chapter: Chapter) -> None:
    add_people(chapter, 101)


def two_broken(chapter: Chapter) -> None:
    chapter["unanswered_attempts"][0]["status"] = "stopped"


def reroll_of_nothing(chapter: Chapter) -> None:
    chapter["unanswered_attempts"][0] |= {"kind": "reroll", "turn": None}


def reroll_of_turn_nought(chapter: Chapter) -> None:
    chapter["unanswered_attempts"][0] |= {"kind": "reroll", "turn": 0}


def reroll_beyond(chapter: Chapter) -> None:
    chapter["unanswered_attempts"][0] |= {"kind": "reroll", "turn": 11}


def numbered_prompt(chapter: Chapter) -> None:
    chapter["unanswered_attempts"][0]["turn"] = 3


def words_to_nobody(chapter: Chapter) -> None:
    chapter["unanswered_attempts"][0]["actor"] = 7


def unanswered_unordered(chapter: Chapter) -> None:
    chapter["unanswered_attempts"].reverse()


def _with_scenes(*scenes: tuple[int, int, int]) -> Change:
    def change(chapter: Chapter) -> None:
        chapter["narrative_drafts"][0]["scenes"] = [
            {"first_prompt": first, "last_prompt": last, "target_words": 300, "start": start}
            for first, last, start in scenes
        ]

    return change


def scene_before_the_text(chapter: Chapter) -> None:
    """A text that gets shorter as it is read moves no scene to a place that it could have."""
    _with_scenes((1, 10, -1))(chapter)
    draft = chapter["narrative_drafts"][0]
    draft["chapter_text"] = f"\ufeff{draft['chapter_text']}\r\n"


def draft_of_a_later_one(chapter: Chapter) -> None:
    chapter["narrative_drafts"][1]["origin"] = 1


def _with_kept(**fields: object) -> Change:
    def change(chapter: Chapter) -> None:
        kept = {"paragraph": 1, "prompts": [1, 2], "confidence": "likely"}
        chapter["narrative_drafts"][2]["kept_receipts"] = [kept | fields]

    return change


def kept_of_no_edited_draft(chapter: Chapter) -> None:
    kept = {"paragraph": 1, "prompts": [1], "confidence": "likely"}
    chapter["narrative_drafts"][0]["kept_receipts"] = [kept]


def working_copy_of_nothing(chapter: Chapter) -> None:
    chapter["working_copies"][0]["draft"] = 3


def two_working_copies(chapter: Chapter) -> None:
    chapter["working_copies"][0]["draft"] = chapter["working_copies"][1]["draft"]


def unknown_chosen_draft(chapter: Chapter) -> None:
    chapter["chosen_draft"]["draft"] = 3


IN_VERSION_2: list[tuple[Change, str]] = [
    (gap_in_turns, "chapter.turns[2].number must be 3: turns go from 1 to n"),
    (repeated_turn, "chapter.turns[3].number must be 4: turns go from 1 to n"),
    (turns_turned_round, "chapter.turns[0].number must be 1"),
    (turns_from_nought, "chapter.turns[0].number must be 1"),
    (fewer_turns, "chapter.prompt_index must be 9, the number of turns"),
    (more_prompts, "chapter.prompt_index must be 10, the number of turns"),
    (begun_draft, "chapter.prompt_index must be 0 before a chapter has begun"),
    (chosen_beyond, "chapter.turns[9].chosen must be the place of one of the attempts at turn 10"),
    (attempts_unordered, "chapter.turns[9].attempts must be in the order of their times"),
    (actor_absent, "chapter.turns[0].attempts[0].actor is none of the selected agents"),
    (edit_beyond, "chapter.turns[9].attempts[2].source must be the place of one of the attempts"),
    (edit_of_itself, "chapter.turns[9].attempts[2].source must be another attempt"),
    (edit_of_nothing, "chapter.turns[9].attempts[2].source must name an attempt for an edit"),
    (prompt_of_another, "chapter.turns[9].attempts[1].source must name an attempt for an edit"),
    (
        trial_of_nothing_changed,
        "chapter.turns[9].attempts[2].changed_layer must be what the trial changed",
    ),
    (
        trial_of_half_a_change,
        "chapter.turns[9].attempts[2].changed_layer must be what the trial changed",
    ),
    (
        trial_of_more_than_a_change,
        "turns[9].attempts[2].changed_layer must be what the trial changed",
    ),
    (
        trial_of_a_layer_in_words,
        "chapter.turns[9].attempts[2].changed_layer must be what the trial changed",
    ),
    (
        prompt_with_a_changed_layer,
        "chapter.turns[9].attempts[0].changed_layer must be null, since only a trial",
    ),
    (
        prompt_that_carries_something,
        "chapter.turns[9].attempts[0].given is nothing that a prompt of gamemaster carries",
    ),
    (
        words_that_carry_something,
        "chapter.unanswered_attempts[0].given is nothing that a prompt of gamemaster carries",
    ),
    (witness_unknown, "chapter.turns[0].attempts[0].witnesses is none of the selected agents"),
    (witness_doubled, "chapter.turns[0].attempts[0].witnesses must name each agent once"),
    (witness_of_event_unknown, "attempts[0].events[1].witnesses is none of the selected agents"),
    (witness_of_event_doubled, "attempts[0].events[0].witnesses must name each agent once"),
    (witness_of_words_unknown, "chapter.unanswered_attempts[1].witnesses is none of the selected"),
    (no_events, "chapter.turns[0].attempts[0].events must begin with the words"),
    (no_reply, "chapter.turns[0].attempts[0].events must begin with the words"),
    (no_words, "chapter.turns[0].attempts[0].events must begin with the words"),
    (reply_first, "chapter.turns[0].attempts[0].events must begin with the words"),
    (words_twice, "chapter.turns[0].attempts[0].events must begin with the words"),
    (system_first, "chapter.turns[0].attempts[0].events must begin with the words"),
    (other_words, "chapter.turns[0].attempts[0].events[0].text must be the words of the attempt"),
    (speaker_absent, "chapter.turns[0].attempts[0].events[1].agent_slot is none of the selected"),
    (speaking_words, "chapter.turns[0].attempts[0].events[0].agent_slot must be null"),
    (delta_of_no_attempt, "chapter.memory_blocks[1].attempt must be null for a lock"),
    (delta_beyond_attempts, "memory_blocks[1].attempt must be the place of one of the attempts at"),
    (lock_of_an_attempt, "chapter.memory_blocks[0].attempt must be null for a lock"),
    (
        correction_of_an_attempt,
        "chapter.memory_blocks[2].attempt must be null for a lock",
    ),
    (lock_of_some, "chapter.memory_blocks[0].audience must be null for a world_chapter_lock"),
    (delta_of_nobody_named, "chapter.memory_blocks[1].audience must be null for a world_chapter_"),
    (audience_absent, "chapter.memory_blocks[1].audience is none of the selected agents"),
    (audience_twice, "chapter.memory_blocks[1].audience must name each agent once"),
    (readers_unordered, "chapter.memory_blocks[2].audience must be in ascending order"),
    (delta_twice, "chapter.memory_blocks[2] is a second delta of the same prompts, attempt"),
    (uncounted_delta_twice, "chapter.memory_blocks[3] is a second delta of the same prompts, att"),
    (uncounted_delta, "chapter.last_summarized_prompt_index must be 0, where the last delta ends"),
    (draft_beyond_attempts, "chapter.narrative_drafts[0].attempt must be the place of one of the"),
    (draft_of_nothing_played, "chapter.narrative_drafts[0].attempt must be null before the first"),
    (_with_scenes((1, 4, 0), (6, 10, 5)), "narrative_drafts[0].scenes must tell the prompts from"),
    (_with_scenes((1, 4, 0), (5, 9, 5)), "narrative_drafts[0].scenes must tell the prompts from"),
    (_with_scenes((1, 4, 0), (5, 4, 3), (5, 10, 5)), "scenes must each tell one prompt or more"),
    (_with_scenes((1, 4, 5), (5, 10, 0)), "scenes must begin one after the other in chapter_text"),
    (_with_scenes((1, 4, 1), (5, 10, 5)), "scenes must begin one after the other in chapter_text"),
    (_with_scenes((1, 4, 0), (5, 10, 18)), "scenes must begin one after the other in chapter_text"),
    (scene_before_the_text, "narrative_drafts[0].scenes[0].start must be at least 0"),
    (draft_of_a_later_one, "narrative_drafts[1].origin must be the place of an earlier draft"),
    (kept_of_no_edited_draft, "[0].kept_receipts must be empty unless the draft is_edited"),
    (_with_kept(paragraph=1_000), "[2].kept_receipts must name paragraphs of chapter_text in"),
    (
        _with_kept(prompts=[2, 1]),
        "[2].kept_receipts[0].prompts must be numbers of prompts in",
    ),
    (_with_kept(prompts=[11]), "[2].kept_receipts[0].prompts must be numbers of prompts in"),
    (_with_kept(prompts=[]), "[2].kept_receipts[0].confidence must be invented where there are"),
    (_with_kept(confidence="invented"), "[2].kept_receipts[0].confidence must be invented where"),
    (working_copy_of_nothing, "chapter.working_copies must name entries of narrative_drafts"),
    (two_working_copies, "chapter.working_copies must name entries of narrative_drafts, each once"),
    (unknown_chosen_draft, "chapter.chosen_draft.draft must be the place of one of the narrative"),
    (drafts_unordered, "chapter.narrative_drafts must be in the order of their times"),
    (slot_twice, "chapter.cast must name each slot once"),
    (nobody_takes_part, "must be 1 to n without a gap"),
    (person_without_name, "chapter.cast[3] is a person without a slot, who must have a name"),
    (person_apart, "chapter.cast[3] is a person without a slot, who must have a name and take"),
    (crowd, "chapter.cast has more than 100 people without a slot"),
    (two_broken, "chapter.unanswered_attempts may hold one attempt at most"),
    (reroll_of_nothing, "chapter.unanswered_attempts[0].turn must be a turn for a reroll"),
    (reroll_of_turn_nought, "chapter.unanswered_attempts[0].turn must be a turn for a reroll"),
    (reroll_beyond, "chapter.unanswered_attempts[0].turn must be a turn for a reroll"),
    (numbered_prompt, "chapter.unanswered_attempts[0].turn must be a turn for a reroll"),
    (words_to_nobody, "chapter.unanswered_attempts[0].actor is none of the selected"),
    (unanswered_unordered, "chapter.unanswered_attempts must be in the order of their times"),
]


@pytest.mark.parametrize(("change", "message"), OF_MEMORY_AND_STATE + IN_VERSION_2)
def test_what_does_not_fit_together(change: Change, message: str) -> None:
    file = json.loads(export_chapter(make_whole_chapter().pk).to_json())
    change(file["chapter"])
    assert message in refusal(file)


def test_a_delta_of_an_attempt_that_is_not_chosen_is_taken() -> None:
    """The user may choose the attempt later. The delta then counts."""
    file = json.loads(export_chapter(make_whole_chapter().pk).to_json())
    uncounted_delta_twice(file["chapter"])
    del file["chapter"]["memory_blocks"][3]
    blocks = read_chapter_file(json.dumps(file).encode()).memory_blocks
    assert [block.attempt for block in blocks] == [None, 0, 2, None]
