"""The harness itself, in small: kills that are recovered from, and guards whose absence is seen.

``python -m tests.faults.selftest`` prints, for each case, how many were killed and what is broken.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.faults import lane, memory, processes
from tests.faults.lane import Job, Run
from tests.faults.processes import Tell
from tests.faults.sabotage import ALL as SABOTAGE

_SEED, _WITHIN_S = 1, 120.0


def _at(scenario: str, about: str, end: str) -> Job:
    return Job(scenario=scenario, store="sqlite", about=about, end=end)


# Each by the guard that is taken away; none is, of "".
CASES = {
    "": _at("migrate-cold/mdev", "migrate StartMoved done", "serve"),
    "late intent": _at("create/mdev", "helper mdev_create", "undo"),
    "blind undo": _at("create/mdev", "helper mdev_create", "undo"),
    "blind release": _at("delete/mdev", "after delete DeleteVolume done", "resume"),
    "no look": _at("create/mdev", "after create DefineDomain done", "serve"),
}


def _case(folder: Path, guard: str, tell: Tell) -> None:
    if guard:
        SABOTAGE[guard]()
    run = Run(seed=_SEED, until=time.monotonic() + _WITHIN_S, folder=folder)
    lane.work(run, [CASES[guard]], tell)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="vgpumgr-faults-", dir=memory.folder()) as name:
        ended = {
            guard: processes.run(partial(_case, Path(name), guard), _WITHIN_S) for guard in CASES
        }
    for guard, each in ended.items():
        if each.error:
            sys.exit(f"{guard}: {each.error}")
    figures = {guard: each.told[0]["figures"] for guard, each in ended.items()}
    print(json.dumps({guard: [f["injections"], f["broken"]] for guard, f in figures.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
