"""Lanes side by side, and what they tell as it comes."""

from __future__ import annotations

import gc
import json
import os
import select
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from tests.faults import lane, processes
from tests.faults.lane import Job, Queue, Run


def run(shared: Run, jobs: Sequence[Job], lanes: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Each job's answer as it is done; RuntimeError when a lane fails."""
    queue = Queue(len(jobs))
    started = [_start(shared, jobs, queue) for _ in range(min(lanes, len(jobs)))]
    left = {read: b"" for _, read in started}
    while left:
        for read in select.select(list(left), [], [])[0]:
            piece = os.read(read, 1 << 20)
            *lines, left[read] = (left[read] + piece).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                if "failed" in answer:
                    raise RuntimeError(answer["failed"])
                yield jobs[answer["job"]], answer
            if not piece:
                os.close(read)
                del left[read]
    for pid, _ in started:
        os.waitpid(pid, 0)


def _start(shared: Run, jobs: Sequence[Job], queue: Queue) -> tuple[int, int]:
    read, write = os.pipe()
    pid = processes.fork()
    if pid == 0:
        gc.enable()  # it lives long
        os.close(read)
        with os.fdopen(write, "wb", buffering=0) as out:

            def tell(value: Any) -> None:
                out.write(json.dumps(value).encode() + b"\n")

            try:
                lane.work(shared, jobs, queue, tell)
            except BaseException:
                tell({"failed": traceback.format_exc()})
        os._exit(0)
    os.close(write)
    return pid, read
