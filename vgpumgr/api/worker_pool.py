"""Worker processes for what takes long: a process a job, some kept ready."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.model.errors import DeadlineExceeded, OutcomeUnknown, VgpumgrError, error_from

READY_S = 30.0
"""How long a new process may take until it is ready."""
KEPT_S = 60.0
"""How long one more than are kept ready waits for another job."""


@dataclass(slots=True)
class WorkerJob:
    """One endpoint being carried out. ``operation`` is the id of the first that was reserved,
    ``plan`` the changes ahead, ``told`` lines on how far it has come; ``answer`` or
    ``error`` is its end. ``changed`` is called, in another thread, at each change.
    """

    asked: Mapping[str, Any]
    changed: Callable[[], None]
    operation: str = ""
    plan: dict[str, Any] | None = None
    told: list[str] = field(default_factory=list)
    answer: dict[str, Any] | None = None
    error: VgpumgrError | None = None
    progress: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Is there an answer or an error?"""
        return self.answer is not None or self.error is not None

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take in what the worker tells."""
        if "begun" in event:
            self.operation = self.operation or str(event["begun"])
        elif "progress" in event:
            self.progress.append(event["progress"])
            return
        elif "planned" in event:
            self.plan = event["planned"]
            return
        elif "told" in event:
            self.told.append(event["told"])
            return
        elif "answer" in event:
            self.answer = event["answer"]
        elif "error" in event:
            self.error = error_from(event["error"])
        self.changed()


class _WorkerProcess:
    """One process; it has at most one job."""

    def __init__(self, overrides: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "vgpumgr.api.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._send(overrides)

    def _send(self, data: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(data) + "\n")
        self._process.stdin.flush()

    def events(self) -> Any:
        """Every event, as it comes, until the process ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield json.loads(line)

    def carry_out(self, job: WorkerJob) -> bool:
        """Work on a job until its end; can the process take another?"""
        try:
            self._send(job.asked)
            for event in self.events():
                job.hear(event)
                if job.ended:
                    return "ends" not in event
        except (OSError, ValueError):
            pass
        if not job.ended:
            job.error = OutcomeUnknown(
                "the process that worked on it has ended",
                why="what it had begun is in its operation",
                next="vgpumgr operation list --open",
            )
            job.changed()
        return False

    @property
    def runs(self) -> bool:
        """Is it there?"""
        return self._process.poll() is None

    def wait_ready(self) -> bool:
        """Wait until it says so."""
        return any("ready" in event for event in self.events())

    def end(self) -> None:
        """Take no more; the running job ends first."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                pass

    def stop(self) -> None:
        """Let the running host calls end, and then the process."""
        self._process.terminate()
        self.end()

    def wait(self, timeout_s: float) -> None:
        """Wait for its end."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class WorkerPool:
    """At most ``most`` processes, ``idle`` of them kept ready; safe to share between threads. What
    a rush needed more is kept for a while after it.
    """

    def __init__(self, overrides: Mapping[str, str], *, idle: int = 2, most: int = 16) -> None:
        self._overrides = overrides
        self._idle_wanted = idle
        self._most = most
        self._lock = threading.Condition()
        self._idle: list[tuple[float, _WorkerProcess]] = []  # since when; the last is taken first
        self._all: set[_WorkerProcess] = set()
        self._closed = False

    def start(self) -> None:
        """Make some ready."""
        for _ in range(self._idle_wanted):
            threading.Thread(target=self._add_idle, name="worker-start", daemon=True).start()

    def submit(self, job: WorkerJob, wait_s: float = READY_S) -> None:
        """Begin a job; DeadlineExceeded where no process is free for so long."""
        worker = self._take(time.monotonic() + wait_s)
        threading.Thread(target=self._run, args=(worker, job), name="worker", daemon=True).start()

    def close(self, timeout_s: float = 60.0) -> None:
        """Stop all; running host calls are let end."""
        with self._lock:
            self._closed = True
            workers = list(self._all)
        for worker in workers:
            worker.stop()
        until = time.monotonic() + timeout_s
        for worker in workers:
            worker.wait(max(0.1, until - time.monotonic()))

    def _take(self, until: float) -> _WorkerProcess:
        with self._lock:
            while (worker := self._ready()) is None:
                if len(self._all) < self._most and not self._closed:
                    threading.Thread(target=self._add_idle, daemon=True).start()
                if not self._lock.wait(until - time.monotonic()):
                    raise DeadlineExceeded(
                        "no process is free for it",
                        why=f"all {self._most} are at work",
                        next="try again in a while",
                    )
            return worker

    def _ready(self) -> _WorkerProcess | None:
        """The last that became idle; one that has ended meanwhile is let go."""
        while self._idle:
            worker = self._idle.pop()[1]
            if worker.runs:
                return worker
            self._all.discard(worker)
            worker.end()
            worker.wait(READY_S)
        return None

    def _add_idle(self) -> None:
        with self._lock:
            if self._closed or len(self._all) >= self._most:
                return
            worker = _WorkerProcess(self._overrides)
            self._all.add(worker)
        ready = worker.wait_ready()
        self._give_back(worker, ready=ready)

    def _run(self, worker: _WorkerProcess, job: WorkerJob) -> None:
        self._give_back(worker, ready=worker.carry_out(job))

    def _give_back(self, worker: _WorkerProcess, *, ready: bool) -> None:
        """Keep it for the next job, or let it end where it can take none."""
        with self._lock:
            keep = ready and not self._closed
            if keep:
                self._idle.append((time.monotonic(), worker))
            else:
                self._all.discard(worker)
            more = len(self._idle) > self._idle_wanted
            self._lock.notify()
        if not keep:
            worker.end()
            worker.wait(READY_S)
        elif more:
            later = threading.Timer(KEPT_S, self._let_go)
            later.daemon = True
            later.start()

    def _let_go(self) -> None:
        """End the processes that a rush left, once they have waited long."""
        ended = []
        with self._lock:
            while len(self._idle) > self._idle_wanted:
                since, worker = self._idle[0]
                if time.monotonic() - since < KEPT_S:
                    break
                del self._idle[0]
                self._all.discard(worker)
                ended.append(worker)
        for worker in ended:
            worker.end()
            worker.wait(READY_S)
