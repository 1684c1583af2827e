"""``python -m tests.checker DUMP.json [BASELINE.json]``: exit 1 when an invariant is violated."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.checker.check import check


def main() -> int:
    dumps = [json.loads(Path(name).read_text()) for name in sys.argv[1:3]]
    found = check(*dumps)
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
