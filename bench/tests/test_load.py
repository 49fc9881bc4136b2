"""Tests of the functions of bench.load that need no running program."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from bench.load import parse_options, parts_of
from bench.load_bytes import bytes_figure, read_wal
from bench.load_client import Played, StreamedTurn
from bench.load_memory import growth_figure, stream_figure
from bench.load_pages import PageTimes, page_figure
from bench.load_relay import relay_figure
from bench.load_streams import Step, added_delays, percentile, search
from bench.load_streams import stream_figure as best_figure
from testing.program import ROOT, inherited_environment


class TestSearch:
    def test_it_goes_up_from_the_target_and_stops_between_what_holds_and_what_does_not(
        self,
    ) -> None:
        steps = search(lambda streams: _step(streams, limit=140), 100, tries=9)
        assert [step.streams for step in steps[:3]] == [100, 125, 157]
        best = max(step.streams for step in steps if step.holds)
        worst = min(step.streams for step in steps if not step.holds)
        assert best <= 140 < worst <= best * 1.1

    def test_it_goes_down_while_nothing_holds(self) -> None:
        steps = search(lambda streams: _step(streams, limit=50), 100, tries=5)
        assert [step.streams for step in steps[:3]] == [100, 66, 44]
        assert steps[-1].streams in range(45, 66)

    def test_a_failed_stream_is_no_success(self) -> None:
        assert not Step(10, 5.0, turns=20, failures=1).holds

    def test_the_figure_is_the_most_that_held(self) -> None:
        steps = [_step(streams, limit=110) for streams in (100, 125, 112)]
        figure = best_figure(steps, 50, 100)
        assert (figure.measured, figure.passed) == (100, True)
        assert not best_figure(steps, 50, 101).passed
        assert best_figure([_step(100, limit=1)], 50, 100).measured == 0


def _step(streams: int, *, limit: int) -> Step:
    return Step(streams, 50.0 if streams <= limit else 500.0, turns=20, failures=0)


def test_the_model_servers_own_time_is_taken_off() -> None:
    mark = "Turn a-1 of the load."
    turns = [StreamedTurn(mark, 0.0, first_token=0.230), StreamedTurn("Turn b-1 of the load.", 0.0)]
    calls = [
        {"prompt": f"1) Turn a-0 of the load.\n2) {mark}", "first_token_ms": 205.0},
        {"prompt": "a summary", "first_token_ms": 1.0},
    ]
    assert added_delays(Played(turns), calls) == [pytest.approx(25.0)]


@pytest.mark.parametrize(
    ("values", "expected"), [([3.0, 1.0, 2.0], 3.0), (list(range(1, 101)), 95), ([7.0], 7.0)]
)
def test_the_95th_percentile_is_a_value_that_was_measured(
    values: list[float], expected: float
) -> None:
    assert percentile(values, 95) == expected


def test_nothing_measured_is_no_good_delay() -> None:
    assert percentile([], 95) == float("inf")


class TestPages:
    @pytest.mark.parametrize(
        ("status", "queries", "milliseconds", "passed"),
        [
            (204, 2, 4.9, True),
            (204, 3, 1.0, False),
            (204, 2, 5.1, False),
            (200, 30, 99.0, True),
            (200, 3, 101.0, False),
        ],
    )
    def test_polls_are_held_to_more_than_pages(
        self, status: int, queries: int, milliseconds: float, *, passed: bool
    ) -> None:
        times = PageTimes("Tab 2", status, queries, [milliseconds], per_second=10)
        assert page_figure(times).passed is passed

    def test_no_page_may_take_too_long_though_most_do_not(self) -> None:
        taken = [20.0] * 19 + [101.0]
        assert not page_figure(PageTimes("Tab 2", 200, 3, taken, per_second=10)).passed
        assert page_figure(PageTimes("poll", 204, 2, [1.0] * 19 + [9.0], per_second=10)).passed


class TestBytes:
    def test_pages_of_an_earlier_round_of_the_log_do_not_count(self) -> None:
        new, old = b"newsalts", b"oldsalts"
        header = struct.pack(">III", 0x377F0682, 3_007_000, 512).ljust(16, b"\0") + new
        frames = [(5, new), (6, new), (5, new), (9, old)]
        content = header.ljust(32, b"\0") + b"".join(
            struct.pack(">II", page, 0) + salts + bytes(8 + 512) for page, salts in frames
        )
        assert read_wal(content) == (512, [5, 6, 5])

    def test_an_empty_log_has_no_pages(self) -> None:
        assert read_wal(b"") == (0, [])

    def test_artifacts_do_not_count(self) -> None:
        assert bytes_figure({50: (10.0, 100.0), 5_000: (900.0, 119.0)}).passed
        assert not bytes_figure({50: (10.0, 100.0), 5_000: (10.0, 121.0)}).passed


def test_growth_is_of_both_processes_together() -> None:
    before, after = {"web": 100, "worker": 100}, {"web": 129, "worker": 90}
    assert growth_figure(before, after, 7).passed
    assert not growth_figure(before, after | {"web": 135}, 7).passed


def test_memory_is_shared_out_among_the_streams() -> None:
    assert stream_figure(100_000_000, 125_000_000, 100).measured == 250_000


def test_the_relay_is_the_measure() -> None:
    assert relay_figure([10.0, 20.0], [9.0, 20.0], []).passed
    assert not relay_figure([10.0, 20.1], [9.0, 20.0], []).passed


def test_a_relay_with_a_pool_is_told_beside_it() -> None:
    assert relay_figure([10.0, 20.0], [9.0, 20.0], [1.0, 2.0]).passed
    assert "pool 2.0 ms, median 1.0" in relay_figure([20.0], [20.0], [1.0, 2.0]).value


@pytest.mark.parametrize(("options", "has_pool"), [([], False), (["--pool"], True)])
def test_a_relay_is_bare_unless_it_is_told_otherwise(
    options: list[str], has_pool: bool, tmp_path: Path
) -> None:
    """The relay is imported in a process of its own, because its import configures Django."""
    script = "import bench.bare_relay; from django.db import connection as c; print(bool(c.pool))"
    here = {
        "DATABASE_URL": "postgres://nobody@localhost/nowhere",
        "STORYENGINE_DATA": str(tmp_path),
    }
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script, "0", *options],
        env=inherited_environment() | here,
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.strip() == str(has_pool)


def test_parts_can_be_chosen() -> None:
    everything = parse_options([])
    assert set(everything.parts) == set(parts_of(everything))
    assert parse_options(["--parts", "bytes"]).parts == ["bytes"]
