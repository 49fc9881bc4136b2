"""Headings and emphasis of a draft are rendered, and everything else is shown as text."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storyengine.web.templatetags.prose import as_html

HEADING = '<strong class="prose-heading" role="heading" aria-level="4">'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("*Later*, wind.", "<em>Later</em>, wind."),
        ("_Later_, wind.", "<em>Later</em>, wind."),
        ("**The lamp was out**", "<strong>The lamp was out</strong>"),
        ("“**No**,” he said.", "“<strong>No</strong>,” he said."),
        ("***No.***", "<strong><em>No.</em></strong>"),
        ("*One*\n*two*", "<em>One</em>\n<em>two</em>"),
        ("a*b*c 2 * 3 * 4 snake_case_name", "a*b*c 2 * 3 * 4 snake_case_name"),
        ("* * *", "* * *"),
        ("***", "***"),
        ("*open\nand closed*", "*open\nand closed*"),
        ("*a<b>&c*", "<em>a&lt;b&gt;&amp;c</em>"),
        ("#1 and # 2", "#1 and # 2"),
    ],
)
def test_emphasis(text: str, html: str) -> None:
    assert as_html(text) == html


@pytest.mark.parametrize("text", ["## One", "# One", "###### One ##"])
def test_a_heading(text: str) -> None:
    assert as_html(text) == f"{HEADING}One</strong>"


_SIGNS = ("*", "**", "_", "# ", "<", "&", "a", " ", "\n", '"')


@given(st.lists(st.sampled_from(_SIGNS)).map("".join))
def test_no_word_is_lost_and_no_tag_is_made_up(text: str) -> None:
    html = as_html(text)
    tags = set(re.findall(r"<[^>]*>", html))
    assert tags <= {"<em>", "</em>", "<strong>", "</strong>", HEADING}
    shown = unescape(re.sub(r"<[^>]*>", "", html))
    assert re.sub(r"[*_#\s]", "", shown) == re.sub(r"[*_#\s]", "", text)


@pytest.mark.parametrize("unit", ["*a ", "**", "*a_", "_a*", "# ", "*"])
def test_a_hostile_text_is_rendered_in_linear_time(unit: str) -> None:
    """A time that grew with the square of the length would make this test last for minutes."""
    assert as_html(unit * 50_000)
