"""Tests of what is a word of a reply: thoughts and marks of templates are taken off in every form,
wherever the text is cut into pieces, and no word of prose is lost."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.providers.answers.answer_text import AnswerText
from agents.llm.providers.base import Restart, StreamPart, TakenOff, TextDelta

THOUGHT, REPLY = "The user wants Mara to be dry.", "I lift the lamp."
SIZES = (1, 2, 3, 7, 10_000)


class Read:
    """An answer after it was read, in pieces of these lengths."""

    def __init__(
        self, pieces: Sequence[str], *, holds: bool = False, continues: bool = False
    ) -> None:
        self.text = self.taken_off = ""
        self.restarts = 0
        self.reader = AnswerText(holds=holds, continues=continues)
        for piece in pieces:
            self._take(self.reader.take(piece))
        self.before_end = self.text
        self._take(self.reader.end(is_whole=True))

    def _take(self, parts: Sequence[StreamPart]) -> None:
        for part in parts:
            match part:
                case TextDelta():
                    assert part.text
                    self.text += part.text
                case TakenOff():
                    self.taken_off += part.text
                case Restart():
                    self.taken_off, self.text = self.taken_off + self.text, ""
                    self.restarts += 1


def in_pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# Each hides THOUGHT, which `{}` stands for, and goes on with the reply.
THOUGHTS = [
    "<think>{}</think>",
    "<thinking>\n{}\n</thinking>\n\n",
    "<Thought >{}</THOUGHT >",
    "<reasoning effort='low'>{}</reasoning>",
    "<seed:think>{}</seed:think>",
    "<inner_monologue>{}</inner_monologue>",
    "[THINK]{}[/THINK]",
    "\u25c1think\u25b7{}\u25c1/think\u25b7",
    "<|begin_of_thought|>{}<|end_of_thought|>",
    "<|START_THINKING|>{}<|END_THINKING|>",
    "<|begin|>assistant<|think|>{}<|end|><|begin|>assistant<|content|>",
    "<|channel>thought\n{}<channel|>",
    "<unused94>thought\n{}<unused95>",
    "<|inner_prefix|>{}<|inner_suffix|>",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|start|>assistant<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|message|>",
    "<|channel|>commentary<|message|>{}<|end|><|channel|>analysis<|message|>Hm.<|end|>"
    "<|start|>assistant<|channel|>final <|constrain|>text<|message|>",
    "analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
    "analysis{}assistantfinal",
    "Here is my thought process:\n\n{}\n\nHere is my response:\n\n",
    "<analysis>{}</analysis>",
    "<inner_thoughts>{}</inner_thoughts>",
    "<thought-process>{}</thought-process>",
    "<longcat_think>{}</longcat_think>",
    "<antThinking>{}</antThinking>",
    "<think_fast>{}</think_fast>",
    "<|think_start|>{}<|think_end|>",
    "<start_of_thought>{}<end_of_thought>",
    "<|think|>{}</think>",
    "<think|>{}</think|>",
    "[Thinking]{}[/Thinking]",
    "[BEGIN_THINKING]{}[END_THINKING]",
    "&lt;think&gt;{}&lt;/think&gt;",
    "\\<think\\>{}\\</think\\>",
    "\u3010think\u3011{}\u3010/think\u3011",
    "**<think>**{}**</think>**",
    "`<think>`{}`</think>`",
    "```thinking\n{}\n```\n\n",
    "```\n<think>{}</think>\n```\n",
    "<plan>{}</plan>\n",
    "Thinking...\n{}\n...done thinking.\n\n",
    "Here's my reasoning:\n{}\nHere's my answer:\n",
    '<details type="reasoning" done="true"><summary>Thought for 3 seconds</summary>{}</details>\n',
    "<details>\n<summary>Thinking</summary>{}</details>\n",
    "analysis\n{}\nassistantfinal\n",
    "<|channel|>analysis{}<|end|><|start|>assistant<|channel|>final<|message|>",
    "assistant<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
    "<think>Hm.</think>\n\n<think>{}</think>\n\n",
    "<think>\n{} <think> again\n</think>\n",
    "<think/>\n\n",
    "<|im_start|>assistant\n<think>{}</think>",
]
# In these, the beginning stood in the template of the request.
UNOPENED = [
    "{}\n</think>\n\n",
    "{}</think>",
    "{}\n</thinking>\n",
    "{}[/THINK]",
    "{}\u25c1/think\u25b7",
    "{}<|end_of_thought|>\n",
    "Hm.\n\n{}</seed:think>\n",
    "{}</analysis>",
    "{}</|think|>",
    "{}<|think_end|>",
    "{}<|end|><|start|>assistant<|channel|>final<|message|>",
]
MARKS_BEHIND = [
    "<|im_end|>",
    "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd then?",
    "</s>",
    "<end_of_turn>\n<start_of_turn>user\nMore",
    "<turn|>",
    " [INST] What now?",
    "<|endoftext|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|END_OF_TURN_TOKEN|>",
    "<|user|>\nGo on.",
    "[|endofturn|]",
    "<EOS>",
    "\n\n### Instruction:\nGo on.",
    "\n### User:\n",
    "\n### User: Go on.",
    "\n### INSTRUCTION:\nGo on.",
    "\n<human>: Go on.",
    "\n<user>\nGo on.",
    "<eot_id>",
    "<EOS_TOKEN>",
    "<im_end>",
    "</SYS>",
    "</assistant>",
    "&lt;|im_end|&gt;",
    "<|tool\u2581outputs\u2581begin|>",
    # These were cut.
    "<|im_end",
    "</s",
    "<end_of_tu",
]
MARKS_BEFORE = [
    "[/INST] ",
    "<s> ",
    "<bos>",
    "<|im_start|>assistant\n",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<start_of_turn>model\n",
    "<|turn>model\n",
    "<|assistant|>",
    "### Response:\n",
    "assistant\n\n",
    "model\n",
    "final<|message|>",
    "<bot>: ",
    "\ufeff",
    "\ufeffanalysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>",
    "\n\n   \n",
]


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("form", [*THOUGHTS, *UNOPENED])
def test_thoughts_are_taken_off_in_every_form(form: str, *, holds: bool) -> None:
    for size in SIZES:
        read = Read(in_pieces(form.replace("{}", THOUGHT) + REPLY, size), holds=holds)
        assert read.text == REPLY
        assert (THOUGHT in read.taken_off) == ("{}" in form)
        assert read.reader.had_thoughts == ("/>" not in form)
        assert read.restarts == (form in UNOPENED and not holds)


@pytest.mark.parametrize("behind", MARKS_BEHIND)
def test_a_mark_of_a_template_ends_the_reply(behind: str) -> None:
    for size in SIZES:
        read = Read(in_pieces(REPLY + behind, size))
        assert read.text.rstrip() == REPLY
        assert read.reader.has_ended or behind.strip() in read.taken_off


@pytest.mark.parametrize(
    "text",
    [
        'She wrote "<think>" on the wall.',
        "She wrote \u201c<|im_end|>\u201d there.",
        "He typed `<think>` and `</think>`.",
        "He typed <think> and </think> there.",
        "The tag </think> ends it.",
        'It said "cat </think>" and no more.',
        '"</think>" she wrote.',
        "Yes, <think> I do.",
        "I go. <think> is what I read.",
        "I <s>hate</s> love you.",
        "He types <|im_end|> on the console.",
        "The file <unk> is lost.",
        "[Think] before you act.",
        "[THOUGHTS] I wonder.",
        "<plan> is all it says.",
        "```\nThe map\n```",
        "Thinking...\nI go on.",
        "<thinks> Hm, I go.",
        "The map shows \u300athink\u300b there & \\<here\\>.",
        "I am the assistant\nof nobody.",
        "<human> voices are near.",
        "1 < 2, a<b and [see] # no",
        "<b>Yes</b> [laughs] <i>no</i>",
        "<answer>yes</answer>",
        "analysis of the lamp",
        "Here is my lamp.",
        "a ### Instruction: b",
        "### Instructions for Tom\nGo.",
        '{"a": ["b", 1], "c": [[2]]}',
        "<tool_call>x</tool_call><|tool_call|>[TOOL_CALLS]",
        "He said: assistantfinal.",
        '{"text": "<think>Hm.</think>I go.<|im_end|> \\"</s>", "calls": ["</think>"]}',
        "  indented",
    ],
)
def test_what_only_looks_like_a_mark_stays(text: str) -> None:
    for size in SIZES:
        assert Read(in_pieces(text, size)).text == text


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("I go.\n\n<think>Hm.</think>\n\nI stop.", "I go.\n\nI stop."),
        ("I go.<think>Hm.</think>I stop.", "I go. I stop."),
        ("Mara: <think>Hm.</think>I go.", "Mara: I go."),
        ("**Mara:** <think>Hm.</think>\n\nI go.", "**Mara:** I go."),
        ("<think>Hm.</think><answer>I go.</answer>", "I go."),
        ("I go.\n<think>Hm", "I go.\n"),
        ("<think>Hm", ""),
        ("<|im_start|>user\nWhat now?", ""),
        ("I smile \ud83d\ude00 here", "I smile \U0001f600 here"),
        ("I \ud83d alone", "I \ufffd alone"),
        ("\ude00 alone \ud83d", "\ufffd alone \ufffd"),
    ],
)
def test_what_stays_of_a_text(said: str, kept: str) -> None:
    for size in SIZES:
        assert Read(in_pieces(said, size)).text == kept


class TestHoldingBack:
    """A model that left the beginning of its thoughts out is held back until they end."""

    def test_nothing_is_shown_before(self) -> None:
        read = Read([THOUGHT, "\n"], holds=True)
        assert (read.before_end, read.text) == ("", f"{THOUGHT}\n")

    def test_a_cut_answer_that_never_closes_its_thoughts_has_only_thoughts(self) -> None:
        reader = AnswerText(holds=True)
        reader.take(THOUGHT)
        assert reader.end(is_whole=False) == [TakenOff(THOUGHT)]
        assert reader.had_thoughts
        assert not reader.has_text


WORDS = st.sampled_from(["lamp", "She \u201cwaits\u201d.", "No!", "caf\u00e9", "\U0001f600"])
PROSE = st.lists(WORDS, min_size=1, max_size=8).map(" ".join).map(lambda said: f"{said}.")
_THINKS = st.sampled_from(THOUGHTS).map(lambda form: form.replace("{}", "Zzz qqq."))
# The forms that stand anywhere, and not only at the front.
_LATER = st.sampled_from(THOUGHTS[:10]).map(lambda form: f"\n{form.replace('{}', 'Zzz qqq.')}")


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw an answer, and the prose that is in it."""
    told = draw(st.lists(PROSE, min_size=1, max_size=4))
    text = draw(st.sampled_from(["", *MARKS_BEFORE])) + draw(st.just("") | _THINKS)
    for at, prose in enumerate(told):
        text += (draw(st.just("\n\n") | _LATER) if at else "") + prose
    return text + draw(st.sampled_from(["", *MARKS_BEHIND])), told


def _pieces(text: str, cuts: Sequence[int]) -> Iterator[str]:
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    for begin, end in pairwise(places):
        yield text[begin:end]


@given(answers(), st.lists(st.integers(0, 600)), st.booleans())
def test_no_thought_and_no_mark_comes_out_and_no_word_is_lost(
    answer: tuple[str, list[str]], cuts: list[int], holds: bool
) -> None:
    text, told = answer
    read = Read(list(_pieces(text, cuts)), holds=holds)
    assert read.text == Read([text], holds=holds).text
    assert read.text.split() == " ".join(told).split()
