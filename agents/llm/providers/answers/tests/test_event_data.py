"""Tests that the data of server-sent events is the same however the network divides the stream."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.providers.answers import event_data
from agents.llm.providers.answers.event_data import EventData
from agents.llm.providers.bounds import TooMuch

LINE_ENDS = st.sampled_from(["\n", "\r\n"])
# The texts have no carriage return, because it would end a line too. No server ends lines with a
# carriage return alone.
TEXTS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)


def read(*pieces: bytes) -> list[bytes]:
    events = EventData()
    return [data for piece in pieces for data in events.feed(piece)]


@given(st.lists(TEXTS), LINE_ENDS, st.lists(st.integers(0, 400)))
def test_wherever_a_stream_is_cut_its_events_are_the_same(
    texts: list[str], end: str, cuts: list[int]
) -> None:
    stream = "".join(f"data: {text}{end}{end}" for text in texts).encode()
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    pieces = [stream[a:b] for a, b in pairwise(places)]
    assert read(*pieces) == [text.encode() for text in texts]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_byte_order_mark_before_the_first_line_is_passed_over(size: int) -> None:
    stream = b"\xef\xbb\xbfdata: {}\n\ndata: \xef\xbb\xbf\n\n"
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert read(*pieces) == [b"{}", b"\xef\xbb\xbf"]


def test_an_event_that_the_end_cuts_off_is_none() -> None:
    assert read(b'data: {}\n\ndata: {"choi') == [b"{}"]


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_data, "MOST_JSON", 1_000)
    with pytest.raises(TooMuch):
        read(*[b"data: " + b"x" * 100] * 20)


@pytest.mark.parametrize("line", [b"data: " + b"x" * 100 + b"\n", b"data:\n"])
def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(event_data, "MOST_JSON", 1_000)
    with pytest.raises(TooMuch):
        read(*[line] * 300)
