"""Problems in on standard input, answers out on standard output: a line of JSON each."""

from __future__ import annotations

import signal
import sys

from pydantic import TypeAdapter

from vgpumgr.placement.joint.cpsat import solve
from vgpumgr.placement.joint.problem import Answer, Problem


def main() -> None:
    """Until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it in the middle of a problem, too
    problems, answers = TypeAdapter(Problem), TypeAdapter(Answer)
    for line in sys.stdin.buffer:
        answer = solve(problems.validate_json(line))
        sys.stdout.buffer.write(answers.dump_json(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
