"""A ledger as vgpumgr 0.1 made it (schema 1), with a VM on a T4: the text it really wrote."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

SCHEMA = """
CREATE TABLE meta (
    id INTEGER NOT NULL CHECK (id = 1), schema_version INTEGER NOT NULL, fleet_id TEXT NOT NULL,
    epoch INTEGER NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE host (
    id INTEGER NOT NULL, name TEXT NOT NULL, address TEXT NOT NULL, settings TEXT NOT NULL,
    generation INTEGER NOT NULL, facts TEXT, supply TEXT NOT NULL, observed_at FLOAT,
    last_error TEXT NOT NULL, removed_at FLOAT, PRIMARY KEY (id)
);
CREATE UNIQUE INDEX host_address_once ON host (address) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX host_name_once ON host (name) WHERE removed_at IS NULL;
CREATE TABLE gpu (
    id TEXT NOT NULL, host TEXT NOT NULL, device TEXT NOT NULL, uuid TEXT, serial TEXT,
    vendor_device TEXT NOT NULL, facts TEXT NOT NULL, supply TEXT NOT NULL, units INTEGER NOT NULL,
    state TEXT NOT NULL, generation INTEGER NOT NULL, first_seen_at FLOAT NOT NULL,
    PRIMARY KEY (id), UNIQUE (uuid)
);
CREATE INDEX gpu_host ON gpu (host);
CREATE INDEX ix_gpu_serial ON gpu (serial);
CREATE TABLE vm (
    id TEXT NOT NULL, name TEXT NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL,
    running BOOLEAN NOT NULL, generation INTEGER NOT NULL, spec TEXT NOT NULL, numa_node INTEGER,
    cpus TEXT NOT NULL, volumes TEXT NOT NULL, created_at FLOAT NOT NULL, deleted_at FLOAT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX vm_name_once ON vm (name) WHERE deleted_at IS NULL;
CREATE TABLE allocation (
    id TEXT NOT NULL, vm_id TEXT NOT NULL, vm TEXT NOT NULL, host TEXT NOT NULL, gpu TEXT NOT NULL,
    profile TEXT NOT NULL, framework TEXT NOT NULL, device TEXT NOT NULL, slots TEXT NOT NULL,
    type_id TEXT NOT NULL, parent TEXT NOT NULL, companions TEXT NOT NULL, state TEXT NOT NULL,
    generation INTEGER NOT NULL, created_at FLOAT NOT NULL, released_at FLOAT, PRIMARY KEY (id),
    FOREIGN KEY(vm_id) REFERENCES vm (id), FOREIGN KEY(gpu) REFERENCES gpu (id)
);
CREATE UNIQUE INDEX allocation_device_once ON allocation (host, device) WHERE released_at IS NULL;
CREATE INDEX ix_allocation_vm_id ON allocation (vm_id);
CREATE TABLE unit (
    gpu_id TEXT NOT NULL, kind TEXT NOT NULL, slot INTEGER NOT NULL, allocation_id TEXT NOT NULL,
    PRIMARY KEY (gpu_id, kind, slot), FOREIGN KEY(gpu_id) REFERENCES gpu (id),
    FOREIGN KEY(allocation_id) REFERENCES allocation (id)
) WITHOUT ROWID;
CREATE INDEX ix_unit_allocation_id ON unit (allocation_id);
CREATE TABLE request (
    id INTEGER NOT NULL, at FLOAT NOT NULL, vm TEXT NOT NULL, outcome TEXT NOT NULL,
    spec TEXT NOT NULL, reasons TEXT NOT NULL, vm_id TEXT, PRIMARY KEY (id),
    FOREIGN KEY(vm_id) REFERENCES vm (id)
);
CREATE TABLE operation (
    number INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,
    epoch INTEGER NOT NULL, started_at FLOAT NOT NULL, ended_at FLOAT, started_by TEXT NOT NULL,
    summary TEXT NOT NULL, PRIMARY KEY (number), UNIQUE (id)
);
CREATE TABLE task (
    id TEXT NOT NULL, operation TEXT NOT NULL, position INTEGER NOT NULL, vm_id TEXT NOT NULL,
    vm TEXT NOT NULL, host TEXT NOT NULL, verb TEXT NOT NULL, state TEXT NOT NULL,
    error TEXT NOT NULL, PRIMARY KEY (id), FOREIGN KEY(operation) REFERENCES operation (id)
);
CREATE INDEX ix_task_operation ON task (operation);
CREATE TABLE step (
    task TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, args TEXT NOT NULL,
    state TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (task, seq),
    FOREIGN KEY(task) REFERENCES task (id)
);
"""

GPU = {
    "device": "0000:41:00.0", "path": "/sys/devices/pci0000:40/0000:41:00.0", "model": "Tesla T4",
    "vendor_device": "10de:1eb8", "uuid": "GPU-1", "serial": "S-1", "numa_node": 0,
    "memory_mib": 15360, "driver": "nvidia", "iommu_group": 12,
    "group_devices": ["0000:41:00.0"], "boot_vga": False, "reset_methods": ["flr"],
    "mdev_types": [
        {"type_id": "nvidia-232", "name": "GRID T4-4Q", "available": 3,
         "device_api": "vfio-pci", "description": ""}
    ],
    "type_units": {"nvidia-232": 4},
}  # fmt: skip
FACTS = {
    "host": "h1", "boot_id": "b1", "hostname": "h1",
    "versions": {"kernel": "", "libvirt": "9.0.0", "qemu": "7.2.0", "driver": "", "helper": "1"},
    "cpus": 16, "memory_mib": 64000, "iommu": True, "kvm": True, "numa": [], "gpus": [GPU],
    "mdevs": [], "claims": [], "domains": [], "pools": [], "networks": ["default"], "bridges": [],
    "foreign_mdev_definitions": [], "unknown": [],
}  # fmt: skip
SETTINGS = {
    "host_key": "SHA256:x", "cordoned": False, "labels": {"rack": "a"}, "cpu_overcommit": 4.0,
    "reserved_memory_mib": 1024, "accelerator": "auto", "probe_only": False,
}  # fmt: skip
SPEC = {
    "name": "desk", "vcpus": 2, "memory_mib": 2048,
    "gpus": [{"profile": "T4-4Q", "count": 1, "model": None}], "disks": [], "nics": [],
    "cloud_init": None, "firmware": "uefi", "display": False, "autostart": False,
    "pin_cpus": False, "numa": "prefer", "hugepage_kib": None,
    "affinity": {"hosts": [], "host_labels": {}, "together_with": {}, "apart_from": {}},
    "policy": None, "labels": {}, "tenant": "default",
}  # fmt: skip


def make(path: Path) -> None:
    """Write it."""
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.executescript(SCHEMA)
        rows: dict[str, list[tuple[object, ...]]] = {
            "meta": [(1, 1, "fleet-1", 3)],
            "host": [
                (1, "h1", "root@h1", _text(SETTINGS), 4, _text(FACTS), "digest", 100.0, "", None)
            ],
            "gpu": [
                ("gpu-00000001", "h1", GPU["device"], "GPU-1", "S-1", "10de:1eb8", _text(GPU),
                 "digest", 16, "healthy", 2, 99.0)
            ],
            "vm": [
                (
                    *("vm-old", "desk", "h1", "active", True, 1),
                    *(_text(SPEC), None, "[]", "[]", 50.0, None),
                )
            ],
            "allocation": [
                ("a-1", "vm-old", "desk", "h1", "gpu-00000001", "T4-4Q", "mdev", "u-1", "[0,1,2,3]",
                 "nvidia-232", GPU["device"], "[]", "active", 1, 60.0, None)
            ],
            "unit": [("gpu-00000001", "memory", slot, "a-1") for slot in range(4)],
        }  # fmt: skip
        for table, each in rows.items():
            marks = ", ".join("?" * len(each[0]))
            raw.executemany(f"INSERT INTO {table} VALUES ({marks})", each)
    raw.close()


def _text(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))
