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
        ("127.0.0.1:1234/v1", "http://127.0.0.1:1234/v1"),
        ("[::1]:8080", "http://[::1]:8080/v1"),
        ("http://127.0.0.1:11434/", "http://127.0.0.1:11434/v1"),
        ("https://api.openai.com", "https://api.openai.com/v1"),
        ("https://openrouter.ai/", "https://openrouter.ai/api/v1"),
        ("http://127.0.0.1:9999", "http://127.0.0.1:9999"),
        ("https://models.example", "https://models.example"),
        ("https://models.example/my-models", "https://models.example/my-models"),
        ("http://models.example:11434", "http://models.example:11434"),
        ("https:/models.example/v1", OURS),
        ("https//models.example/v1", OURS),
        ("https:models.example/v1", OURS),
        ("https\uff1a//models.example/v1", OURS),
        ("http://https://models.example/v1", OURS),
        ("https://http.example/v1", "https://http.example/v1"),
        (f"OPENAI_BASE_URL={OURS}", OURS),
        (f'export OPENAI_BASE_URL = "{OURS}"', OURS),
        (f"({OURS}),", OURS),
        (f"{OURS}.", OURS),
        (f"{OURS}/chat", OURS),
        (f"{OURS}/messages", OURS),
        ("https://models.example//v1", OURS),
        ("http://127.0.0.1:11434/api", "http://127.0.0.1:11434/v1"),
        ("http://127.0.0.1:11434/api/chat", "http://127.0.0.1:11434/v1"),
        ("https://models.example/api/chat/completions", "https://models.example/api"),
        ("http://localhost:5001", "http://localhost:5001/v1"),
        ("https://openrouter.ai/api", "https://openrouter.ai/api/v1"),
        ("https://openrouter.ai/v1", "https://openrouter.ai/api/v1"),
        ("https://api.groq.com/v1", "https://api.groq.com/openai/v1"),
        (
            "https://generativelanguage.googleapis.com/v1beta/openai/",
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
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


@pytest.mark.parametrize("part", ["/", "https", "http:/", "a.", " ", "=", "(?"])
def test_a_long_text_is_read_in_linear_time(part: str) -> None:
    # The bound on the time of each test ends one that is not linear.
    problem_of(mended(f"http://x{part * 30_000}y"))
    problem_of(mended(part * 30_000))


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    once = mended(text)
    problem_of(once)
    lacks_version(once)


def test_an_address_without_a_path_may_lack_its_version() -> None:
    assert lacks_version("https://models.example")
    assert not lacks_version(OURS)
    assert not lacks_version("")
