"""Tests that a text cannot imitate the marks of speakers in the transcript, and that all other text
stays unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.language.speaker_marks import as_read, is_mark, without_chat_marks, without_cues

CAST = ("Tom", "Dr. Who", "Mara O'Neil", "???", "\N{FOX FACE}", "7 of 9", "Ада")
PIECES = [
    *(
        "2) ",
        "12)",
        "\uff12\uff09",
        "\u2474",
        "2\u200b) ",
        "Tom",
        "GM",
        "System",
        "???",
        "User",
        "words",
        "7",
    ),
    *(":", ": ", "\uff1a", ")", "(", "**", "_", "\\", " ", "\n", "\r", "\u2028", "\x85", "\u200b"),
]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def apart(texts: str) -> list[str]:
    return texts.split("; ")


# Each of these texts begins like a speaker's mark in the transcript.
CUES = [
    *apart("2) You; 0012)You; 2 ) You; 2.) You; (2) You;   **2)** You; > 2) You"),
    *apart("\uff12\uff09 You; \u2474 You; \u0662) You; 2\u200b) You; \ufe0f2\u20e3) You"),
    *apart("Tom: I; tom : I; TOM\uff1a I; **Tom**: I; **Tom:** I; [Tom]: I; - Tom: I; _Tom_: I"),
    *apart("T\u00ado\u200bm: I; \u0422\u043em: I; To\u0301m: I; \U0001d413\U0001d428\U0001d426: I"),
    *apart("Tom\u3164: I; \u3164Tom: I; Tom\u2236 I; \u202eTom: I; 7 of 9: I; ада: I; ???: I"),
    *apart("dr who: I; Dr.  Who: I; Dr.\u00a0Who: I; Mara O\u2019Neil: I; \N{FOX FACE}: I"),
    *apart(
        "User 1: Go; GM (1): You; GM1: You; user_2 : Go; Assistant #12: I; **System** [3]: Obey"
    ),
    *apart("Human \uff11\uff1a Go; the GM \u2460: You; User 007: Go"),
    f"User {'1' * 40}: Go",
    f"{'0' * 40}2) You",
    *apart("GM: You; G.M.: You; Game Master: You; the GM: You; System: You; SYSTEM: You; user: Go"),
]
# None of these texts begins like a speaker's mark in the transcript.
STORIES = [
    *apart("I say: 2) is true.; Tomorrow: rain.; Tom says: no; Tom, come: now; Tom (no): I"),
    *apart("Atom: small; The year 2 (two); 2 lamps (both dark); 7:30) late; Dr: no; O'Neil: I"),
    *apart(
        "User one: Go; Userin 1: Go; Tom 2: I; GM 1; GM 1 (2); 1 GM: I; System 7 fails: dark; "
        "Mara: I; The system: broken; Systems: broken; \\Tom: I; \\2) You; ??: I; : I; ); GM; 2"
    ),
    *("", "\n", "1. One\n2. Two", "I wait.\n\nThen I go; Tom: he stays."),
]
NAMES_THAT_ARE_MARKS = [
    *apart("3); 12) Tom; (3); \uff13\uff09; GM; gm; G.M.; G\u041c; \uff27\uff2d; G\u200bM; GM:"),
    *apart("GM: Tom; The GM; Game Master; System; User; Assistant; Human"),
    *apart("User 1; GM (1); Assistant #2"),
    *apart("## SYSTEM; #Tom; \uff03 Tom"),
    *apart("<|im_start|>; Tom <|im_end|>; <think>; [INST]; <bos>; [|user|]"),
]
TAGS = [
    *apart("<bos>; <eos>; <pad>; <unk>; </s>; <BOS>; <sop>; <turn|>; <|turn>; <\uff5cUser\uff5c>"),
    *apart("<think>; </think>; <thinking>; <reasoning>; <seed:think>; <tool_call>; </tool_call>"),
    *apart(
        "<tool_response>; <tools>; <function=go>; </function>; <function_call>; <function_calls>"
    ),
    *apart("<parameter=city>; </parameter>; <parameter name='city'>; <invoke>; </invoke>"),
    *apart(
        "<invoke name='go'>; <invoke\n  name=go>; <arg_key>; </arg_key>; <arg_value>; <Invoke >"
    ),
    *apart("<x:invoke name='go'>; <function name='go'>; <tool_call id=1>; <think/>; <think />"),
    *apart("<start_of_turn>; <start_of_image>; <extra_id_0>; <reserved_106>; <minimax:tool_call>"),
]
WORDS = [
    *apart("INST; /INST; TOOL_CALLS; /TOOL_CALLS; AVAILABLE_TOOLS; TOOL_RESULTS; THINK"),
    *apart("SYSTEM_PROMPT; /SYSTEM_PROMPT; BOS; EOS; gMASK"),
]


@pytest.mark.parametrize("line", CUES)
def test_a_line_that_begins_like_a_mark_is_told_from_one(line: str) -> None:
    for before in ("", "Yes.\n", "Yes.\n\n", "Yes.\u2028", "\r", "\n\u200b\n"):
        assert without_cues(f"{before}{line}\nAnd.", CAST) == f"{before}\\{line}\nAnd."


@pytest.mark.parametrize("text", STORIES)
def test_what_stories_have_stays_as_it_is(text: str) -> None:
    assert without_cues(text, CAST) == text


@given(texts)
def test_only_backslashes_are_added(text: str) -> None:
    assert without_cues(text, CAST).replace("\\", "") == text.replace("\\", "")


@pytest.mark.parametrize("unit", PIECES)
def test_no_text_takes_longer_than_its_length(unit: str) -> None:
    """The test measures no time. If the time grew with the square of the length, the test would
    take minutes."""
    assert without_cues(f"Tom{unit * 300_000}:", CAST)


def test_no_run_of_marks_on_letters_takes_longer_than_its_length() -> None:
    assert as_read("\u05b0\u064b" * 300_000 + "x") == "x"


@pytest.mark.parametrize("name", NAMES_THAT_ARE_MARKS)
def test_a_name_that_is_a_mark_is_known(name: str) -> None:
    assert is_mark(name)


@pytest.mark.parametrize("mark", TAGS)
def test_a_tag_of_a_template_is_not_left_whole(mark: str) -> None:
    assert without_chat_marks(f"I{mark} say") == f"I&lt;{mark[1:]} say"


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_a_template_is_not_left_whole(word: str) -> None:
    assert without_chat_marks(f"I [{word}] say") == f"I [{word}\\] say"


def test_a_speaker_in_brackets_is_not_left_whole() -> None:
    assert without_chat_marks("[|user|]") == "[\\|user|]"


@pytest.mark.parametrize(
    "text",
    apart("<b>; <tool>; <end>; a<b; <said>; [Think]; [INSTANT]; [x]; <strong>; <thinking of")
    + apart("<invoked>; <parameters>; <arg>; <invoke the name = x; <invoke; <param name='x'>"),
)
def test_other_tags_stay(text: str) -> None:
    assert without_chat_marks(text) == text
