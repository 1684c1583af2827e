"""CP-SAT in a process of its own: it and HiGHS cannot be imported into one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


class Solver:
    """A module that answers lines of JSON with lines of JSON; a context manager."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __enter__(self) -> Solver:
        argv, pipe = [sys.executable, "-m", self._module], subprocess.PIPE
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        asked.write(json.dumps(problem) + "\n")
        asked.flush()
        answer: dict[str, Any] = json.loads(answers.readline())
        return answer
