"""Plays a chapter of the fold test through the program's own flows, in this process, and asks for
the exact prompts. Django has to be set up before this module is imported."""

import json
import random
import uuid
from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings

from agents.calling.model_access import substitute_provider
from agents.flows.beginning.locking import request_lock
from agents.flows.replies.choosing import choose_reply
from agents.flows.replies.dry_run import look_ahead
from agents.flows.replies.finishing import commit_reply
from agents.flows.replies.turns import store_prompt, write_to_end
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.modes.registry import who_answers
from agents.prompting.sent_layers import join_layers
from agents.running.jobs import due_jobs
from agents.running.work import work_on
from bench.fold.reading import Asking, Tally, check_leaks, check_prompt, check_world, read_view
from memory.canon.corrections import write_correction
from memory.fold.folding import fold_chapter
from memory.telling.now_view import now_view
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import SetupChange, create_chapter, save_setup
from sessions.models import Attempt, Session
from sessions.play.attempts import open_reroll
from storyengine.exchange.forking import fork_chapter
from testing.exact_memory import ExactAgent
from testing.model_replies import COLORS, lock_payload
from testing.told_story import CAST, Kind, Ruling, Story, Subject, Turn, Writer

LARGE, MEDIUM, SMALL = 128_000, 32_000, 6_000
WINDOWS = (LARGE, MEDIUM, SMALL)
# The stages of a chapter whose prompts are counted apart.
IN_PLAY, AT_THE_END, OF_A_FORK = "in play", "at the end", "of a fork"
# How often another attempt is made, and how often memory is written only after later turns.
_OTHER_ATTEMPTS, _LATE_MEMORY = 0.15, 0.3
# How many turns call the model for their replies. Later, every tenth does.
_MOST_CALLED, _TURNS_OF_A_FORK = 50, 10
# How many subjects a prompt of a small window names.
_NAMED = 4


Tallies = dict[tuple[str, int], Tally]


def play_counted(turns: int, subjects: int, seed: int) -> list[dict[str, Any]]:
    """Play a chapter with the whole cast, and return the counts."""
    return counts_of(play_chapter(turns, subjects=subjects, cast=len(CAST), seed=seed))


def counts_of(tallies: Tallies) -> list[dict[str, Any]]:
    return [
        {"stage": stage, "window": window, **asdict(tally)}
        for (stage, window), tally in tallies.items()
    ]


def set_window(window: int) -> None:
    """Let the agents use a model that nobody knows, with this window."""
    settings.LLM = "openai"
    settings.MODEL = "a-model-nobody-knows"
    settings.MODEL_BY_AGENT = {}
    settings.CONTEXT_WINDOW = window
    settings.MAX_OUTPUT = 1_000
    settings.CALLS_PER_MINUTE = settings.CHAPTER_CALLS_PER_MINUTE = 1_000_000


def play_chapter(turns: int, *, subjects: int, cast: int, seed: int) -> Tallies:
    """Play a chapter of so many turns, with corrections in its second half and forks at its end,
    and count what is right in its prompts.

    During play one character is asked after each turn, and the Now view. At the end all characters
    are asked, and the world after each turn.
    """
    set_window(LARGE)
    with Player(Writer(seed, subjects=subjects, cast=cast)) as player:
        for number in range(1, turns + 1):
            player.play(calls_model=number <= _MOST_CALLED or not number % 10)
            if number > turns // 2 and not number % (turns // 8):
                player.correct()
            player.ask(number % cast + 1, LARGE)
            player.ask_world()
        player.stage = AT_THE_END
        player.remember()
        player.ask_all()
        for number in range(1, turns + 1):
            player.ask_world(number)
    for number in (turns // 3, turns - 5):
        with player.fork(number, seed + number) as fork:
            fork.ask_all((LARGE,))
            fork.ask_world()
            for _ in range(_TURNS_OF_A_FORK):
                fork.play()
            fork.ask_all()
            fork.ask_world()
    # The origin is as it was.
    player.ask_all((LARGE,))
    return player.tallies


class Player:
    """Plays one chapter, with a scripted agent 8. Use it as a context manager.

    `tallies` has the counts by the stage of the chapter and the window of the prompts.
    """

    def __init__(
        self,
        writer: Writer,
        chapter_id: uuid.UUID | None = None,
        *,
        tallies: Tallies | None = None,
        stage: str = IN_PLAY,
    ) -> None:
        self.writer = writer
        self.story: Story = writer.story
        self.agent = ExactAgent(self.story)
        self.tallies: Tallies = tallies if tallies is not None else {}
        self.stage = stage
        # The chance of the player is not that of the story, so that the same turns are written
        # whatever is asked.
        self.chance = random.Random(len(self.story.subjects))  # noqa: S311 - it has to repeat
        self.chapter_id = chapter_id
        self._provider = ScriptedProvider(fallback=self._answer)
        self._substitution = substitute_provider(self._provider)

    def __enter__(self) -> "Player":
        self._substitution.__enter__()
        if self.chapter_id is None:
            self.chapter_id = self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._substitution.__exit__(None, None, None)

    @property
    def chapter(self) -> Session:
        assert self.chapter_id is not None, "The chapter is opened when the player is entered."
        return get_chapter(self.chapter_id)

    def tally(self, window: int) -> Tally:
        return self.tallies.setdefault((self.stage, window), Tally())

    def play(self, *, calls_model: bool = True) -> None:
        """Play the next turn, perhaps with other attempts at it, and let memory be written, perhaps
        later."""
        turn = self.writer.next_turn()
        self.story.add(turn)
        first = self._send(turn, calls_model=calls_model)
        self._perhaps_remember()
        if self.chance.random() < _OTHER_ATTEMPTS:
            self._try_again(turn, first)
            self._perhaps_remember()
        self._provider.history.clear()

    def remember(self) -> None:
        """Write all memory that is due."""
        while job_id := due_jobs().values_list("pk", flat=True).first():
            work_on(job_id)

    def ask(self, reader: int, window: int, *, named: Collection[Subject] | None = None) -> None:
        """Ask for the exact prompt of this character, and count what is right in it."""
        set_window(window)
        chapter = self.chapter
        words = " ".join(f"Think of this: {one.key}." for one in named or ())
        run = look_ahead(chapter, agent_slot=reader, user_text=words or "What now?")
        assert not run.too_long, run.too_long
        memory = [layer for layer in run.layers if layer.name == "STRUCTURED_MEMORY"]
        asking = Asking(
            text="\n\n".join(message.content for message in join_layers(run.layers)),
            reader=reader,
            turn=chapter.prompt_index,
            covered=chapter.last_summarized_prompt_index,
            named=named,
            is_whole=not any(layer.dropped for layer in memory),
        )
        check_prompt(asking, self.story, self.agent.written, self.tally(window))

    def ask_all(self, windows: Sequence[int] = WINDOWS) -> None:
        """Ask every character in each window. In the smallest window, ask only for a few subjects
        that the prompt names."""
        for window in windows:
            for reader in self.story.readers:
                count = min(_NAMED, len(self.story.subjects))
                named = self.chance.sample(self.story.subjects, count) if window == SMALL else None
                self.ask(reader, window, named=named)
        set_window(LARGE)

    def ask_world(self, turn: int | None = None) -> None:
        """Compare the world as the Now view has it with the truth, now or after an earlier turn."""
        chapter = self.chapter
        before = None if turn is None else turn + 1
        sections = now_view(fold_chapter(chapter, before=before), chapter.characters)
        covered = chapter.last_summarized_prompt_index
        if turn is not None:
            ends = chapter.memory_blocks.filter(
                type="turn_delta", to_prompt_index__lte=turn, attempt__chosen_for__isnull=False
            ).values_list("to_prompt_index", flat=True)
            covered = max(ends, default=0)
        # A ruling changes the past too. A fork from before the ruling shows what was then.
        ruled = {one.subject for one in self.story.rulings if turn and one.after > turn}
        check_world(sections, self.story, covered, ruled, self.tally(LARGE))

    def correct(self) -> None:
        """Correct a value that memory has, if there is one that was stated before its end."""
        chapter = self.chapter
        covered = chapter.last_summarized_prompt_index
        world = self.story.known()
        by_reader = {one: self.story.known([one]) for one in self.story.readers}
        ruled = self.story.ruled
        for subject, known in world.items():
            is_state = subject.kind in (Kind.HOLDER, Kind.INJURY, Kind.PROMISE, Kind.PLACE)
            whose = {one: theirs[subject] for one, theirs in by_reader.items() if subject in theirs}
            readers = tuple(one for one, theirs in whose.items() if theirs.now == known.now)
            latest = max(theirs.told[-1][0] for theirs in (known, *whose.values()))
            if not is_state or subject in ruled or latest > covered or not readers:
                continue
            new = next(one for one in subject.values if one != known.now)
            # The page offers each fact in the words of memory.
            view = now_view(fold_chapter(chapter), chapter.characters)
            offered = (
                item.replaces
                for item, about, value in read_view(view, self.story)
                if (about, value) == (subject, known.now)
            )
            # A page that does not offer the value is wrong, and is counted by `ask_world`.
            if not (replaces := next(offered, "")):
                continue
            write_correction(chapter.pk, replaces=replaces, canon=f"{subject.key}: {new}")
            ruling = Ruling(chapter.prompt_index, subject, known.now, new, readers)
            self.story.rulings.append(ruling)
            return

    def fork(self, number: int, seed: int) -> "Player":
        """Fork the chapter after this turn. Return a player of the fork, with a story of its
        own."""
        set_window(LARGE)
        copy = fork_chapter(self.chapter.pk, number)
        writer = self.writer.after(number, seed)
        player = Player(writer, copy.pk, tallies=self.tallies, stage=OF_A_FORK)
        player.agent.written = set(self.agent.written)
        return player

    def _open(self) -> uuid.UUID:
        chapter = create_chapter()
        names = {str(slot): self.story.name_of(slot) for slot in self.story.readers}
        change = SetupChange(
            world_text="A village at the end of a road.",
            chapter_text="A storm is coming, and everybody has something to hide.",
            selected_agent_slots=list(self.story.readers),
            texts={"name": names, "identity_text": dict.fromkeys(names, "Stubborn.")},
        )
        save_setup(chapter.pk, change)
        request_lock(chapter.pk)
        self.remember()
        return chapter.pk

    def _send(self, turn: Turn, *, calls_model: bool) -> Attempt:
        """Send the turn as a prompt. Without `calls_model`, store the scripted reply as the flow
        stores a reply, but compose no request."""
        assert self.chapter_id is not None
        chapter_id, words, key = self.chapter_id, turn.words, turn.mark
        actor, witnesses = turn.actor, turn.witnesses
        store = partial(
            store_prompt,
            chapter_id,
            actor=actor,
            words=words,
            submission_key=key,
            witnesses=witnesses,
        )
        if calls_model:
            async_to_sync(write_to_end)(store)
        else:
            commit_reply(store().attempt, turn.reply)
        return Attempt.objects.get(session_id=self.chapter_id, submission_key=turn.mark)

    def _try_again(self, turn: Turn, first: Attempt) -> None:
        """Make another attempt at the latest turn. Choose the first attempt again in half of the
        cases."""
        assert self.chapter_id is not None
        other = self.writer.other_attempt()
        self.story.add(other)
        opened = open_reroll(
            self.chapter_id,
            submission_key=other.mark,
            actor=other.actor,
            words=other.words,
            witnesses=other.witnesses,
            answers=who_answers,
        )
        commit_reply(opened.attempt, other.reply)
        if self.chance.random() < 0.5:
            self._perhaps_remember()
            self.story.add(turn)
            choose_reply(self.chapter_id, turn.number, first.pk)

    def _perhaps_remember(self) -> None:
        if self.chance.random() >= _LATE_MEMORY:
            self.remember()

    def _answer(self, request: ModelRequest) -> str:
        system, prompt = request.messages[0].content, request.messages[-1].content
        if "turn_delta" in system:
            delta, audience = self.agent.delta(prompt)
            check_leaks(prompt, audience, self.story, self.tally(LARGE))
            return json.dumps(delta)
        if "world_chapter_lock" in system:
            cast = [
                {"slot": slot, "color": COLORS[slot - 1], "name": self.story.name_of(slot)}
                for slot in self.story.readers
            ]
            return json.dumps(lock_payload(cast))
        return self.agent.reply(prompt)
