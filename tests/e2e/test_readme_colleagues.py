"""The README's "With colleagues", typed as it is written: a controller, and another machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.e2e.support import Cli, host, new_cli, until, vm

pytestmark = pytest.mark.mainline
TEXT = Path("README.md").read_text().partition("## With colleagues")[2].partition("\n## ")[0]
CONTROLLER, ELSEWHERE = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 2)))
        made.ok("apply", "-f", made.documents(vm("desk", "T4-4Q")))
        yield made


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def shell(text: str, folder: Path, **environ: str) -> subprocess.Popen[str]:
    program = Path(shutil.which("python3") or "").parent
    path = f"{Path('.venv/bin').absolute()}:{program}:{os.environ['PATH']}"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("VGPUMGR_")}
    return subprocess.Popen(
        ["bash", "-e"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, cwd=folder, env={**clean, **environ, "PATH": path}, start_new_session=True,
    )  # fmt: skip


def test_the_lines_work_as_they_are_written(cli: Cli, tmp_path: Path) -> None:
    assert len((CONTROLLER + ELSEWHERE).splitlines()) <= 10
    port = free_port()
    Authority(tmp_path / "ca").issue("DNS:localhost,IP:127.0.0.1", tmp_path)
    for made, name in (
        ("server-cert", "gpu.pem"),
        ("server-key", "gpu.key"),
        ("ca-cert", "ca.pem"),
    ):
        shutil.copy(tmp_path / f"{made}.pem", tmp_path / name)
    here = CONTROLLER.replace("0.0.0.0:8443", f"127.0.0.1:{port}").replace("gpu-operators", "root")
    controller = shell(here, tmp_path, VGPUMGR_STATE_DIR=str(cli.state))
    try:
        assert controller.stdin is not None
        controller.stdin.write(here + "\nwait\n")
        controller.stdin.close()
        until(lambda: _answers(port), "the API to listen")
        until(lambda: (tmp_path / "token").is_file(), "the token")
        until(lambda: (tmp_path / "token").stat().st_size > 40, "the token's secret")
        there = ELSEWHERE.replace("gpu.example.org:8443", f"localhost:{port}")
        ada = shell(there, tmp_path, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path / "config"))
        said, _ = ada.communicate(there, timeout=120)
        assert ada.returncode == 0, said
        assert "1 of 1 done" in said
    finally:
        os.killpg(controller.pid, signal.SIGTERM)
        controller.wait(60)
        assert controller.stdout is not None
        controller.stdout.close()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
