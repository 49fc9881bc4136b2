"""What honcho started ends with it, however it is stopped."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

Runner = subprocess.Popen[str]


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    (tmp_path / "Procfile").write_text("sleeper: exec sleep 100\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "storyengine.processes", "--port", "8000", "sleeper"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(settings.BASE_DIR), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    process.kill()
    process.wait()
    # Not communicate(): a process that was left over would keep it waiting.
    assert process.stdout is not None
    process.stdout.close()


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
    with pytest.raises(ProcessLookupError):
        os.kill(sleeper, 0)


def test_it_stops_when_one_process_does(runner: Runner) -> None:
    os.kill(wait_for_the_sleeper(runner), signal.SIGKILL)
    runner.communicate(timeout=30)
    assert runner.returncode != 0
