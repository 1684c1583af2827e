"""The solver process: batch problems on standard input, answers on standard output, as JSON."""

from __future__ import annotations

import signal
import sys

from pydantic import TypeAdapter

from vgpumgr.placement.batch.batch_problem import BatchAnswer, BatchProblem
from vgpumgr.placement.batch.cp_sat import solve


def main() -> None:
    """Until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it in the middle of a problem, too
    problems, answers = TypeAdapter(BatchProblem), TypeAdapter(BatchAnswer)
    for line in sys.stdin.buffer:
        answer = solve(problems.validate_json(line))
        sys.stdout.buffer.write(answers.dump_json(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
