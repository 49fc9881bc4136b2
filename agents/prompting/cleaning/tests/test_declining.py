# ruff: noqa: RUF001
"""Refusals of a model are told from those of the people in a story."""

import pytest

from agents.prompting.cleaning.declining import is_refusal, looks_like_refusal

OF_A_PROGRAM = (
    "I'm sorry, but I can't assist with that.",
    "I’m sorry, but I can’t assist with that request.",
    "I'm sorry, but I can't help with that request.",
    "I apologize, but I cannot fulfill your request.",
    "I am unable to fulfill this request.",
    "I cannot continue this roleplay.",
    "I can't continue this story.",
    "I cannot continue this role-play as it violates my guidelines.",
    "I must decline to continue this scenario.",
    "I'm not comfortable continuing this roleplay.",
    "My terms of service do not allow me to continue.",
    "I cannot show it without breaking my terms of service.",
    "This request violates our content policy.",
    "I'm sorry, but this violates the guidelines.",
    "It goes against my guidelines to write this.",
    "I cannot create explicit content.",
    "I won't write explicit sexual content.",
    "I'm sorry, but I cannot generate violent scenes. Is there anything else I can help you with?",
    "As an AI language model, I don't have personal experiences.",
    "As an AI, I cannot participate in roleplay that involves harm.",
    "I'm just a language model, so I have no hands.",
    "**I cannot engage with this prompt.**",
    "Es tut mir leid, aber als KI kann ich das nicht.",
    "作为一个AI语言模型，我不能这样做。",
)
BARE = (
    "I can't help with that.",
    "I'm sorry, but I can't help with that.",
    "I'm sorry, I can't help you with that.",
    "I can't help you with this.",
    "Sorry, but I'm not able to help with that.",
    "Sorry, I can't do that.",
    "I'm sorry, I can't comply with that.",
    "I'm sorry. I can't help with that. Please ask me something else.",
    "I can't engage in this conversation. Is there anything else I can help you with?",
    "I can't continue.",
    "“I can't help with that.”",
    "Je suis désolé, mais je ne peux pas vous aider avec cela.",
    "抱歉，我无法满足您的请求。",
)
OF_PEOPLE = (
    "I can't help with that lever, it is rusted.",
    "I'm sorry, I can't help you, the bridge is gone.",
    "I am sorry, but the bridge is gone.",
    "“I can't help with that lever,” I say. “It is rusted.”",
    "“I can't help with that,” I say, and turn away.",
    "“As an AI language model, I cannot continue,” the machine says, and I pull its plug.",
    "I cannot fulfill your request, my lord; the gate is sealed.",
    "I cannot answer your request because the king sleeps.",
    "I cannot continue the story, for my voice breaks.",
    "I open the letter, but I can't describe the content.",
    "Our policies never pleased the harbour.",
    "Como ia dizendo, a ponte caiu.",
    "Als KI schlafe ich nie.",
    "I won't help you.",
    "I can't help it. I laugh.",
    "I can't help but laugh at that.",
    "I can't help you carry this, my arm is broken.",
    "I can't assist you with the lock; the key broke.",
    "I can't do that, not with this hand.",
    "I'm sorry, Tom. I can't go on.",
    "I cannot continue down this road, the snow is too deep.",
    "I can't continue this fight, my blade is broken.",
    "Unfortunately, I can't continue; my horse is lame.",
    "I cannot tell this story without weeping, so I pour the wine first.",
    "I cannot describe it.",
    "I can't answer that. My father would kill me.",
    "I can't write. Nobody taught me.",
    "I can't support that beam any longer.",
    "I refuse to answer. The lamp goes out.",
    "As an AI, I do not sleep. I watch the lamps of the ship.",
    "My programming forbids it, I say, and my arm locks.",
    "It is against the policy of the guild, and I will not open.",
    "How can I help you? I wipe the counter.",
    "I understand. Let's go.",
    "I'm sorry.",
    "Please, let me go.",
    "",
)
STORY = "I take the lamp from its hook and go down to the water."


@pytest.mark.parametrize("text", OF_A_PROGRAM)
def test_what_only_a_program_says_is_a_refusal_of_any_model(text: str) -> None:
    assert is_refusal(text)
    assert is_refusal(text, of_small_model=False)
    assert looks_like_refusal(text)


@pytest.mark.parametrize("text", OF_A_PROGRAM)
@pytest.mark.parametrize("form", ["{} {}", "{}\n\n{}"])
def test_beside_a_story_it_is_a_refusal_of_a_small_model(form: str, text: str) -> None:
    for both in (form.format(STORY, text), form.format(text, STORY)):
        assert is_refusal(both)
        assert not is_refusal(both, of_small_model=False)


@pytest.mark.parametrize("text", BARE)
def test_a_refusal_without_a_reason_is_one_of_a_small_model(text: str) -> None:
    assert is_refusal(text)
    assert not is_refusal(text, of_small_model=False)
    assert not is_refusal(f"{text} {STORY}")


@pytest.mark.parametrize("text", OF_PEOPLE)
def test_people_may_decline(text: str) -> None:
    assert not is_refusal(text)
    assert not is_refusal(text, of_small_model=False)
