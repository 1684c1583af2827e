"""Worker processes: one that has ended, or is about to, is given no job of another caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from vgpumgr.api.worker import JobTeller, work
from vgpumgr.api.worker_pool import WorkerJob, WorkerPool

WORKER = """
import json, os, sys
def tell(**event): print(json.dumps(event), flush=True)
sys.stdin.readline()
tell(ready=os.getpid())
for line in sys.stdin:
    if json.loads(line).get("bug"):
        tell(error={"code": "failed", "message": "a bug"}, ends=True)
        sys.stdin.readline()  # it ends when it ends: a job that comes meanwhile is lost
        sys.exit(1)
    tell(answer={"pid": os.getpid()})
"""
"""A worker as the pool sees it."""
DEADLINE_S = 60.0


class Asked:
    """Jobs for a pool of one process, and their ends."""

    def __init__(self) -> None:
        self.pool = WorkerPool({}, idle=1, most=1)

    def __call__(self, **asked: Any) -> WorkerJob:
        ended = threading.Event()
        job = WorkerJob(asked=asked, changed=ended.set)
        self.pool.submit(job, DEADLINE_S)
        assert ended.wait(DEADLINE_S)
        return job


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    started = subprocess.Popen

    def popen(command: list[str], **named: Any) -> Any:
        assert command[-1] == "vgpumgr.api.worker"
        return started([sys.executable, "-S", "-c", WORKER], **named)

    monkeypatch.setattr(subprocess, "Popen", popen)
    made = Asked()
    yield made
    made.pool.close()


def test_after_a_bug_the_next_job_is_another_process(ask: Asked) -> None:
    failed = ask(bug=True)
    assert failed.error is not None and failed.error.message == "a bug"
    after = ask()
    assert (after.error, bool(after.answer)) == (None, True)


def test_a_process_that_ended_while_it_was_idle_is_given_no_job(ask: Asked) -> None:
    first = ask()
    assert first.answer is not None
    with ask.pool._lock:  # idle, and known to be
        while not ask.pool._idle:
            ask.pool._lock.wait(DEADLINE_S)
        [(_, idle)] = ask.pool._idle
    os.kill(first.answer["pid"], signal.SIGKILL)
    idle.wait(DEADLINE_S)
    after = ask()
    assert after.error is None and after.answer != first.answer


def test_a_bug_is_told_as_the_end_of_the_process() -> None:
    told: list[dict[str, object]] = []

    class Teller(JobTeller):
        def __init__(self) -> None: ...

        def tell(self, **event: object) -> None:
            told.append(event)

    with pytest.raises(TypeError):
        work(None, {}, Teller())  # type: ignore[arg-type]
    assert told[0]["ends"] and "error" in told[0]
