"""A board's virtual functions, turned on and off. Rebinds NVIDIA's driver: see behaviour 4."""

from __future__ import annotations

import errno
from typing import Any

from vgpumgr.helper import arguments, errors, pci, sysfs
from vgpumgr.helper.allowed_programs import SRIOV_MANAGE
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.devices import carriers
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import clients, power_limits
from vgpumgr.helper.system import System

_NVIDIA, _GIM = "nvidia", "gim"

_RUN_SECONDS = 60.0
# Any NVML client, a monitor's short look too, makes sriov-manage fail: it goes away.
_UNBIND_LOCK, _TRIES, _TRY_PAUSE = "unbindLock", 5, 1.0
_READY_SECONDS = 30.0


def set_count(call: Call) -> dict[str, Any]:
    """The ``vfs_set`` verb: refuse, turn on or off, wait until every VF is ready."""
    address, count = arguments.pci(call.args, "gpu"), arguments.number(call.args, "count")
    put(call.system, address, count)
    return {"count": count, "vfs": pci.vfs(call.system, address)}


def put(system: System, address: str, count: int) -> None:
    """Have so many VFs, each of them ready."""
    total = _total(system, address)
    if not _is_ready(system, address, count):
        _require_possible(system, address, count, total)
        power_limits.forget(system, address)
        _change(system, address, count)


def _total(system: System, address: str) -> int:
    if not pci.exists(system, address):
        raise HelperError(errors.NOT_FOUND, f"no PCI function {address}", "not on the bus")
    total = sysfs.optional_text(system, f"{pci.path(address)}/sriov_totalvfs")
    if total is None:
        why = "it has no sriov_totalvfs: the board lacks it, or the firmware has SR-IOV off"
        raise HelperError(errors.REFUSED, f"{address} has no SR-IOV", why)
    return int(total)


def _require_possible(system: System, address: str, count: int, total: int) -> None:
    driver, now = pci.driver(system, address), pci.vf_count(system, address)
    message = f"{count} virtual functions cannot be turned on at {address}"
    if driver is None or driver == pci.VFIO:
        why = f"its driver is {driver or 'none'}, which makes no virtual functions"
        raise HelperError(errors.REFUSED, message, why, errno.errorcode[errno.ENOENT])
    if count > total:
        why = f"sriov_totalvfs is {total}"
        raise HelperError(errors.REFUSED, message, why, errno.errorcode[errno.ERANGE])
    if driver == _GIM and count != now:
        why = (
            "AMD's gim reads the count when it is loaded: put `options gim "
            f"vf_num={count}` into /etc/modprobe.d/gim.conf and reload gim while no VM has a VF"
        )
        raise HelperError(errors.REFUSED, message, why)
    if _by_script(system, address) and count not in (0, total):
        why = f"sriov-manage turns on all {total} or none"
        raise HelperError(errors.REFUSED, message, why)
    if now:
        carriers.require_free_vfs(system, address, "its VFs stay as they are")
    clients.check_none(system, address)


def _change(system: System, address: str, count: int) -> None:
    if _by_script(system, address):
        said = _manage(system, address, count)
    else:
        said = _write(system, address, count)
    if not sysfs.wait_until(system, lambda: _is_ready(system, address, count), _READY_SECONDS):
        now, there = pci.vf_count(system, address), len(pci.vfs(system, address))
        why = f"sriov_numvfs is {now} with {there} virtfn links; asked for {count}; {said}"
        raise HelperError(errors.REFUSED, f"the VFs of {address} are not as asked for", why)


def _is_ready(system: System, address: str, count: int) -> bool:
    """As many as asked for, each with its folder and, where the script makes them, a driver."""
    vfs = pci.vfs(system, address)
    if pci.vf_count(system, address) != count or len(vfs) != count:
        return False
    if not all(pci.exists(system, vf) for vf in vfs):
        return False
    bound = _by_script(system, address)
    return not bound or all(pci.driver(system, vf) is not None for vf in vfs)


def _by_script(system: System, address: str) -> bool:
    """NVIDIA's driver refuses a count by hand where it comes with sriov-manage (behaviour 4.7)."""
    return pci.driver(system, address) == _NVIDIA and system.exists(SRIOV_MANAGE)


def _manage(system: System, address: str, count: int) -> str:
    """What sriov-manage said. Its exit status tells nothing: the VFs do."""
    argv = (SRIOV_MANAGE, "-e" if count else "-d", address)
    status, output = 0, ""
    for attempt in range(_TRIES):
        if attempt:
            system.wait(_TRY_PAUSE)
        try:
            status, output = system.run(argv, _RUN_SECONDS)
        except OSError as error:
            message = f"the VFs of {address} were not changed"
            raise errors.from_effect(error, message) from error
        if _UNBIND_LOCK not in output or _is_ready(system, address, count):
            break
    return f"sriov-manage ended with {status}: {output.strip()}"


def _write(system: System, address: str, count: int) -> str:
    """Through 0: the kernel says EBUSY to one count after another."""
    folder, message = pci.path(address), f"the VFs of {address} were not changed"
    # The host's driver must not take VFs that are meant for guests.
    if count and system.exists(f"{folder}/sriov_drivers_autoprobe"):
        sysfs.effect(system, f"{folder}/sriov_drivers_autoprobe", "0", message)
    if pci.vf_count(system, address):
        sysfs.effect(system, f"{folder}/sriov_numvfs", "0", message)
    if count:
        sysfs.effect(system, f"{folder}/sriov_numvfs", str(count), message)
    return "the kernel took the count"
