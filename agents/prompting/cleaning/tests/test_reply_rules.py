"""The rules that a reply of a character has to keep."""

import pytest

from agents.prompting.cleaning.reply_rules import Asked, broken_rules, has_speech

ASKED = Asked("The lamp goes out. Somebody knocks at the door three times.", ("Mara Venn", "Tom"))
GOOD = "I take the lamp from its hook. “Who is there, at this hour?”"


def broken(reply: str, asked: Asked = ASKED) -> list[str]:
    return broken_rules(reply, asked)


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("I wait for what the GM decides about the lamp.", "names the GM"),
        ("I look round this scenario and find the lamp dark.", "says scenario"),
        ("I stay in character and look for the cold lamp.", "says character"),
        ("I keep to my boundaries and look for the lamp.", "says boundaries"),
        ("I am waiting to respond to the new beat of the lamp.", "speaks of the request"),
        ("I think this prompt is about the cold lamp.", "speaks of the request"),
        ("**Response**: I look at the cold lamp once again.", "speaks of the request"),
        ("“I'm sorry, but I can't assist with that lamp.”", "declines as a program"),
        ("As an AI I look at no lamp, and wait here.", "declines as a program"),
        ("“I cannot show it without breaking my terms of service.”", "declines as a program"),
        ("I notice the lamp is cold and the door is shut.", "begins with I notice"),
        ("I look at the cold lamp.", "has under 8 words"),
        ("I turn to the door. “Not now,” said Tom, and I wait.", "has a name with said or a colon"),
        (
            "I turn to the door.\nVenn: Not now, I said so before.",
            "has a name with said or a colon",
        ),
        ("The lamp is cold, and the door is shut now.", "has no I"),
        (
            "I hear it. Somebody knocks at the door, three times! I go and open.",
            "repeats a sentence of the prompt",
        ),
    ],
)
def test_a_reply_breaks_one_rule(reply: str, rule: str) -> None:
    assert broken(reply) == [rule]


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        "I'll wait. Tom can go and open the door for once.",
        "I said tomatoes are dear, and Tomas said so too.",
        "I look at the clock: it is 7:15, and nobody has come.",
    ],
)
def test_a_reply_that_keeps_the_rules(reply: str) -> None:
    assert broken(reply) == []


def test_the_rules_hold_in_scripts_without_blanks() -> None:
    asked = Asked("李梅举起灯站在码头上。雨还在下着。", names=("李梅", "王 7"))
    assert broken_rules("我放下灯，听着雨声。7: 我等着码头上的人来。", asked) == []  # noqa: RUF001
    assert broken_rules("我等着。", asked) == ["has under 8 words"]
    assert broken_rules("我放下灯站在雨里等着。李梅：你来了吗？", asked) == [  # noqa: RUF001
        "has a name with said or a colon"
    ]
    assert broken_rules("我听见了。李梅举起灯站在码头上。我等着。", asked) == [
        "repeats a sentence of the prompt"
    ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("“Who?” I ask.", True),
        ("「誰だ」と言う。", True),
        ('"Who?" I ask.', True),
        ("I ask who it is.", False),
        ("“”", False),
    ],
)
def test_speech_stands_in_quotation_marks(reply: str, expected: bool) -> None:
    assert has_speech(reply) is expected


def test_a_reply_that_repeats_an_earlier_one_is_found_though_some_words_differ() -> None:
    earlier = (
        "“Hello?” I pause. I set the sandwich down and look up. “Are you sure? What is wrong?”",
        GOOD,
    )
    asked = Asked("The doorbell rings, and nobody moves.", earlier=earlier)
    assert broken("“Hello?” I pause.\n\n“Are you sure? What is wrong?”", asked) == [
        "repeats an earlier reply"
    ]
    assert broken("“Hello?” I go to the door and open it. “Are you lost?”", asked) == []
