"""A reply loses the own name in front, and ends where somebody else begins to speak."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.prompting.cleaning.reply_cleaning import ReplyCleaner
from sessions.language.speaker_marks import NO_MEMBERS

OWN, OTHERS = "Mara Venn", ("Tom", "Old Ilse", "Wick Vane", "Agent Yellow")


def clean_reply(
    text: str,
    own: str,
    others: Sequence[str],
    *,
    is_small: bool = False,
    numbers: Sequence[int] = (),
) -> tuple[str, str]:
    return ReplyCleaner(own, others, is_small, numbers).clean(text)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("Mara Venn: I wait.", "I wait."),
        ("  \n mara  venn :\n\nI wait.", "I wait."),
        ("**Mara Venn:** I wait.", "I wait."),
        ("[Mara Venn]: I wait.", "I wait."),
        ("MARA VENN\N{FULLWIDTH COLON} I wait.", "I wait."),
        ("Mara (quietly): I wait.", "I wait."),
        ("Mara 1: I wait.", "I wait."),
        ("“Mara Venn:” I wait.", "I wait."),
        ("> **Mara:** I wait.", "I wait."),
        ("### Mara Venn\n\nI wait.", "I wait."),
        ("**Mara**\nI wait.", "I wait."),
        ("MARA VENN (quietly)\n\nI wait.", "I wait."),
        ("[Mara] I wait.", "I wait."),
        ("<Mara> I wait.", "I wait."),
        ("**Mara** – I wait.", "I wait."),  # noqa: RUF001
        ("\u200fMara\u200f: I wait.", "I wait."),
        ("Assistant: I wait.", "I wait."),
        ("I wait.\n\nMara: I said so.", "I wait.\n\nI said so."),
        ("I wait.\nMara Venn: I said so.", "I wait.\nMara Venn: I said so."),
        ("I wait.\n\n[Mara] is carved there.", "I wait.\n\n[Mara] is carved there."),
        ("Mara — that is what they call me.", "Mara — that is what they call me."),
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


@pytest.mark.parametrize("tail", ['"Tom": "No."', "“Tom:” “No.”", '**"Tom":** No.'])
@pytest.mark.parametrize("is_small", [True, False])
def test_quoted_names_are_labels(is_small: bool, tail: str) -> None:
    text = f"“I go,” I say.\n{tail}"
    assert clean_reply(text, OWN, OTHERS, is_small=is_small) == ("“I go,” I say.", "Tom")
    prose = "“I go,” I say.\n“Tom”: that is what the slip says."
    assert clean_reply(prose, OWN, OTHERS) == (prose, "")


@pytest.mark.parametrize(
    ("tail", "name"),
    [
        ("Tom: No.", "Tom"),
        ("**Tom:** No.", "Tom"),
        ("[Tom]: No.", "Tom"),
        ("OLD\N{NO-BREAK SPACE}ilse: No.", "Old Ilse"),
        ("Ilse: No.", "Old Ilse"),
        ("Vane: No.", "Wick Vane"),
        ("Agent Yellow: No.", "Agent Yellow"),
        ("Tom\N{FULLWIDTH COLON}No.", "Tom"),
        ("Tom (laughing): No.", "Tom"),
        ("Tom\N{FULLWIDTH LEFT PARENTHESIS}笑\N{FULLWIDTH RIGHT PARENTHESIS}: No.", "Tom"),
        ("Tom *laughs*: No.", "Tom"),
        ("Tom (2): No.", "Tom"),
        ("Tom 2: no.", "Tom"),
        ("[Tom]\nNo.", "Tom"),
        ("[Tom] No.", "Tom"),
        ("【Tom】No.", "Tom"),
        ("<Tom> No.", "Tom"),
        ("(Tom): No.", "Tom"),
        ("* Tom: No.", "Tom"),
        ("> [Tom] No.", "Tom"),
        ("1. Tom: No.", "Tom"),
        ("### Tom\nNo.", "Tom"),
        ("**Tom** — No.", "Tom"),
        ("__Tom__ — “No.”", "Tom"),
        ("\u200fTom\u200f: No.", "Tom"),
        ("\N{CYRILLIC CAPITAL LETTER TE}\u200bom: No.", "Tom"),
        ("GM: No.", "the Game Master"),
        ("The GM: No.", "the Game Master"),
        ("Narrator: No.", "the narrator"),
        ("旁白\N{FULLWIDTH COLON}不。", "the narrator"),
        ("User 1: No.", "the user"),
        ("Assistant: No.", "the assistant"),
        ("System: No.", "the system"),
    ],
)
@pytest.mark.parametrize("gap", ["\n", "\n\n", " \n \n"])
def test_the_reply_ends_before_anothers_line(gap: str, tail: str, name: str) -> None:
    assert clean_reply(f"“I go,” I say.{gap}{tail}\nMore.", OWN, OTHERS) == ("“I go,” I say.", name)


@pytest.mark.parametrize(
    "tail",
    ["TOM\nNo.", "Tom\n  No.", "Tom —\nNo.", "Tom (laughing)\nNo.", "**Tom**\n\nNo.", "TOM — No."],
)
def test_a_name_that_stands_apart_is_a_label_where_a_paragraph_begins(tail: str) -> None:
    assert clean_reply(f"“I go,” I say.\n\n{tail}", OWN, OTHERS) == ("“I go,” I say.", "Tom")
    for before in ("Carved there:\n\n", "Yours,\n", "I go.\n"):
        assert clean_reply(f"{before}{tail}", OWN, OTHERS) == (f"{before}{tail}", "")


def test_the_number_of_a_prompt_ends_the_reply() -> None:
    numbers = (7, 8)
    for text in ("I nod.\n\n7) You open it.", "I nod.\n\n8) You open it."):
        assert clean_reply(text, OWN, OTHERS, numbers=numbers) == ("I nod.", "the Game Master")
    for text in (
        "I count:\n\n7) ropes",
        "I count.\n\n6) ropes\n\n7) lamps",
        "I nod.\n7) ropes",
        "I nod.\n\n9) ropes",
        "7) I nod.",
    ):
        assert clean_reply(text, OWN, OTHERS, numbers=numbers) == (text, "")


def test_a_continuation_loses_only_the_own_name() -> None:
    front = ReplyCleaner(OWN, continues=True)
    assert front.clean("Mara: and so it is.") == ("and so it is.", "")
    for text in ("GM: the rest.", "MARA\nwas carved there.", "so.\n\nMara: it is."):
        assert front.clean(text) == (text, "")


@pytest.mark.parametrize(
    "text",
    [
        "Tom (my brother) had the key.",
        "I nod.\n\nTom (my brother): gone for good.",
        "I nod.\n\nTom — he never came.",
        "I nod.\n\n**Tom** — he never came.",
        "I nod.\n\n*Tom* — I loved him.",
        "I nod.\n\n[Tom's knife] lies there.",
        "I nod.\n\nTom?\n\nNobody answers.",
        "“Come home.\n\n“Tom”\n\nI fold it.",
        "I say.\n— Tom, come!",
        "User error: I pressed it.",
        "I nod.\n\nuser: mara",
        "I nod.\n\n[System] You are now level 2.",
        "I nod.\n\n“Narrator: somebody who tells.”",
        "I read it out:\n- Tom: rope\n- Mara: lamps\n- GM: nothing",
        "The ledger reads:\nTom: two coins\nOld Ilse: three\nMara: one",
        "The note says:\n\n> Dear Ilse,\n> Tom: rope.",
        "Tom says: no.\nTom, listen: no.\nI look at Tom: he sleeps.",
        "I read aloud: “To the crew.\nTom: rope.\nOld Ilse: lamps.” I fold it.",
        "«À tous.\nTom: corde.»",
        "The note says:\n> Tom: rope.",
        "*Tom: come home.* That is all it says.",
        "Dear Tom:\nthe lamp is out.\nM.",
        "****Tom:**** no.",
        "  I wait. \n\n\n ",
        "Tom",
        "",
    ],
)
def test_everything_else_stays_as_it_was(text: str) -> None:
    assert clean_reply(text, OWN, OTHERS) == (text, "")


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
    cleaner = ReplyCleaner(OWN, OTHERS, is_small, (2, 3))
    pieces = [text[first:last] for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    told = "".join(map(cleaner.take, pieces)) + cleaner.end()
    told = told.rstrip() if cleaner.ended_before else told
    assert (told, cleaner.ended_before) == cleaner.clean(text)


_PROSE = st.lists(
    st.sampled_from(
        ("I go.", "“No,” I say.", "Tom smiles.", "*I wait.*", "Tom — he", "\n", "\n\n", " ")
    ),
    max_size=12,
).map("".join)
_NAMES = st.sampled_from(("Tom", "Old Ilse", "Ilse", *NO_MEMBERS))
_LABELS = st.sampled_from(
    (
        "{}:",
        "**{}:**",
        "**{}**:",
        "[{}]:",
        "<{}>:",
        "{} (low): ",
        "- {}:",
        "> {}:",
        "### {}:",
        "{} :",
    )
)


@given(before=_PROSE, name=_NAMES, label=_LABELS, after=st.text(max_size=20))
def test_a_reply_has_all_of_its_prose_and_nothing_of_others(
    before: str, name: str, label: str, after: str
) -> None:
    before = f"I wait. {before}."
    marked = f"{before}\n\n{label.format(name)} {after.strip() or 'No'}"
    kept, ended_before = clean_reply(marked, OWN, OTHERS)
    if "(" in label and after.strip()[:1].islower() and name in OTHERS:
        return
    assert (kept, bool(ended_before)) == (before, True)


@given(text=_TEXTS)
def test_nothing_is_left_out_but_own_names_and_the_end(text: str) -> None:
    kept, ended_before = clean_reply(text, OWN, OTHERS)
    left = iter(text)
    assert all(sign in left for sign in kept)
    if ended_before:
        assert kept == kept.rstrip()


@pytest.mark.parametrize("line", ["Tom" + " " * 300, "Tom (" + "low, " * 20, "> " * 200, "**" * 9])
def test_what_is_held_back_is_bounded(line: str) -> None:
    told = ReplyCleaner(OWN, OTHERS).take(f"I nod.\n\n{line}")
    assert told.startswith(f"I nod.\n\n{line[:3]}")
