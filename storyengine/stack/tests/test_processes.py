"""Tests that the processes which honcho has started end when honcho ends, even if honcho is
killed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from django.conf import settings

from storyengine.stack.processes import sentence_about
from storyengine.tests.running import is_alive
from testing.program import procfile_lines, wait_until

Runner = subprocess.Popen[str]

# The code of a process that behaves at SIGTERM as the program's processes do: it finishes its work,
# here by writing the file "word", and then ends.
SLEEPER = """
import signal, sys, time
from pathlib import Path
from storyengine.stack.parents import end_with_parent
def end(*_):
    print("a word that nobody reads", flush=True)
    Path("word").write_text("in order")
    sys.exit()
signal.signal(signal.SIGTERM, end)
end_with_parent()
Path("sleeper").write_text("sleeps")
time.sleep(100)
"""


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    (tmp_path / "Procfile").write_text("sleeper: exec sleep 100\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "storyengine.stack.processes", "--port", "8000", "sleeper"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(settings.BASE_DIR), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    process.kill()
    process.wait()
    # The test closes the output itself. communicate() would wait until every process that can write
    # to the output has ended, and a process that wrongly goes on would block the test.
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Yield the process ids of a shell, of honcho, which the shell runs, and of the sleeper, which
    honcho runs."""
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    (tmp_path / "Procfile").write_text(f"sleeper: exec {sys.executable} sleeper.py\n")
    honcho = f"{sys.executable} -m storyengine.stack.processes --no-colour --port 8000 sleeper"
    shell = subprocess.Popen(  # noqa: S602  (these words are the test's own)
        f"{honcho} & echo honcho $!; wait",
        shell=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(settings.BASE_DIR), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shell.stdout is not None
    ids = {"shell": shell.pid, "honcho": int(shell.stdout.readline().split()[1])}
    line = re.search(r"started \(pid=(\d+)\)", shell.stdout.readline())
    assert line
    ids["sleeper"] = int(line[1])
    yield ids
    for group in (ids["shell"], ids["sleeper"]):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    shell.wait()
    shell.stdout.close()


def wait_for_the_sleeper(runner: Runner) -> int:
    assert runner.stdout is not None
    started = re.search(r"started \(pid=(\d+)\)", runner.stdout.readline())
    assert started
    return int(started[1])


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 0), (signal.SIGHUP, 143), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_it_with_its_processes(runner: Runner, sent: int, code: int) -> None:
    sleeper = wait_for_the_sleeper(runner)
    runner.send_signal(sent)
    output, _ = runner.communicate(timeout=30)
    assert runner.returncode == code
    assert "Traceback" not in output
    assert "Story Engine has stopped" not in output
    with pytest.raises(ProcessLookupError):
        os.kill(sleeper, 0)


@pytest.mark.parametrize(
    ("sent", "how"), [(signal.SIGKILL, "was killed (a system does"), (signal.SIGTERM, "ended (the")]
)
def test_it_stops_when_one_process_does_and_its_last_line_says_so(
    runner: Runner, sent: int, how: str
) -> None:
    os.kill(wait_for_the_sleeper(runner), sent)
    output, _ = runner.communicate(timeout=30)
    assert runner.returncode != 0
    last = output.splitlines()[-1]
    assert f"sleeper.1 {how}" in last
    assert "Story Engine has stopped" in last
    assert "`make run` starts it again" in last


@pytest.mark.parametrize("name", ["web", "worker", "model"])
def test_each_process_of_the_procfile_is_called_by_what_it_does(name: str) -> None:
    assert name in dict(procfile_lines())
    assert not sentence_about(f"{name}.1", -signal.SIGKILL).startswith(name)


@pytest.mark.parametrize("killed", ["shell", "honcho", "all of them"])
def test_a_parent_that_is_killed_takes_them_along(
    started: dict[str, int], tmp_path: Path, killed: str
) -> None:
    wait_until((tmp_path / "sleeper").exists, "the sleeper", seconds=30)
    if killed == "all of them":
        # The group also contains the processes of honcho that read the output of the sleeper.
        os.killpg(started["shell"], signal.SIGKILL)
    else:
        os.kill(started[killed], signal.SIGKILL)
    left = (started["honcho"], started["sleeper"])
    wait_until(lambda: not any(map(is_alive, left)), "their end", seconds=30)
    assert (tmp_path / "word").read_text() == "in order"
