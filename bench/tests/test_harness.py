"""Tests of what all measurements share, and that each command of the Makefile is there."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from bench import harness
from bench.harness import Figure, measure
from testing.http_calls import RunError
from testing.program import ROOT, Processes

RIGHT, WRONG = Figure.all_of("right", 2, 2), Figure.at_most("wrong", 3, 2)


@pytest.fixture(autouse=True)
def _results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "results")


@pytest.mark.parametrize(("figures", "code"), [([RIGHT], 0), ([RIGHT, WRONG], 1), ([], 1)])
def test_a_missed_target_and_no_figure_are_failures(
    figures: list[Figure], code: int, tmp_path: Path
) -> None:
    assert measure(lambda _: figures, what="nothing") == code
    assert len(list(tmp_path.glob("results/*.json"))) == bool(figures)


def test_a_run_that_breaks_off_keeps_its_figures_and_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def play(_: Processes) -> Iterator[Figure]:
        yield RIGHT
        raise RunError("The model has gone.")

    assert measure(play, what="nothing") == 1
    told = capsys.readouterr()
    assert "2 of 2" in told.out
    assert "The model has gone." in told.err


def commands() -> list[str]:
    rule = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nbench:")[2]
    return ["bench", *sorted(set(re.findall(r"\bbench\.[\w.]+", rule.partition("\nchaos:")[0])))]


@pytest.mark.parametrize("module", commands())
def test_each_command_of_the_makefile_is_there(module: str) -> None:
    is_package = (ROOT / module.replace(".", "/") / "__main__.py").exists()
    found = import_module(f"{module}.__main__" if is_package else module)
    assert callable(found.main)
    getattr(found, "parse_options", list)([])
