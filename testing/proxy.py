"""Starts the proxy of compose.yaml in front of web processes of this machine."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from testing.http_calls import Server
from testing.program import LOOPBACK, ROOT, Processes, answers, free_port, wait_until

# Debian has the program in a folder that is on the path of root alone.
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


def start_proxy(processes: Processes, behind: Sequence[Server], folder: Path) -> Server:
    """Start nginx with the configuration of compose.yaml, in front of these servers, and wait until
    one of them answers through it. Its files are in `folder`. The caller has found NGINX."""
    server = Server(LOOPBACK, free_port())
    file = folder / "nginx.conf"
    file.write_text(_configuration(behind, server.port, folder), encoding="utf-8")
    command = [str(NGINX), "-e", "stderr", "-p", str(folder), "-c", str(file)]
    processes.start("proxy", [*command, "-g", "daemon off;"])
    wait_until(lambda: answers(server), "the proxy", seconds=20)
    return server


def _configuration(behind: Sequence[Server], port: int, folder: Path) -> str:
    """Return the configuration with these servers instead of the ones that Docker names."""
    text = (ROOT / "nginx.conf").read_text(encoding="utf-8")
    servers = " ".join(
        f"server {one.host}:{one.port} max_fails=1 fail_timeout=5s;" for one in behind
    )
    for pattern, replacement in (
        (r"server web:8000 resolve [^;]+;", servers),
        (r"resolver [^;]+;", ""),
        (r"listen 8080;", f"listen {LOOPBACK}:{port};"),
    ):
        text, count = re.subn(pattern, replacement, text)
        assert count == 1, pattern
    return text.replace("/tmp/", f"{folder}/")  # noqa: S108
