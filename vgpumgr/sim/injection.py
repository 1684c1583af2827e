"""Injection of faults into a simulated host, its GPUs, its set-up and its guests' agents.

The words are those of ``sim inject``, which ``fault_forms.py`` lists. Faults of GPUs and of the
set-up (for ``doctor`` to find) are volatile: a reboot mends them, and so does ``clear``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address

from vgpumgr.helper.dispatch import VERBS
from vgpumgr.model.errors import Conflict, NotFound, UsageError
from vgpumgr.sim.fault_forms import FORMS
from vgpumgr.sim.host_faults import count_of
from vgpumgr.sim.libvirt.guest_script import PLAIN_GUEST, GuestScript
from vgpumgr.sim.libvirt.known_domains import NOBODY
from vgpumgr.sim.libvirt.sim_domains import SimDomains
from vgpumgr.sim.linux.machine_setup import ENABLED, RESTORE, Setup
from vgpumgr.sim.linux.pci_function import WIDTH
from vgpumgr.sim.machine.kernel import Kernel
from vgpumgr.sim.nvidia.gpu_health import (
    FELL_OFF_THE_BUS,
    KINDS,
    Health,
    Recovery,
    RemappedRows,
)
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.simulated_host import SimulatedHost


def set_agent_words(domains: SimDomains, name: str, words: Sequence[str]) -> None:
    """From now until the guest ends; UsageError names the forms, or says that it does not run.
    ``guests boot SECONDS`` is of all that are defined from now on.
    """
    if name == "boot" and len(words) == 1 and words[0].isdecimal():
        domains.new_guests = GuestScript(boot_s=float(words[0]))
        return
    domain = domains.find(name)
    if domain is None or domain.running is None:
        raise UsageError(f"no guest {name} runs", next="vgpumgr vm list")
    match list(words):
        case ["users", count] if count.isdecimal():
            domain.guest = replace(domain.guest or NOBODY, users=int(count))
        case ["address", text] if _is_address(text):
            guest = domain.guest or NOBODY
            domain.guest = replace(guest, addresses=(*guest.addresses, text))
        case ["silent"]:
            domain.guest = None
        case ["boots", seconds] if seconds.isdecimal():
            domain.script = replace(domain.script, boot_s=float(seconds))
        case ["fails", program, *words]:
            fails = (*domain.script.fails, (program, " ".join(words)))
            domain.script = replace(domain.script, fails=fails)
        case ["no-programs"]:
            domain.script = replace(domain.script, blocked=True)
        case ["well"]:
            domain.script, domain.guest = PLAIN_GUEST, domain.guest or NOBODY
        case _:
            raise UsageError(
                f"{' '.join(words)!r} is not something that a guest reports", next=FORMS
            )


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def inject(host: SimulatedHost, words: Sequence[str]) -> None:
    """Set a fault, or reboot. Waits for the call that the host is doing, never for a hang."""
    match list(words):
        case ["reboot"]:
            with host.lock:
                host.reboot()
        case ["off"]:
            with host.lock:
                host.power_off()
        case ["on"]:
            with host.lock:
                host.power_on()
        case ["gpu", address, *fault]:
            with host.lock:
                inject_gpu(host.opened().kernel, address, fault)
        case ["guests" | "guest", name, *said]:
            with host.lock:
                set_agent_words(host.opened().domains, name, said)
        case ["destroy", name]:
            with host.lock:
                _known(host, name)
                host.opened().domains.destroy(name)
        case ["undefine", name]:
            with host.lock:
                _known(host, name)
                host.opened().domains.undefine(name)
        case ["remove-mdev", uuid]:
            with host.lock:
                _remove_mdev(host, uuid)
        case ["setup", name]:
            with host.lock:
                inject_setup(host.opened().kernel, name)
        case ["clear"]:
            host.faults.inject(words)
            with host.lock:
                clear_gpus(host.opened().kernel)
                clear_setup(host.opened().kernel)
        case ["refuse" | "lie", verb, *_]:
            _check_verb(host, verb)
            host.faults.inject(words)
        case _:
            host.faults.inject(words)


def _known(host: SimulatedHost, name: str) -> None:
    names = [each.name for each in host.opened().domains.list()]
    if name not in names:
        raise NotFound(
            f"{host.host.name} has no domain {name}",
            why=f"it has: {', '.join(names) or 'none'}",
            next="vgpumgr vm list",
        )


def _remove_mdev(host: SimulatedHost, uuid: str) -> None:
    """As `mdevctl stop` does it; the kernel waits for a guest that has it, we refuse."""
    there = host.opened().kernel.mdevs.devices
    if uuid not in there:
        raise NotFound(
            f"{host.host.name} has no mdev {uuid}",
            why=f"it has: {', '.join(there) or 'none'}",
            next="vgpumgr allocation list",
        )
    try:
        host.opened().kernel.mdevs.remove(uuid)
    except OSError as error:
        raise Conflict(
            f"mdev {uuid} is not removed",
            why=error.strerror or str(error),
            next="stop the guest that has it, then the same command again",
        ) from error


def fault_words(host: SimulatedHost) -> tuple[str, ...]:
    """What is wrong with the host and its GPUs, in the words of :func:`inject`."""
    with host.lock:
        own, gpus = host.faults.words(), gpu_words(host.opened().kernel)
        return (*own, *gpus, *setup_words(host.opened().kernel))


def _check_verb(host: SimulatedHost, verb: str) -> None:
    dotted = (
        f"{name}.{method}"
        for name, part in host.parts().items()
        for method in dir(part)
        if not method.startswith("_")
    )
    known = [*VERBS, *dotted]
    if verb not in known:
        raise UsageError(f"no verb {verb!r}", next=f"one of: {', '.join(known)}")


# Double-bit ECC error, then a remapped row that waits for a reset (xid.yaml).
_ECC_XIDS = (48, 63)
_NVML = "nvml"


def inject_gpu(kernel: Kernel, address: str, words: Sequence[str]) -> None:
    """One of the faults of GPUs that ``fault_forms.py`` lists, on the GPU there.

    NotFound for another address; UsageError for other words, and for all but ``lost`` and
    ``width`` on a GPU that is not NVIDIA's.
    """
    known = [gpu.address for gpu in kernel.gpus]
    if address not in known:
        raise NotFound(
            f"{kernel.host.name} has no GPU {address}", next=f"one of: {', '.join(known)}"
        )
    gpu = kernel.nvidia.get(address)
    if list(words) == ["lost"]:
        _lose(kernel, address)
        return
    match list(words):
        case ["width", count]:
            kernel.pci.functions[address].link_width = min(count_of(count), WIDTH)
            return
    if gpu is None:
        raise UsageError(f"{address} is not on NVIDIA's driver", next="it can be: lost, width")
    _inject_nvidia(kernel, gpu, list(words))


def clear_gpus(kernel: Kernel) -> None:
    """All GPUs are well again, no program holds one, and no call fails."""
    kernel.failures.clear()
    for function in kernel.pci.functions.values():
        function.lost, function.link_width = False, WIDTH
    for gpu in kernel.nvidia.values():
        gpu.health = Health(gpu.address)
        gpu.fail_next.clear()
        kernel.processes.stop(gpu.address)
        activity = kernel.activities[gpu.address]
        activity.busy = activity.calm = activity.hot = False
        for vgpu in gpu.vgpus:
            vgpu.unlicensed = False


def gpu_words(kernel: Kernel) -> tuple[str, ...]:
    """What is wrong, in the words of ``inject``."""
    return tuple(
        f"gpu {gpu.address} {each}"
        for gpu in kernel.gpus
        for each in _words_of(kernel, gpu.address)
    )


def _inject_nvidia(kernel: Kernel, gpu: NvidiaGpu, fault: list[str]) -> None:
    match fault:
        case ["xid", number]:
            gpu.xid(count_of(number))
            if gpu.lost:
                _lose(kernel, gpu.address)
        case ["ecc"]:
            for each in _ECC_XIDS:
                gpu.xid(each)
            gpu.health.uncorrected += 1
            gpu.health.rows = RemappedRows(uncorrectable=1, pending=True)
        case ["busy"] | ["calm"] | ["hot"] | ["unlicensed"]:
            _inject_activity(kernel, gpu, fault)
        case ["client", name]:
            kernel.processes.start(gpu.address, name)
        case ["fail", what, count] if what in KINDS:
            kernel.failures.add(gpu.address, what, count_of(count))
        case ["fail", what, count] if what.startswith(_NVML):
            gpu.fail_next += [(what, "IN_USE")] * count_of(count)
        case ["fail", what, _]:
            known = ", ".join((*KINDS, "nvml…"))
            raise UsageError(f"no call {what!r} to fail", next=f"one of: {known}")
        case _:
            _read_from_now_on(gpu.health, fault)


def _read_from_now_on(health: Health, fault: list[str]) -> None:
    """What NVML reads of the GPU."""
    match fault:
        case ["remap-failed"]:
            health.rows = RemappedRows(uncorrectable=1, failure=True)
        case ["remap-pending"]:
            health.rows = RemappedRows(uncorrectable=1, pending=True)
        case ["errors", count]:
            health.uncorrected = count_of(count)
        case ["retired", count]:
            health.retired = count_of(count)
        case ["sram"]:
            health.sram_exceeded = True
        case ["recovery", number]:
            health.recovery = _recovery(number)
        case ["hidden"]:
            health.hidden = True
        case _:
            raise UsageError(f"{' '.join(fault)!r} is not a known fault of a GPU", next=FORMS)


def _recovery(number: str) -> Recovery:
    if number not in map(str, map(int, Recovery)):
        known = f"0 to {max(Recovery)}"
        raise UsageError(f"{number!r} is no recovery action of NVML", next=f"one of: {known}")
    return Recovery(int(number))


def _inject_activity(kernel: Kernel, gpu: NvidiaGpu, fault: list[str]) -> None:
    """What its figures show."""
    activity = kernel.activities[gpu.address]
    match fault:
        case ["busy"]:
            activity.busy, activity.calm = True, False
        case ["calm"]:
            activity.busy, activity.calm = False, True
        case ["hot"]:
            activity.hot = True
        case ["unlicensed"]:
            for each in gpu.vgpus:
                each.unlicensed = True


def _lose(kernel: Kernel, address: str) -> None:
    """A GPU falls off the bus, with all functions of its slot and its VFs (Xid 79)."""
    for function in kernel.slot(address):
        function.lost = True
    gpu = kernel.nvidia.get(address)
    if gpu is not None and not gpu.lost:
        gpu.xid(FELL_OFF_THE_BUS)


def _words_of(kernel: Kernel, address: str) -> Iterator[str]:
    function = kernel.pci.functions[address]
    if function.lost:
        yield "lost"
    if function.link_width != WIDTH:
        yield f"width {function.link_width}"
    gpu = kernel.nvidia.get(address)
    if gpu is None:
        return
    yield from (f"xid {number}" for number in gpu.health.xids if number != FELL_OFF_THE_BUS)
    yield from ("remap-failed",) * gpu.health.rows.failure
    yield from _readings_words(gpu.health)
    yield from ("hidden",) * gpu.health.hidden
    activity = kernel.activities[address]
    yield from ("busy",) * activity.busy
    yield from ("calm",) * activity.calm
    yield from ("hot",) * activity.hot
    yield from ("unlicensed",) * any(each.unlicensed for each in gpu.vgpus)
    yield from (f"client {name}" for name in sorted(gpu.clients))
    yield from kernel.failures.words(address)
    yield from (
        f"fail {name} {count}" for name, count in Counter(n for n, _ in gpu.fail_next).items()
    )


def _readings_words(health: Health) -> Iterator[str]:
    yield from ("remap-pending",) * (health.rows.pending and not health.xids)
    yield from (f"errors {health.uncorrected}",) * bool(health.uncorrected)
    yield from (f"retired {health.retired}",) * bool(health.retired)
    yield from ("sram",) * health.sram_exceeded
    yield from (f"recovery {int(health.recovery)}",) * (health.recovery and not health.xids)


_ACS = "pcie_acs_override=downstream,multifunction"


def _set(**fields: object) -> Callable[[Kernel], None]:
    def change(kernel: Kernel) -> None:
        kernel.setup = replace(kernel.setup, **fields)  # type: ignore[arg-type]

    return change


def _with(change: Callable[[Setup], dict[str, object]]) -> Callable[[Kernel], None]:
    return lambda kernel: _set(**change(kernel.setup))(kernel)


def _bars(kernel: Kernel) -> None:
    for function in kernel.pci.functions.values():
        function.placed = False


def _vf_bars(kernel: Kernel) -> None:
    for sriov in kernel.sriov.values():
        sriov.pf.vfs_placed = False


SETUP_FAULTS: dict[str, Callable[[Kernel], None]] = {
    "no-iommu-table": _set(iommus=(), tables=("APIC", "DSDT", "FACP")),
    "iommu-off": _with(lambda now: {"iommus": (), "kernel_line": f"{now.kernel_line} iommu=off"}),
    "no-remapping": _set(remapping=False),
    "unsafe-interrupts": _set(unsafe_interrupts=True),
    "acs-override": _with(lambda now: {"kernel_line": f"{now.kernel_line} {_ACS}"}),
    "nouveau": _with(lambda now: {"modules": (*now.modules, "nouveau")}),
    "no-blacklist": _set(blacklist=()),
    "no-vfio": _set(available=("kvm-amd", "nouveau")),
    "guest": _set(guest_of="QEMU"),
    "bars": _bars,
    "vf-bars": _vf_bars,
    "old-helper": _set(helper="0"),
    "no-sudo-rule": _set(sudo_rules=()),
    "broad-sudo": _with(lambda now: {"sudo_rules": (*now.sudo_rules, "(ALL) NOPASSWD: ALL")}),
    "no-libvirt-at-boot": _set(units={RESTORE: ENABLED}),
    "restore-failed": lambda kernel: kernel.setup.fail(RESTORE),
    "no-pool-at-boot": _set(pools_at_boot=()),
    "clock-ahead": _set(clock_ahead_s=90.0),
    "no-ntp": _set(synchronised=False),
}


def inject_setup(kernel: Kernel, name: str) -> None:
    """Break one thing; UsageError names what can be broken."""
    if name not in SETUP_FAULTS:
        raise UsageError(
            f"{name!r} is not a known set-up fault", next=f"one of: {', '.join(SETUP_FAULTS)}"
        )
    SETUP_FAULTS[name](kernel)
    kernel.setup = replace(kernel.setup, faults=(*kernel.setup.faults, name))


def clear_setup(kernel: Kernel) -> None:
    """Set the host up as it was."""
    kernel.setup = kernel.fresh_setup()
    for function in kernel.pci.functions.values():
        function.placed = function.vfs_placed = True


def setup_words(kernel: Kernel) -> tuple[str, ...]:
    """What is wrong, in the words of ``inject``."""
    return tuple(f"setup {name}" for name in kernel.setup.faults)
