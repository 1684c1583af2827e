"""How long the command line takes to start, against `import click`, interleaved in one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostFacts, HostRecord, Versions
from vgpumgr.model.operation import OperationRecord, OperationState, Reservation
from vgpumgr.model.vm import GpuRequest, VmRecord, VmSpec, VmState
from vgpumgr.store import open_ledger

ROUNDS = 15
VMS = 1000


def vm(number: int) -> VmRecord:
    spec = VmSpec(
        name=f"vm-{number:04}", vcpus=2, memory_mib=4096, gpus=(GpuRequest(profile="T4-2Q"),)
    )
    return VmRecord(
        id=str(uuid.uuid4()),
        host=f"h{number % 100:03}",
        state=VmState.ACTIVE,
        running=True,
        generation=1,
        spec=spec,
    )


def fill(path: Path) -> None:
    """A ledger with 1,000 VMs on 100 hosts."""
    ledger = open_ledger(path)
    for number in range(100):
        ledger.add_host(HostRecord(name=f"h{number:03}", address=f"sim://h{number:03}"))
        gpu = GpuFacts(device="0000:41:00.0", path="/sys/x", model="T4", uuid=str(uuid.uuid4()))
        facts = HostFacts(
            host=f"h{number:03}", boot_id="b", hostname="h", versions=Versions(), cpus=64,
            memory_mib=1 << 19, iommu=True, kvm=True, gpus=(gpu,),
        )  # fmt: skip
        ledger.observe(facts, {"0000:41:00.0": 16}, time.time())
    vms = tuple(vm(number) for number in range(VMS))
    operation = OperationRecord(
        id=str(uuid.uuid4()), kind="apply", state=OperationState.DONE, epoch=1, started_at=0.0
    )
    ledger.reserve(Reservation(operation=operation, vms=vms))
    ledger.close()


def seconds(argv: list[str], environ: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(argv, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "ledger.sqlite")
        environ = {**os.environ, "VGPUMGR_STATE_DIR": folder}
        program = str(Path(sys.executable).parent / "vgpumgr")
        commands = {
            "import click": [sys.executable, "-c", "import click"],
            "vgpumgr --help": [program, "--help"],
            "vgpumgr vm list (1,000 VMs)": [program, "vm", "list"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, argv in commands.items():
                times[name].append(seconds(argv, environ))
    medians = {name: sorted(found)[len(found) // 2] for name, found in times.items()}
    base = medians["import click"]
    print(
        json.dumps(
            {
                "benchmark": "cli_start",
                "rounds": ROUNDS,
                "median_ms": {name: round(value * 1000, 1) for name, value in medians.items()},
                "min_ms": {name: round(min(found) * 1000, 1) for name, found in times.items()},
                "ratio_to_import_click": {
                    name: round(value / base, 2) for name, value in medians.items()
                },
                "goal": {"vgpumgr --help": 4, "vgpumgr vm list (1,000 VMs)": 12},
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
