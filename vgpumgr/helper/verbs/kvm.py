"""Whether KVM works here: the host's own kernel, booted under it.

A /dev/kvm that opens is no proof: machines exist where firmware runs under KVM and Linux hangs.
"""

from __future__ import annotations

import json
from typing import Any

from vgpumgr.helper import claims, errors
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts import machine
from vgpumgr.helper.system import System

_DEVICE = "/dev/kvm"
_BOOT = "/boot"
_KERNEL = "vmlinuz-"
_BANNER = "Linux version"
_SECONDS = 30.0


def kvm_probe(call: Call) -> dict[str, Any]:
    """The ``kvm_probe`` verb: the remembered verdict, or one boot."""
    system = call.system
    if not system.exists(_DEVICE):
        return _fails(f"no {_DEVICE}")
    try:
        program, version = machine.qemu(system)
    except FileNotFoundError as error:
        return _fails(str(error))
    key = _key(system, version)
    known = _load(system, key)
    if known is not None:
        return known
    image = _kernel_image(system)
    if image is None:
        return _fails(f"no kernel in {_BOOT} to boot")
    verdict = _boot(system, program, image)
    _remember(system, key, verdict)
    return verdict


def remembered(system: System) -> bool:
    """The verdict of an earlier probe; ValueError where none was made for these versions."""
    if not system.exists(_DEVICE):
        return False
    known = _load(system, _key(system, machine.qemu_version(system)))
    if known is None:
        raise ValueError("not tried with this kernel and QEMU yet (verb kvm_probe)")
    return known["kvm"] is True


def _fails(why: str) -> dict[str, Any]:
    return {"kvm": False, "why": why}


def _key(system: System, qemu: str) -> str:
    return f"{machine.kernel(system)} {qemu}"


def _kernel_image(system: System) -> str | None:
    """The running kernel's image, or the newest in /boot."""
    names = system.list(_BOOT) if system.exists(_BOOT) else ()
    images = [name for name in names if name.startswith(_KERNEL)]
    running = _KERNEL + machine.kernel(system)
    if not images:
        return None
    return f"{_BOOT}/{running if running in images else max(images, key=_version)}"


def _version(name: str) -> tuple[tuple[int, str], ...]:
    """``6.1.0-37`` after ``6.1.0-9``: numbers compare as numbers."""
    words = name.replace("-", ".").split(".")
    return tuple((int(word), "") if word.isdigit() else (-1, word) for word in words)


def _boot(system: System, program: str, image: str) -> dict[str, Any]:
    # -cpu host, as our domains have it: that, too, fails on some machines.
    argv = (
        *(program, "-accel", "kvm", "-cpu", "host", "-m", "512", "-nodefaults"),
        *("-no-user-config", "-nographic", "-serial", "stdio", "-no-reboot"),
        *("-kernel", image, "-append", "console=ttyS0 panic=-1"),
    )
    try:
        status, output = system.run(argv, _SECONDS)
    except OSError as error:
        raise errors.from_read(error, "the kernel could not be booted") from error
    if _BANNER not in output:
        return _fails(f"no kernel banner; QEMU ended with {status}: {output[-200:]!r}")
    if status != 0:
        return _fails(f"no clean exit within {_SECONDS:.0f} s: {output[-200:]!r}")
    return {"kvm": True, "why": f"{image} booted"}


def _load(system: System, key: str) -> dict[str, Any] | None:
    try:
        found = json.loads(system.read(claims.KVM))
    except (FileNotFoundError, ValueError):
        return None
    verdict = found.get(key) if isinstance(found, dict) else None
    return verdict if isinstance(verdict, dict) and verdict.keys() == {"kvm", "why"} else None


def _remember(system: System, key: str, verdict: dict[str, Any]) -> None:
    try:
        claims.store_state(system, claims.KVM, json.dumps({key: verdict}) + "\n")
    except HelperError:
        # Without root, or on a full disk, the next call simply tries again.
        return
