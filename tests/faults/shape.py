"""What a dump shows without ids and times: ends that a user cannot tell apart are equal."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from tests.checker.seen import HostSeen, Row, Seen

_ID = re.compile(r"-[0-9a-f]{8}(?=[-.])")


def shape(seen: Seen) -> dict[str, Any]:
    """VMs and hosts as users see them."""
    return {
        "vms": sorted(
            (row["name"], row["host"], row["state"], bool(row["running"]), row["spec"])
            for row in seen.store.vms.values()
            if row["deleted_at"] is None
        ),
        "enrolled": sorted(
            (row["name"], row["address"], _settings(row["settings"]))
            for row in seen.store.rows["host"]
            if row["removed_at"] is None
        ),
        "layouts": sorted((row["host"], row["goal"]) for row in seen.store.rows["layout"]),
        "images": sorted(_image(seen, row) for row in seen.store.rows.get("image", ())),
        "backups": sorted(
            (row["vm"], row["target"], row["state"], bool(row["fault"]), row["scheduled"])
            for row in seen.store.rows.get("vm_backup", ())
            if row["gone_at"] is None
        ),
        "hosts": {name: _host(host) for name, host in sorted(seen.hosts.items())},
    }


def _image(seen: Seen, row: Row) -> tuple[Any, ...]:
    copies = sorted(
        (each["host"], each["pool"], each["state"])
        for each in seen.store.rows["image_copy"]
        if each["image"] == row["id"] and each["gone_at"] is None
    )
    return row["name"], row["version"], row["sha256"], row["retired_at"] is not None, copies


def _settings(text: str) -> str:
    """What operators set; not what was seen of its last boot."""
    found = json.loads(text)
    found.pop("settled_boot", None)
    return json.dumps(found, sort_keys=True)


def _host(host: HostSeen) -> dict[str, Any]:
    gpus = (host.probe.get("nvml") or {}).get("gpus") or ()
    return {
        "domains": sorted(
            (each.name, each.state, each.autostart, each.persistent, len(each.devices))
            for each in host.domains
        ),
        "volumes": sorted((pool, _ID.sub("", name)) for pool, name in host.volumes),
        "mdevs": sorted(each["type"] for each in host.mdevs.values()),
        "vgpus": sorted(host.vgpus.values()),
        "on vfio-pci": len(host.bound),
        "instances": sorted((profile, start) for _, profile, start in host.instances),
        "partitions": len(host.partitions),
        "claims": sorted(Counter(each["wanted"]["kind"] for each in host.claims).items()),
        "gpus": [
            ((each.get("mig") or {}).get("enabled"), each.get("mixed_size"), each.get("scheduler"))
            for each in gpus
        ],
        "vfs": [(each.get("sriov") or {}).get("num") for each in host.probe["devices"]],
    }
