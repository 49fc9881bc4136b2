"""The state machine that plays chapters of a mode at random: the rules between attempts, and the
end."""

import json
from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
)

from agents.flows.replies.layers_to_try import read_reply
from agents.flows.replies.tests.trying import try_again
from agents.models import LLMArtifact
from agents.modes.declaration import Stage
from agents.modes.registry import has_stage
from memory.models import MemoryBlock
from sessions.chapter.chapters import delete_chapter
from sessions.exceptions import WrongState
from sessions.models import Attempt, Session, State
from storyengine.api.tests.calling import address, call
from storyengine.tests.every_mode.attempts import PlaysAttempts
from storyengine.tests.every_mode.knowing import check_calls, check_memory, known_to
from storyengine.tests.every_mode.playing import (
    Step,
    Try,
    chosen_events,
    committed,
    events_by_attempt,
    exported,
    start,
    work_until_none_is_due,
    world_after,
)
from storyengine.tests.every_mode.replaying import is_told_the_same, play_the_chosen
from storyengine.tests.every_mode.scripted_model import marks_in, text_of

# The most copies of a chapter, because making one takes longer than any other step.
COPIES = 2


class Play(PlaysAttempts):
    """The rules for acts, rulings and workers between the attempts, for copies, and for the end."""

    @precondition(lambda self: self.can_change)
    @rule(data=st.data(), is_used=st.booleans())
    def try_with_another_layer(self, data: st.DataObject, is_used: bool) -> None:
        """Try the latest reply with one layer changed. The trial changes the story only if it is
        chosen."""
        try:
            tried = read_reply(self.chapter.pk)
        except WrongState:
            # Nobody's call is behind the reply: it came from a file or was written by hand.
            return
        like = self.latest.chosen
        layer = data.draw(st.sampled_from(tried.layers), label="layer")
        scripts = self.plan(data, like.row.actor)
        first = len(self.model.history)
        text = data.draw(st.sampled_from(["Something else.", ""]))
        row = try_again(self.chapter, text, number=layer.number)
        assert row.status == Attempt.Status.COMMITTED
        for sent in map(text_of, filter(self.model.is_writers, self.model.history[first:])):
            assert text in sent
            assert not layer.text.strip() or layer.text not in sent
        one = Try(row, like.sent, scripts, [], "")
        self.latest.tries.append(one)
        self.check_now()
        if is_used:
            chosen = {"attempt_id": str(row.pk)}
            path = f"turns/{len(self.turns)}/choose"
            assert self.send(path, chosen).status_code == 200
            self.broken = None
        else:
            self.latest.tries.remove(one)
            return
        one.events, one.world = chosen_events(self.chapter, len(self.turns)), self.world()
        self.latest.chosen, self.latest.world = one, one.world

    @precondition(lambda self: self.turns and self.scenario.acts)
    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        body = data.draw(st.sampled_from(self.scenario.acts))
        answer = self.send("act", body)
        if answer.status_code == 422:
            return
        assert answer.status_code == 201, answer.content
        self.latest.acts.append(body)
        self.latest.world, self.broken = self.world(), None
        for action in ("reroll", f"turns/{len(self.turns)}/edit"):
            assert self.send(action, {"text": "No."} if "edit" in action else {}).status_code == 409

    @rule(data=st.data())
    def rule_on_canon(self, data: st.DataObject) -> None:
        who = data.draw(self.some()) if self.slots else None
        body = {"canon": f"so is {self.model.mark()}", "readers": who}
        answer = self.send("canon-correction", body)
        assert answer.status_code == 201, answer.content
        block = self.chapter.memory_blocks.filter(type=MemoryBlock.Type.CANON_CORRECTION).latest(
            "created_at"
        )
        assert who is None or block.audience == sorted(who)

    @precondition(lambda self: self.turns and len(self.made) <= COPIES)
    @rule(data=st.data(), is_fork=st.booleans(), goes_on=st.booleans())
    def copy(self, data: st.DataObject, is_fork: bool, goes_on: bool) -> None:
        """Fork the chapter, or write it into a file and read that. A file has what is broken too,
        which can be retried or kept in the copy."""
        until = data.draw(st.integers(1, len(self.turns))) if is_fork else len(self.turns)
        if is_fork:
            answer = self.send("fork", {"number": until})
        else:
            answer = call("POST", "/api/session/import", exported(self.chapter))
        assert answer.status_code == 201, answer.content
        copy = Session.objects.get(pk=answer.json()["session_id"])
        self.made.append(copy.pk)
        if not is_fork:
            self.imported[str(copy.pk)] = until
        assert is_fork or exported(copy)["chapter"] == exported(self.chapter)["chapter"]
        check_memory(copy)
        steps = [self.copied(copy, number) for number in range(1, until + 1)]
        if goes_on:
            self.chapter, self.turns, self.lost = copy, steps, []
            self.broken = None if is_fork else self.broken

    def copied(self, copy: Session, number: int) -> Step:
        """Compare a turn with its copy, and return the step of the copy."""
        step = self.turns[number - 1]
        assert world_after(copy, number) == step.world
        assert is_told_the_same(copy, chosen_events(copy, number), self.chapter, step.chosen.events)
        rows = committed(self.chapter, number)
        new = {old.pk: row for old, row in zip(rows, committed(copy, number), strict=True)}
        tries = [
            Try(new[one.row.pk], one.sent, one.scripts, one.events, one.world, one.then, one.edits)
            for one in step.tries
        ]
        chosen = tries[step.tries.index(step.chosen)]
        told = events_by_attempt(copy, number)
        for one in tries:
            one.events = told[str(one.row.pk)]
        return Step(tries, chosen, list(step.acts), step.world)

    @precondition(lambda self: self.turns)
    @rule(data=st.data())
    def end_and_reopen(self, data: st.DataObject) -> None:
        """End the chapter, try to play on, and reopen it."""
        self.end()
        body = self.prompt(data)
        for action in ("prompt", "reroll", f"turns/{len(self.turns)}/edit", "keep"):
            sent = {"prompt": body, "reroll": {}, "keep": {}}.get(action, {"text": "No."})
            assert self.send(action, sent).status_code == 409, action
        assert self.send("reopen", {}).status_code == 200
        assert self.reload().state == State.ACTIVE

    def end(self) -> None:
        # Whoever would act next does so before the end, because nobody does afterwards.
        self.work()
        assert self.send("end", {"accept_calls": True}).status_code in (200, 202)
        self.work()
        ended = self.reload()
        assert ended.state == State.ENDED, list(ended.jobs.values())

    def teardown(self) -> None:
        """Play only the chosen attempts in another chapter, end this one, and go on with the next
        chapter of its story."""
        try:
            if self.turns and self.is_fine:
                for number in range(1, len(self.turns) + 1):
                    self.check_turn(number)
                self.made.append(
                    play_the_chosen(self.scenario, self.model, self.reload(), self.turns).pk
                )
                self.end()
                self.narrate()
                # The next chapter follows the one by which the story goes, which is no fork.
                if self.chapter.origin_id is None:
                    self.begin_the_next()
        finally:
            for one in self.made:
                with suppress(WrongState):
                    delete_chapter(one)

    def narrate(self) -> None:
        if has_stage(self.scenario.mode, Stage.NARRATION):
            assert self.send("build-narrative", None).status_code in (200, 202)
            work_until_none_is_due()
            assert self.chapter.narrative_drafts.exists()
            self.check_now()

    def begin_the_next(self) -> None:
        """Whoever goes on in the next chapter knows there what it witnessed in this one, and no
        more."""
        answer = call("POST", f"/api/story/{self.chapter.story_id}/chapter")
        assert answer.status_code == 201, answer.content
        before = {
            slot: known_to(self.chapter, slot, len(self.turns) + 1)
            for slot in (None, *self.chapter.selected_agent_slots)
        }
        following = Session.objects.get(pk=answer.json()["session_id"])
        self.made.append(following.pk)
        start(following)
        for block in following.memory_blocks.filter(type=MemoryBlock.Type.STORY_SO_FAR):
            for slot in block.audience or [None]:
                told = marks_in([json.dumps(block.json_payload)])
                assert told <= before.get(slot, before[None])
        body = self.scenario.prompts[0] if self.scenario.prompts else {"agent_slot": 1}
        sent = call("POST", address(following, "prompt"), {"user_text": "Go on."} | body)
        assert sent.status_code == 201, sent.content
        check_calls(following, LLMArtifact.objects.filter(session=following))
