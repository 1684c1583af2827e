"""drift over 100 simulated hosts with 1,000 VMs, as a user runs it, beside a plain refresh."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from apply_1000 import MIXED_FLEET, PLAIN_FLEET, SHAPES, layout, vms_of

ROUNDS = 3


def measure(fleet_text: str, vms_text: str, layout_text: str = "") -> dict[str, Any]:
    """One fleet from nothing; the best of some rounds."""
    program = str(Path(sys.executable).parent / "vgpumgr")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environ = {**os.environ, "VGPUMGR_STATE_DIR": str(home / "state")}

        def run(*words: str) -> float:
            start = time.perf_counter()
            subprocess.run([program, *words], env=environ, check=True, stdout=subprocess.DEVNULL)
            return round(time.perf_counter() - start, 2)

        def file(name: str, text: str) -> str:
            (home / name).write_text(text)
            return str(home / name)

        try:
            run("sim", "up", "-f", file("fleet.yaml", fleet_text))
            if layout_text:
                run("layout", "apply", "-f", file("layout.yaml", layout_text), "-y")
            run("apply", "-f", file("vms.yaml", vms_text))
            return {
                "refresh_s": min(run("host", "list", "--refresh") for _ in range(ROUNDS)),
                "drift_s": min(run("drift") for _ in range(ROUNDS)),
            }
        finally:
            run("sim", "down")


def main() -> None:
    result = {
        "benchmark": "drift_1000",
        "hosts": 100,
        "vms": 1000,
        "cpus": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 1),
        "plain": measure(PLAIN_FLEET, vms_of({"T4-2Q": 1000})),
        "mixed": measure(MIXED_FLEET, vms_of(SHAPES), layout()),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
