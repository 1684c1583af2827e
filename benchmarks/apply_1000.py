"""apply of 1,000 VMs over 100 simulated hosts, as a user runs it, and where the time goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

FLEET = """
apiVersion: vgpumgr/v1
kind: Fleet
name: bench
hosts:
  - {name: host, count: 100, cpus: 64, memory: 512GiB, gpus: [{board: T4, count: 4}]}
"""
VMS = """
apiVersion: vgpumgr/v1
kind: VM
name: desktop
replicas: 1000
vcpus: 2
memory: 4GiB
gpus: [{profile: T4-2Q}]
disks: [{size: 20GiB}]
networks: [{network: default}]
"""
GOAL_S = 10.0


class Stopwatch:
    """Sums the time spent in functions, over all threads."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self._lock = threading.Lock()

    def wrap(self, owner: Any, attribute: str, label: str) -> None:
        inner: Callable[..., Any] = getattr(owner, attribute)

        @wraps(inner)
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                with self._lock:
                    self.spent[label] = self.spent.get(label, 0.0) + time.perf_counter() - start
                    self.calls[label] = self.calls.get(label, 0) + 1

        setattr(owner, attribute, timed)


def profiled(state: Path, file: Path) -> dict[str, Any]:
    """The same apply in this process, with the main phases timed (wall time; lanes overlap)."""
    from vgpumgr.app import App, load_config
    from vgpumgr.engine import creation, engine, execute, planning, preflight
    from vgpumgr.spec import load

    watch = Stopwatch()
    watch.wrap(engine, "observe", "probe all hosts")
    watch.wrap(engine, "make_plan", "plan")
    watch.wrap(planning, "place", "  of it placement")
    watch.wrap(preflight, "check_images", "look at images")
    watch.wrap(creation.domainxml, "render", "render XML (sum)")
    watch.wrap(execute.Executor, "run", "execute")
    app = App(load_config({"VGPUMGR_STATE_DIR": str(state), "HOME": str(state)}, state))
    watch.wrap(app.engine.ledger, "reserve", "reserve (one transaction)")
    watch.wrap(app.engine.ledger, "record", "journal commits (sum over lanes)")
    vms = load(file.read_bytes(), str(file)).vms
    start = time.perf_counter()
    _, outcome = app.engine.apply(vms)
    total = time.perf_counter() - start
    app.close()
    return {
        "total_s": round(total, 2),
        "vms_done": len(outcome.done),
        "seconds": {name: round(value, 2) for name, value in watch.spent.items()},
        "calls": watch.calls,
    }


def main() -> None:
    program = str(Path(sys.executable).parent / "vgpumgr")
    with tempfile.TemporaryDirectory() as folder:
        state, vms = Path(folder) / "state", Path(folder) / "vms.yaml"
        fleet = Path(folder) / "fleet.yaml"
        fleet.write_text(FLEET)
        vms.write_text(VMS)
        environ = {**os.environ, "VGPUMGR_STATE_DIR": str(state)}

        def run(*words: str) -> float:
            start = time.perf_counter()
            subprocess.run([program, *words], env=environ, check=True, stdout=subprocess.DEVNULL)
            return time.perf_counter() - start

        try:
            run("sim", "up", "-f", str(fleet))
            apply_s = run("apply", "-f", str(vms))
            again_s = run("apply", "-f", str(vms))
            delete_s = run("delete", "-f", str(vms), "--force", "-y")
            profile = profiled(state, vms)
        finally:
            run("sim", "down")
    print(
        json.dumps(
            {
                "benchmark": "apply_1000",
                "hosts": 100,
                "vms": 1000,
                "cpus": os.cpu_count(),
                "apply_s": round(apply_s, 2),
                "apply_again_s": round(again_s, 2),
                "delete_s": round(delete_s, 2),
                "goal": {"apply_s": GOAL_S},
                "profile": profile,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
