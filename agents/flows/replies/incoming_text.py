"""Cleans the replies of characters while they are written, and says how a reply has ended."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from agents.calling.calls import Reply
from agents.calling.model_access import AgentModel
from agents.llm.providers.failures.call_errors import EmptyReply
from agents.prompting.cleaning.plain_prose import end_at_sentence, without_heading
from agents.prompting.cleaning.reply_cleaning import ReplyCleaner
from agents.running.live import LiveReply
from sessions.language.sentences import ends_sentence
from sessions.language.text import is_blank, scrub_reply
from sessions.models import Attempt
from sessions.play.played_world import everybody_at


@dataclass(frozen=True)
class FinishedReply:
    """The text of a reply as it is committed. `Attempt` explains the other fields."""

    text: str
    ended_before: str = ""
    was_cut: bool = False


@dataclass
class ReplyReader:
    """Reads the text of one reply. `cleaner` is a new one, or None if nobody of the cast acts."""

    model: AgentModel
    cleaner: ReplyCleaner | None

    @property
    def is_small(self) -> bool:
        return self.model.is_small

    @property
    def has_ended(self) -> bool:
        """Whether the model went on as somebody else, so that the rest of its text is left out."""
        return bool(self.cleaner and self.cleaner.ended_before)

    def is_enough(self, _text: str) -> bool:
        """Return whether the model may stop, because the rest of its text is left out.

        A call that may cost something is read to its end, because its server reports the tokens
        last.
        """
        return self.has_ended and self.is_small

    def show(self, text: str, show: Callable[[str], None]) -> None:
        """Show the part of this piece of the reply that is clear by now."""
        clear = self.cleaner.take(text) if self.cleaner else text
        if clear:
            show(clear)

    def show_rest(self, show: Callable[[str], None]) -> None:
        """Show the text that was held back, because nothing follows it."""
        if self.cleaner and (rest := self.cleaner.end()):
            show(rest)

    def new(self) -> "ReplyReader":
        """Return a reader for another reply of the same character."""
        return ReplyReader(self.model, self.cleaner and self.cleaner.new())

    def new_front(self) -> ReplyCleaner:
        """Return a cleaner for the beginning of a continuation, where the model may write its own
        name once more."""
        return ReplyCleaner(self.cleaner.own if self.cleaner else "", continues=True)

    def chars_of(self, beginning: str) -> int:
        """Return how many characters of the finished reply come from this beginning of the model's
        text. The rest of the text, if any, begins on another line.

        Whether a part of the text is kept depends only on the signs before it, so the rest of the
        text need not be known.
        """
        # A paragraph is added, because a heading and some labels count only if text follows.
        text, ended_before = f"{scrub_reply(beginning)}\n\n.", ""
        if self.is_small:
            text = without_heading(text)
        if self.cleaner:
            text, ended_before = self.cleaner.clean(text)
        return len((text if ended_before else text.removesuffix(".")).rstrip())

    def kept(self, text: str) -> str:
        """Return the text of a broken reply as it is committed if the user keeps it. As in a whole
        reply, a small model's heading is left out."""
        return without_heading(text) if self.is_small else text

    def finish(self, reply: Reply) -> FinishedReply:
        """Return the whole reply as it is committed.

        A small model may begin with a heading of the request, and seldom ends its text by itself.
        If its reply was cut, the text ends with its last complete sentence. Raises EmptyReply if
        the model spoke only for somebody else.
        """
        text, ended_before = without_heading(reply.text) if self.is_small else reply.text, ""
        if self.cleaner:
            text, ended_before = self.cleaner.clean(text)
        if ended_before and is_blank(text):
            raise EmptyReply(
                f"The model spoke only for {ended_before}, so nothing of its reply was taken. Your "
                "prompt is kept; try again."
            )
        was_cut = reply.was_cut and not ended_before
        if was_cut and self.is_small:
            whole = end_at_sentence(text)
            was_cut = whole == text.rstrip() and not ends_sentence(text)
            text = whole
        return FinishedReply(text, ended_before, was_cut)


_BEGINS_ANEW = "The model had only thought so far. Its answer begins now."


@dataclass(frozen=True)
class ShownReply:
    """Shows the text of a reply, as far as it is clear, to those who read the reply while it is
    written."""

    reader: ReplyReader
    live: LiveReply

    def show(self, piece: str) -> None:
        self.reader.show(piece, self.live.append)

    def here(self) -> Callable[[], None]:
        """Return a function that takes back all text that is shown after this call."""
        place, cleaner = self.live.place, deepcopy(self.reader.cleaner)

        def go_back() -> None:
            self.reader.cleaner = deepcopy(cleaner)
            self.live.go_back(place, self.live.note or _BEGINS_ANEW)

        return go_back


def reader_of(attempt: Attempt, model: AgentModel) -> ReplyReader:
    """Return a reader for the reply of this attempt, which `model` writes."""
    if attempt.actor is None:
        return ReplyReader(model, None)
    everybody = everybody_at(attempt.session, attempt=attempt)
    others = [one.name for one in everybody if one.number != attempt.actor]
    own = attempt.session.character(attempt.actor).name
    number = attempt.turn.number if attempt.turn else attempt.session.prompt_index + 1
    # Number 1 is left out: a line that begins with "1." may be the first entry of a list.
    numbers = [one for one in (number, number + 1) if one > 1]
    return ReplyReader(model, ReplyCleaner(own, others, model.is_small, numbers))
