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

NEW = "versions: {kernel: 6.12.43, libvirt: 11.3.0, qemu: 10.0.2, driver: 580.105.06}"
MACHINE = "cpus: 64, memory: 512GiB"
BIG = "cpus: 192, memory: 2TiB"
FABRIC = "fabric: HGX-H100-8"
PLAIN_FLEET = f"""
apiVersion: vgpumgr/v1
kind: Fleet
name: bench
hosts:
  - {{name: host, count: 100, {MACHINE}, gpus: [{{board: T4, count: 4}}]}}
"""
MIXED_FLEET = f"""
apiVersion: vgpumgr/v1
kind: Fleet
name: bench
hosts:
  - {{name: t4, count: 40, {MACHINE}, gpus: [{{board: T4, count: 4}}]}}
  - {{name: a40, count: 15, {MACHINE}, gpus: [{{board: A40, count: 2}}]}}
  - {{name: l40s, count: 15, {MACHINE}, gpus: [{{board: L40S, count: 2}}], {NEW}}}
  - {{name: a100, count: 15, {MACHINE}, gpus: [{{board: A100-PCIE-80GB, count: 2}}], {NEW}}}
  - {{name: hgx, count: 5, {BIG}, gpus: [{{board: H100-SXM5-80GB, count: 8}}], {FABRIC}, {NEW}}}
  - {{name: amd, count: 5, {MACHINE}, gpus: [{{board: MI300X, count: 2, vfs: 8}}], {NEW}}}
  - {{name: intel, count: 5, {MACHINE}, gpus: [{{board: FLEX-170, count: 4}}], {NEW}}}
"""
LAYOUT = """
apiVersion: vgpumgr/v1
kind: Layout
name: bench
hosts: [HOSTS]
gpus:
  - {model: A40, vfs: max}
  - {model: L40S, vfs: max, mixed_size: true}
  - {model: A100-PCIE-80GB, mig: true, vfs: max}
  - {model: FLEX-170, vfs: 4}
"""
CUT = {"a40": 15, "l40s": 15, "a100": 15, "intel": 5}
SHAPES = {
    "T4-2Q": 500,
    "A40-8Q": 120,
    "L40S-8Q": 120,
    "1g.10gb": 150,
    "passthrough": 20,
    "MI300X-1of8": 50,
    "FLEX-170-1of4": 40,
}
VM = """
apiVersion: vgpumgr/v1
kind: VM
name: NAME
replicas: COUNT
vcpus: 2
memory: 4GiB
gpus: [{profile: PROFILE}]
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
    from vgpumgr import domainxml
    from vgpumgr.app import App, load_config
    from vgpumgr.engine.operations import execution
    from vgpumgr.engine.operations.engine_context import EngineContext
    from vgpumgr.engine.vms import vm_apply
    from vgpumgr.spec import load

    watch = Stopwatch()
    watch.wrap(vm_apply, "plan", "probe all hosts, and plan")
    watch.wrap(vm_apply, "make_plan", "  of it the plan")
    watch.wrap(EngineContext, "place", "    of that placement")
    watch.wrap(vm_apply, "check_images", "look at images")
    watch.wrap(domainxml, "render", "render XML (sum)")
    watch.wrap(execution, "run", "execute")
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


def vms_of(shapes: dict[str, int]) -> str:
    """One document per profile."""
    documents = []
    for number, (profile, count) in enumerate(shapes.items()):
        text = VM.replace("NAME", f"vm{number}").replace("COUNT", str(count))
        if profile == "passthrough":
            profile += ", model: H100-SXM5-80GB"
        documents.append(text.replace("PROFILE", profile))
    return "---".join(documents)


def layout() -> str:
    """For every host whose GPUs are cut."""
    hosts = [f"{name}-{n:02d}" for name, count in CUT.items() for n in range(1, count + 1)]
    return LAYOUT.replace("HOSTS", ", ".join(hosts))


def measure(fleet_text: str, vms_text: str, layout_text: str = "") -> dict[str, Any]:
    """One fleet from nothing: layout, apply, apply again, delete, and a profiled apply."""
    program = str(Path(sys.executable).parent / "vgpumgr")
    with tempfile.TemporaryDirectory() as folder:
        state, vms, fleet, cut = (
            Path(folder) / name for name in ("state", "vms.yaml", "fleet.yaml", "layout.yaml")
        )
        fleet.write_text(fleet_text)
        vms.write_text(vms_text)
        cut.write_text(layout_text)
        environ = {**os.environ, "VGPUMGR_STATE_DIR": str(state)}

        def run(*words: str) -> float:
            start = time.perf_counter()
            subprocess.run([program, *words], env=environ, check=True, stdout=subprocess.DEVNULL)
            return round(time.perf_counter() - start, 2)

        found: dict[str, Any] = {}
        try:
            found["sim_up_s"] = run("sim", "up", "-f", str(fleet))
            if layout_text:
                found["layout_apply_s"] = run("layout", "apply", "-f", str(cut), "-y")
            found["apply_s"] = run("apply", "-f", str(vms))
            found["apply_again_s"] = run("apply", "-f", str(vms))
            found["delete_s"] = run("delete", "-f", str(vms), "--force", "-y")
            found["profile"] = profiled(state, vms)
        finally:
            run("sim", "down")
        return found


def main() -> None:
    plain = measure(PLAIN_FLEET, vms_of({"T4-2Q": 1000}))
    mixed = measure(MIXED_FLEET, vms_of(SHAPES), layout())
    result = {
        "benchmark": "apply_1000",
        "hosts": 100,
        "vms": 1000,
        "cpus": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 1),
        "goal": {"apply_s": GOAL_S},
        "plain": plain,
        "mixed": mixed,
        "mixed_over_plain": round(mixed["apply_s"] / plain["apply_s"], 2),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
