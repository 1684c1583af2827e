"""Lanes side by side: each gets its next job when it has done one."""

from __future__ import annotations

import gc
import json
import os
import select
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from tests.faults import lane, processes
from tests.faults.lane import Job, Run
from tests.faults.points import Pair


@dataclass(slots=True)
class _Lane:
    """A lane from outside: where its jobs go, where its answers come from, what it does now."""

    pid: int
    jobs: BinaryIO
    answers: BinaryIO
    doing: Job | None = None

    def give(self, job: Job) -> None:
        self.doing = job
        self.jobs.write(json.dumps(asdict(job)).encode() + b"\n")
        self.jobs.flush()

    def answer(self) -> dict[str, Any]:
        """RuntimeError when it failed, with all that it said."""
        line = self.answers.readline()
        found: dict[str, Any] = (
            json.loads(line) if line else {"failed": f"lane {self.pid} is deleted"}
        )
        if "failed" in found:
            raise RuntimeError(f"{self.doing}: {found['failed']}")
        self.doing = None
        return found


class Fleet:
    """So many lanes of a run."""

    def __init__(self, run: Run, count: int) -> None:
        self._run = run
        self._lanes: list[_Lane] = []
        for _ in range(count):
            self._lanes.append(self._start())

    def do(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Each job's answer as it is done; none is begun when time is up."""
        waiting = list(reversed(jobs))
        while True:
            for each in self._lanes:
                if each.doing is None and waiting and time.monotonic() < self._run.until:
                    each.give(waiting.pop())
            busy = {each.answers: each for each in self._lanes if each.doing is not None}
            if not busy:
                return
            for ready in select.select(list(busy), [], [])[0]:
                job = busy[ready].doing
                assert job is not None
                yield job, busy[ready].answer()

    def close(self) -> None:
        """Let every lane end."""
        for each in self._lanes:
            each.jobs.close()
        for each in self._lanes:
            os.waitpid(each.pid, 0)
            each.answers.close()

    def _start(self) -> _Lane:
        jobs_read, jobs_write = os.pipe()
        read, write = os.pipe()
        pid = processes.fork()
        if pid == 0:
            gc.enable()  # it lives long
            for each in self._lanes:
                each.jobs.close()
            os.close(jobs_write)
            os.close(read)
            _work(self._run, jobs_read, write)
        os.close(jobs_read)
        os.close(write)
        return _Lane(pid, os.fdopen(jobs_write, "wb"), os.fdopen(read, "rb"))


def _work(run: Run, jobs: int, answers: int) -> None:
    """Never returns."""
    with os.fdopen(answers, "wb") as out:

        def tell(value: Any) -> None:
            out.write(json.dumps(value).encode() + b"\n")
            out.flush()

        try:
            with os.fdopen(jobs, "rb") as lines:
                lane.work(run, (_job(json.loads(line)) for line in lines), tell)
        except BaseException:
            tell({"failed": traceback.format_exc()})
    os._exit(0)


def _job(plain: dict[str, Any]) -> Job:
    pairs = tuple(Pair(**{**each, "seconds": tuple(each["seconds"])}) for each in plain["pairs"])
    return Job(**{**plain, "points": tuple(plain["points"]), "pairs": pairs})
