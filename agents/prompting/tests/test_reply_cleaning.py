"""A reply loses the own name in front, and ends where somebody else begins to speak."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.prompting.reply_cleaning import ReplyCleaner, clean_reply

OWN, OTHERS = "Mara Venn", ("Tom", "Old Ilse", "Wick Vane", "Agent Yellow")


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("Mara Venn: I wait.", "I wait."),
        ("  \n mara  venn :\n\nI wait.", "I wait."),
        ("**Mara Venn:** I wait.", "I wait."),
        ("**Mara Venn**: I wait.", "I wait."),
        ("[Mara Venn]: I wait.", "I wait."),
        ("_Mara:_ I wait.", "I wait."),
        ("MARA VENN\N{FULLWIDTH COLON} I wait.", "I wait."),
        # Only the name in front is removed.
        ("I wait.\nMara Venn: I said so.", "I wait.\nMara Venn: I said so."),
        ("Mara Venn waits: so do I.", "Mara Venn waits: so do I."),
        ("*Mara Venn: this is for you.* I read it.", "*Mara Venn: this is for you.* I read it."),
    ],
)
def test_the_own_name_in_front_is_removed(written: str, kept: str) -> None:
    assert clean_reply(written, OWN, OTHERS) == (kept, "")


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("I: I wait.", "I wait."),
        ("**I**: I wait.\n\n**I:**\n\n“No,” I say.", "I wait.\n\n“No,” I say."),
        ('I wait.\n\n"I": "No."', 'I wait.\n\n"No."'),
        ('I wait.\n**"I":**\n\n"No."', 'I wait.\n"No."'),
        ("Mara Venn: I wait.\n“I”: “No.”", "I wait.\n“No.”"),
        ("I wait: nobody comes.\nI? No.", "I wait: nobody comes.\nI? No."),
        ("“I: the undersigned,” I read.", "“I: the undersigned,” I read."),
        ("I", "I"),
    ],
)
def test_a_small_model_s_word_for_itself_is_no_label(written: str, kept: str) -> None:
    assert clean_reply(written, OWN, OTHERS, is_small=True) == (kept, "")
    assert clean_reply("I: no.", OWN, OTHERS) == ("I: no.", "")


def test_a_small_model_s_first_word_is_shown_as_soon_as_it_is_no_label() -> None:
    assert ReplyCleaner(OWN, OTHERS, is_small=True).take("I ") == "I "


@pytest.mark.parametrize("tail", ['"Tom": "No."', "“Tom:” “No.”", '**"Tom":** No.'])
def test_a_small_model_s_quoted_names_are_labels(tail: str) -> None:
    text = f"“I go,” I say.\n{tail}"
    assert clean_reply(text, OWN, OTHERS, is_small=True) == ("“I go,” I say.", "Tom")
    assert clean_reply(text, OWN, OTHERS) == (text, "")


@pytest.mark.parametrize(
    ("tail", "name"),
    [
        ("Tom: No.", "Tom"),
        ("tom : No.", "Tom"),
        ("**Tom:** No.", "Tom"),
        ("**Tom**: No.", "Tom"),
        ("[Tom]: No.", "Tom"),
        ("  Tom:", "Tom"),
        ("OLD\N{NO-BREAK SPACE}ilse: No.", "Old Ilse"),
        ("Ilse: No.", "Old Ilse"),
        ("Vane: No.", "Wick Vane"),
        ("Agent Yellow: No.", "Agent Yellow"),
        ("Tom\N{FULLWIDTH COLON}No.", "Tom"),
    ],
)
@pytest.mark.parametrize("gap", ["\n", "\n\n", " \n \n"])
def test_the_reply_ends_before_anothers_line(gap: str, tail: str, name: str) -> None:
    assert clean_reply(f"“I go,” I say.{gap}{tail}\nMore.", OWN, OTHERS) == ("“I go,” I say.", name)


@pytest.mark.parametrize(
    "text",
    [
        "Tom says: no.\nTom, listen: no.\nI look at Tom: he sleeps.",
        "I read aloud: “To the crew.\nTom: rope.\nOld Ilse: lamps.” I fold it.",
        'I read aloud: "To the crew.\nTom: rope." I fold it.',
        "Ich lese: „An alle.\nTom: Seil.“",
        "«À tous.\nTom: corde.»",
        "The note says:\n> Tom: rope.",
        "“Tom: come home,” it says.",
        "*Tom: come home.* That is all it says.",
        "Dear Tom:\nthe lamp is out.\nM.",
        "Tomorrow: rain.\nYellow: the colour of fear.\nold: yes.",
        "****Tom:**** no.",
        "  I wait. \n\n\n ",
        "Tom",
        "",
    ],
)
def test_everything_else_stays_as_it_was(text: str) -> None:
    assert clean_reply(text, OWN, OTHERS) == (text, "")


def test_an_unclosed_quotation_ends_with_its_paragraph() -> None:
    text = "“I will go.\n\n“And you stay.\n\nTom: Never."
    assert clean_reply(text, OWN, OTHERS) == ("“I will go.\n\n“And you stay.", "Tom")


def test_a_reply_that_is_all_anothers_is_empty() -> None:
    assert clean_reply("Mara Venn:\nTom: I go.", OWN, OTHERS) == ("", "Tom")
    assert clean_reply("\nTom: I go.", OWN, OTHERS) == ("", "Tom")


def test_a_part_that_several_names_have_is_nobodys() -> None:
    assert clean_reply("Vane: no.", "Mara Vane", ["Tom Vane"]) == ("Vane: no.", "")
    assert clean_reply("Tom: no.", "Tom", ["Tom Vane"]) == ("no.", "")


def test_words_are_shown_as_soon_as_they_are_clear() -> None:
    cleaner = ReplyCleaner(OWN, OTHERS)
    assert cleaner.take("  Ma") == ""
    assert cleaner.take("ra: I wait") == "I wait"
    assert cleaner.take(" ") == " "
    assert cleaner.take("here.") == "here."
    assert cleaner.take("\n\nTo") == ""
    assert cleaner.take("morrow") == "\n\nTomorrow"
    assert cleaner.take(".\nTom:") == "."
    assert cleaner.ended_before == "Tom"
    assert cleaner.take(" No.\nI go.") == ""
    assert cleaner.end() == ""


_WORDS = (
    *("Mara Venn", "mara", "Tom", "tom", "Old Ilse", "Ilse", "Old", "Vane", "Tomorrow", "I go"),
    *(
        ":",
        ": ",
        " :",
        "\n",
        "\n\n",
        " ",
        "*",
        "**",
        "_",
        "[",
        "]",
        "“",
        "”",
        '"',
        "„",
        "»",
        "«",
        "I",
        ".",
    ),
)
_TEXTS = st.lists(st.sampled_from(_WORDS) | st.text(max_size=3), max_size=25).map("".join)


@given(text=_TEXTS, is_small=st.booleans(), data=st.data())
def test_the_words_are_the_same_whatever_pieces_they_come_in(
    text: str, is_small: bool, data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(0, len(text)), max_size=8).map(sorted))
    cleaner = ReplyCleaner(OWN, OTHERS, is_small)
    pieces = [text[first:last] for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    told = "".join(map(cleaner.take, pieces)) + cleaner.end()
    told = told.rstrip() if cleaner.ended_before else told
    assert (told, cleaner.ended_before) == clean_reply(text, OWN, OTHERS, is_small=is_small)


@given(text=_TEXTS)
def test_nothing_is_left_out_but_the_name_in_front_and_the_end(text: str) -> None:
    kept, ended_before = clean_reply(text, OWN, OTHERS)
    assert kept in text
    if not ended_before:
        assert text.endswith(kept)
        front = text.removesuffix(kept).rstrip()
        assert not front or front[-1] in ":*_]"
    else:
        assert kept == kept.rstrip()


@given(text=st.text(st.characters(exclude_characters=":\N{FULLWIDTH COLON}")))
def test_a_text_without_a_colon_stays(text: str) -> None:
    assert clean_reply(text, OWN, OTHERS) == (text, "")
