"""CPU of sealing, verifying and exporting the audit trail, and sealing's share of creating VMs.

VMs are created on a small simulated fleet, and their records sealed as `serve` would within a
second each; then the trail is copied until it is long. JSON on stdout, CPU seconds of a process;
``--records N`` and ``--vms N``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

FLEET = """
apiVersion: vgpumgr/v1
kind: Fleet
name: bench
hosts: [{name: host, count: 10, cpus: 64, memory: 512GiB, gpus: [{board: T4, count: 4}]}]
"""
VMS = """
apiVersion: vgpumgr/v1
kind: VM
name: vm
replicas: COUNT
vcpus: 2
memory: 4GiB
gpus: [{profile: T4-1Q}]
disks: [{size: 20GiB}]
networks: [{network: default}]
"""
# Records of so many are sealed together while VMs are created: what comes within a second.
WITHIN_A_SECOND = 200


def cpu_s(act: Callable[[], object]) -> float:
    """Processor seconds of an act in this process."""
    began = time.process_time()
    act()
    return time.process_time() - began


def created(state: Path, count: int) -> float:
    """CPU seconds of the `apply` that creates so many VMs; the simulated hosts' are not in it."""
    program = str(Path(sys.executable).parent / "vgpumgr")
    environ = {**os.environ, "VGPUMGR_STATE_DIR": str(state)}

    def run(*words: str) -> None:
        subprocess.run([program, *words], env=environ, check=True, stdout=subprocess.DEVNULL)

    (state / "fleet.yaml").write_text(FLEET)
    (state / "vms.yaml").write_text(VMS.replace("COUNT", str(count)))
    try:
        run("sim", "up", "-f", str(state / "fleet.yaml"))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run("apply", "-f", str(state / "vms.yaml"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    finally:
        run("sim", "down")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def lengthen(path: Path, records: int) -> None:
    """Copy the records that there are, as those of other operations, until there are so many."""
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.row_factory = sqlite3.Row
        rows = [dict(row) for row in raw.execute("SELECT * FROM audit ORDER BY seq")]
        names = [name for name in rows[0] if name != "seq"]
        columns, marks = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
        insert = f"INSERT INTO audit ({columns}) VALUES ({marks})"
        for number in range(len(rows), records):
            row, copy = rows[number % len(rows)], number // len(rows)
            operation = row["operation"] and f"{row['operation']}-{copy}"
            copied = {**row, "operation": operation, "vm": row["vm"] and f"{row['vm']}-{copy}"}
            raw.execute(insert, [copied[name] for name in names])


def measure(records: int, vms: int) -> dict[str, Any]:
    """All figures."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from vgpumgr.audit.ecs_record import ecs_event
    from vgpumgr.audit.signed_note import open_note, sign_note
    from vgpumgr.model.sealed_trail import TreeHead
    from vgpumgr.store import open_ledger

    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()

    def sign(head: TreeHead) -> str:
        return sign_note(head, key)

    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        creating_s = created(state, vms)
        path = state / "ledger.sqlite"
        ledger = open_ledger(path)
        ledger.seal_trail(sign, most=1)  # imports, statements

        def seal(most: int) -> None:
            while ledger.seal_trail(sign, most) is not None:
                pass

        def export() -> None:
            after = 0
            while found := ledger.sealed_records(after, 1000):
                "".join(json.dumps(ecs_event(each)) for each in found)
                after = found[-1].record.seq

        of_vms = len(ledger.audit(limit=None))
        sealing_s = cpu_s(lambda: seal(WITHIN_A_SECOND))
        lengthen(path, records)
        long_s = cpu_s(lambda: seal(2000))
        began = time.perf_counter()
        verify_s = cpu_s(lambda: ledger.check_trail(lambda note: open_note(note, [public])))
        wall_s = time.perf_counter() - began
        idle_s = cpu_s(lambda: [ledger.seal_trail(sign) for _ in range(1000)]) / 1000
        result = {
            "benchmark": "audit_seal",
            "cpus": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "records": records,
            "seal_us_per_record": round(1e6 * long_s / max(1, records - of_vms), 1),
            "verify_cpu_s": round(verify_s, 2),
            "verify_wall_s": round(wall_s, 2),
            "verify_s_per_million": round(verify_s / records * 1e6, 1),
            "export_us_per_record": round(1e6 * cpu_s(export) / records, 1),
            "look_without_new_records_us": round(1e6 * idle_s, 1),
            "vms": vms,
            "vms_records": of_vms,
            "vms_apply_cpu_s": round(creating_s, 2),
            "vms_seal_cpu_s": round(sealing_s, 3),
            "seal_share_of_apply": round(sealing_s / creating_s, 4),
        }
        ledger.close()
    return result


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--vms", type=int, default=200)
    chosen = parser.parse_args()
    print(json.dumps(measure(chosen.records, chosen.vms), indent=2))


if __name__ == "__main__":
    main()
