"""The oracle's process, asked line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from benchmarks.placement.repacking.problem import Problem


class Oracle:
    """CP-SAT in a process of its own; a context manager."""

    def __enter__(self) -> Oracle:
        argv = [sys.executable, "-m", "benchmarks.placement.repacking.oracle"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, problem: Problem) -> dict[str, Any]:
        """``status``, and ``moves`` and ``bound`` where moves were found."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        asked.write(json.dumps(problem) + "\n")
        asked.flush()
        answer: dict[str, Any] = json.loads(answers.readline())
        return answer


def counted(problem: Problem) -> int:
    """A bound without a solver: all VMs of the GPUs that hold the fewest have to move."""
    held = [0] * len(problem["gpus"])
    for vm in problem["vms"]:
        held[vm["gpu"]] += 1
    return sum(sorted(held)[: problem["empty"]])
