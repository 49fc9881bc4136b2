"""Tests that the program reports a full disk, loses nothing, and plays on when there is room."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from storyengine.tests.running import ScriptedProgram, run_scripted_program
from testing.chapter_client import ChapterClient
from testing.http_calls import call, stream
from testing.program import free_port, wait_until
from testing.session_data import setup_of, synthetic_session

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        "STORYENGINE_TEST_DATABASE_URL" in os.environ,
        reason="the disk of the servers for tests cannot be filled",
    ),
]

# The variable names a folder on a small disk. CI sets it, because its container may not mount a
# disk. If the variable is set and the folder is missing, the tests fail.
GIVEN = "STORYENGINE_TEST_DISK"
LARGEST_BYTES = 64_000_000
SAID = "The disk that chapters are stored on is full"
PATIENCE_SECONDS = 60


class Disk:
    """A small disk. It has only the data of the program and a file that fills it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        handle, size = os.open(self._filler, os.O_WRONLY | os.O_CREAT, 0o600), 1 << 16
        while size:
            try:
                os.write(handle, bytes(size))
            except OSError:
                size //= 2
        os.close(handle)

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    given = os.environ.get(GIVEN)
    with _given_disk(Path(given)) if given else _mounted_disk(tmp_path) as folder:
        yield Disk(folder)


@contextmanager
def _given_disk(root: Path) -> Iterator[Path]:
    assert root.is_dir(), f"{GIVEN} names no folder"
    assert shutil.disk_usage(root).total <= LARGEST_BYTES, f"{GIVEN} names no small disk"
    with TemporaryDirectory(dir=root) as folder:
        yield Path(folder)


@contextmanager
def _mounted_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)  # noqa: S603
    except FileNotFoundError:
        pytest.skip(f"no mount on this machine: no disk is filled; {GIVEN} may name a small one")
    if done.returncode:
        pytest.skip(f"nothing may be mounted here: no disk is filled; {GIVEN} may name a small one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607


@pytest.fixture
def program(disk: Disk) -> Iterator[ScriptedProgram]:
    with run_scripted_program(data_folder=disk.folder / "data") as running:
        yield running


def test_it_says_so_and_plays_on_when_there_is_room(disk: Disk, program: ScriptedProgram) -> None:
    chapter = ChapterClient(program.server)
    chapter.save_setup(setup_of(synthetic_session(10)))
    chapter.lock(seconds=PATIENCE_SECONDS)
    chapter.prompt(1, "Beat 1.")
    program.model.queue_faults("slow", agent=2)
    path = f"/api/session/{chapter.session_id}"
    body = {"agent_slot": 2, "user_text": "The lamp goes out."}
    events = stream(program.server, f"{path}/prompt", body, timeout=PATIENCE_SECONDS)
    shown = [next(events)]
    disk.fill()
    shown += events
    assert shown[-1].name == "error"
    assert json.loads(shown[-1].data)["status"] == 507
    words = "".join(json.loads(event.data)["text"] for event in shown[:-1])

    answer = call(program.server, "POST", "/api/session", {})
    assert (answer.status, answer.json()["title"]) == (507, "The disk is full")
    assert answer.json()["detail"].startswith(SAID)
    # To show this page, the program must store that the reply broke off, because the lease of the
    # reply has run out. The full disk prevents this, so the page reports the full disk.
    page = call(program.server, "GET", f"/chapters/{chapter.session_id}/play")
    assert page.status == 507
    assert SAID in page.body.decode()
    ready = call(program.server, "GET", "/readyz")
    assert (ready.status, ready.json()["checks"]["disk"]["ok"]) == (503, False)
    assert "the disk is full" in program.processes.log_of("web")
    assert "Logging error" not in program.processes.log_of("web")
    wait_until(
        lambda: "the disk is full" in program.processes.log_of("worker"),
        "the worker to say so",
        seconds=PATIENCE_SECONDS,
    )
    for folder in ("data", "data of another installation"):
        assert "is full" in start_anew(program, disk.folder / folder)

    disk.make_room()
    wait_until(lambda: text_of_reply(chapter).startswith(words), "the words", seconds=10)
    chapter.prompt(1, "After.")
    wait_until(
        lambda: call(program.server, "GET", "/readyz").status == 200,
        "the worker to say that it lives",
        seconds=PATIENCE_SECONDS,
    )
    assert {event["text"] for event in chapter.read()["events"]} >= {"Beat 1.", "After."}


def text_of_reply(chapter: ChapterClient) -> str:
    """Return the text of the latest reply. If the reply is broken, return the part that was
    kept."""
    read = chapter.read()
    pending = read["pending_turn"]
    return str(pending["partial_text"] if pending else read["events"][-1]["text"])


def start_anew(program: ScriptedProgram, data: Path) -> str:
    """Prepare the program once more with its data in this folder of the small disk. Return the
    error message, which is one line."""
    done = subprocess.run(
        [sys.executable, "manage.py", "prepare"],
        env={
            **program.processes.environment,
            "PORT": str(free_port()),
            "STORYENGINE_DATA": str(data),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    assert done.stderr.count("\n") == 1
    return done.stderr
