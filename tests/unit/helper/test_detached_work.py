"""Work that may never return: it is left alone, and its place is not taken before it is gone."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vgpumgr.helper import detached_work
from vgpumgr.helper.system import System


def test_what_it_returns_comes_back(tmp_path: Path) -> None:
    def work() -> dict[str, object]:
        return {"pid": os.getpid(), "big": "x" * 300_000}

    found = System(str(tmp_path)).detached(work, 20.0, "/run/l")
    assert found["pid"] != os.getpid()
    assert len(found["big"]) == 300_000


def test_a_defect_in_it_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="ZeroDivisionError") as failed:
        detached_work.run(lambda: 1 / 0, 20.0, str(tmp_path / "l"))
    assert failed.value.errno == errno.EPROTO


def test_its_death_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="before it answered") as failed:
        detached_work.run(lambda: os.kill(os.getpid(), signal.SIGKILL), 20.0, str(tmp_path / "l"))
    assert failed.value.errno == errno.EPROTO


# A child that SIGKILL does not end stands for one in the kernel: here it is one that had a child
# of its own, which holds the file as long as the driver would.
HANGS = """
import os, sys, time
from vgpumgr.helper import detached_work
def work():
    if os.fork() == 0:
        os.setsid()
        open(sys.argv[2], "w").write(str(os.getpid()))
        time.sleep(600)
    time.sleep(600)
try:
    detached_work.run(work, float(sys.argv[3]), sys.argv[1])
except OSError as error:
    print(error.errno)
"""


def test_what_hangs_is_left_alone_and_no_second_joins_it(tmp_path: Path) -> None:
    lock, pid = tmp_path / "l", tmp_path / "pid"

    def asked(seconds: str) -> int:
        """The asking program ends although what it asked does not: its output is at its end."""
        argv = [sys.executable, "-c", HANGS, str(lock), str(pid), seconds]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        return int(done.stdout)

    assert asked("2.0") == errno.ETIMEDOUT
    first = int(pid.read_text())
    try:
        assert asked("0.4") == errno.EBUSY
        assert int(pid.read_text()) == first, "another has begun to wait for the driver"
    finally:
        os.kill(first, signal.SIGKILL)
    assert detached_work.run(lambda: "well", 60.0, str(lock)) == "well", "its place stays taken"


# A caller that is killed while an answer longer than the pipe is on its way.
KILLED = """
import os, signal, sys
from vgpumgr.helper import detached_work
def work():
    os.kill(os.getppid(), signal.SIGKILL)
    return "x" * 300_000
detached_work.run(work, 60.0, sys.argv[1])
"""


def test_an_answer_that_no_caller_waits_for_keeps_no_place(tmp_path: Path) -> None:
    lock = tmp_path / "l"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(lock)], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert detached_work.run(lambda: "well", 10.0, str(lock)) == "well", "its place stays taken"


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "l").symlink_to(target)
    with pytest.raises(OSError):
        detached_work.run(lambda: 1, 5.0, str(tmp_path / "l"))
    assert not target.exists()
