"""Runs on the lab host, as root: all that a VM's life may change there, as JSON on stdout."""

import json
import re
import subprocess
from pathlib import Path


def text(path):
    return path.read_text().strip() if path.exists() else None


def names(folder):
    return sorted(each.name for each in Path(folder).iterdir()) if Path(folder).is_dir() else []


def lines(*argv):
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return sorted(line.strip() for line in done.stdout.splitlines() if line.strip())


def virsh(*argv):
    return lines("virsh", "--quiet", "--connect", "qemu:///system", *argv)


def functions():
    found = {}
    for function in Path("/sys/bus/pci/devices").iterdir():
        driver = function / "driver"
        found[function.name] = {
            "driver": driver.resolve().name if driver.exists() else None,
            "driver_override": text(function / "driver_override"),
            "vfs": text(function / "sriov_numvfs"),
        }
    return found


def available():
    types = Path("/sys/class/mdev_bus").glob("*/mdev_supported_types/*")
    return {f"{t.parts[-3]} {t.name}": text(t / "available_instances") for t in types}


def node_devices():
    """Without DRM's numbers: a display gets the lowest free one when its driver comes back."""
    found = virsh("nodedev-list", "--all")
    return sorted(re.sub(r"^drm_(card|renderD)[0-9]+$", r"drm_\1", each) for each in found)


def claims():
    """Of VMs' parts: a layout stays kept as long as its host is in the fleet."""
    return [name for name in names("/var/lib/vgpumgr/claims") if not name.startswith("layout-")]


print(
    json.dumps(
        {
            "functions": functions(),
            "available": available(),
            "mdevs": names("/sys/bus/mdev/devices"),
            "mdev definitions": lines("mdevctl", "list", "--defined"),
            "domains": virsh("list", "--all", "--name"),
            "node devices": node_devices(),
            "volumes": virsh("vol-list", "default"),
            "nvram": names("/var/lib/libvirt/qemu/nvram"),
            "vfio groups": names("/dev/vfio"),
            "claims": claims(),
        }
    )
)
