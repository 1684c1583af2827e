"""What VMs' machines can have here beyond what every QEMU makes: a TPM, secure boot.

libvirt finds both where they are looked for here: swtpm by its programs, firmware by the
descriptors that its package brings (QEMU's docs/interop/firmware.json).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from vgpumgr.helper import sysfs
from vgpumgr.helper.system import System

TPM, SECURE_BOOT = "tpm", "secure-boot"
_SWTPM = ("/usr/bin/swtpm", "/usr/bin/swtpm_setup")
_FIRMWARE = ("/etc/qemu/firmware", "/usr/share/qemu/firmware")
_NEEDED = {"secure-boot", "enrolled-keys"}
_MAX_CHARS = 1 << 16


def machine_features(system: System) -> list[str]:
    """In order; an invalid descriptor describes nothing."""
    found = []
    if any(_is_signed(text) for text in _descriptors(system)):
        found.append(SECURE_BOOT)
    if all(system.exists(path) for path in _SWTPM):
        found.append(TPM)
    return found


def _descriptors(system: System) -> Iterator[str]:
    for folder in _FIRMWARE:
        for name in system.list(folder) if system.exists(folder) else ():
            if name.endswith(".json"):
                yield sysfs.optional_text(system, f"{folder}/{name}") or ""


def _is_signed(text: str) -> bool:
    """Is it UEFI for our machine that has secure boot, and the keys of signed systems?"""
    if len(text) > _MAX_CHARS:
        return False
    try:
        told = json.loads(text)
        kinds, features, targets = (told[key] for key in ("interface-types", "features", "targets"))
        machines = [
            machine
            for target in targets
            if target["architecture"] == "x86_64"
            for machine in target["machines"]
        ]
        return (
            "uefi" in kinds
            and _NEEDED.issubset(features)
            and any(str(machine).startswith("pc-q35") for machine in machines)
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
