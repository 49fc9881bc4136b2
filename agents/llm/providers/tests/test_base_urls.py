"""Tests of the addresses of servers as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.providers.base_urls import lacks_version, mended, problem_of

OURS = "https://models.example/v1"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (OURS, OURS),
        (f"  {OURS}/ \n", OURS),
        (f'"{OURS}"', OURS),
        (f"<{OURS}>", OURS),
        (f"{OURS}/chat/completions", OURS),
        (f"{OURS}/chat/completions/", OURS),
        (f"{OURS}/completions", OURS),
        (f"{OURS}//models", OURS),
        ("https://models.example/v1/Chat/Completions", OURS),
        ("localhost:11434", "http://localhost:11434/v1"),
    ],
)
def test_it_is_mended_where_one_address_can_be_meant(written: str, meant: str) -> None:
    assert mended(written) == meant
    assert problem_of(meant) == ""


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("models.example/v1", "http://"),
        ("ftp://models.example", "no address"),
        ("https://", "http://"),
        ("http://127.0.0.1:99999/v1", "port"),
        ("http://127.0.0.1:0/v1", "port"),
        ("http://[::1]:x/v1", "port"),
        ("localhost:/v1", "port"),
        ("http://127.0.0.1:8080 /v1", "blanks"),
        ("http://[::1/v1", "no address"),
        ("http://127.0.0.1.1234/v1", "no address"),
        ("http://127.0.0.1,1234/v1", "no address"),
        ("http://localhost;1234/v1", "no address"),
        ("http://a..b/v1", "no address"),
        ("http:///v1", "no address"),
        (f"http://{'a' * 300}/v1", "no address"),
        ("http://%/v1", "no address"),
        ("http://127.0.0.1:\uff11\uff12/v1", "port"),
        ("https://models.example/v1?api-version=1", "no ?"),
        ("https://models.example/v1#x", "no #"),
        ("", "http://"),
    ],
)
def test_it_is_named_where_it_cannot_be_mended(written: str, named: str) -> None:
    assert named in problem_of(mended(written))


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    once = mended(text)
    problem_of(once)
    lacks_version(once)
