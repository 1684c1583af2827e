"""Control of a simulated fleet: switching it on and off, its status, and fault injection."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vgpumgr.hosts.program_runner import CallCut
from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.errors import Conflict, HostUnreachable, NotFound, OutcomeUnknown, VgpumgrError
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.sim.boards.hardware import hardware
from vgpumgr.sim.sim_server import FLEET, LOCK, SIM
from vgpumgr.sim.transport.fleet_socket import Channel

SMALL = SimFleet(
    name="small",
    hosts=(
        SimHost(name="t4-1", boards=(SimBoard(board="T4", count=4),)),
        SimHost(name="t4-2", boards=(SimBoard(board="T4", count=4),)),
        SimHost(name="rtx-1", boards=(SimBoard(board="RTX8000P", count=2),)),
        SimHost(
            name="h100-1",
            boards=(SimBoard(board="H100-PCIE-80GB", count=4),),
            hugepages_1gib=64,
        ),
    ),
)


ASK_S = 10.0


def ask_fleet(state: Path) -> dict[str, Any] | None:
    """What is up now; None where nothing is."""
    try:
        found: dict[str, Any] = call_fleet(state, "", "status", {})
    except HostUnreachable:
        return None
    return found


def call_fleet(state: Path, host: str, method: str, args: dict[str, Any]) -> Any:
    """One call; HostUnreachable where nothing is up, OutcomeUnknown where it was cut."""
    channel = Channel(state, ASK_S)
    try:
        return channel.call(host, SIM, method, args)
    except CallCut as cut:
        kind = OutcomeUnknown if cut.timed_out else HostUnreachable
        raise kind(
            "the simulated fleet does not answer", why=cut.why, next="vgpumgr sim status"
        ) from cut
    finally:
        channel.close()


_UP_S, _DOWN_S, _POLL_S = 60.0, 30.0, 0.02
_LOG, _UP_LOCK = "server.log", "up.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimStatus:
    """Is the fleet up, and what is in it. ``faults`` by host, in the words of ``inject``.

    ``without_fabric``, by host, are running domains whose NVSwitch GPUs are no active partition:
    CUDA does not start in such a guest. ``redfish``: where its BMCs and its PDU answer, if so.
    """

    up: bool
    fleet: str = ""
    pid: int | None = None
    hosts: tuple[str, ...] = ()
    running_domains: int = 0
    redfish: str = ""
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    without_fabric: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def up(fleet: SimFleet, state: Path) -> None:
    """Switch the fleet on, and return when it answers. It outlives us.

    The same fleet already up is no error, also where hosts were added since; another one is a
    Conflict, and one that cannot exist a UsageError.
    """
    for host in fleet.hosts:
        hardware(host)
    state.mkdir(parents=True, exist_ok=True)
    with (state / _UP_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _up(fleet, state)


def _up(fleet: SimFleet, state: Path) -> None:
    found = ask_fleet(state)
    if found is not None:
        if not _holds(from_plain(SimFleet, found["fleet"]), fleet):
            raise Conflict(
                f"another simulated fleet is up: {found['fleet']['name']}",
                why=f"it has {len(found['fleet']['hosts'])} hosts in {state}",
                next="vgpumgr sim down",
            )
        return
    (state / FLEET).write_text(json.dumps(to_plain(fleet), indent=1))
    _wait_until_up(state, _start(state))


def _holds(up: SimFleet, fleet: SimFleet) -> bool:
    return up.name == fleet.name and set(fleet.hosts) <= set(up.hosts)


def add(hosts: Sequence[SimHost], state: Path) -> None:
    """Switch more hosts on, in the fleet that is up; they are part of it from then on.

    HostUnreachable where none is up, Conflict for a name that is taken, UsageError for a host that
    cannot exist.
    """
    for host in hosts:
        hardware(host)
    with (state / _UP_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        call_fleet(state, "", "add", {"hosts": [to_plain(host) for host in hosts]})


def last_fleet(state: Path) -> SimFleet | None:
    """The fleet that was up here last; None where there was none, or its file cannot be read."""
    try:
        return from_plain(SimFleet, json.loads((state / FLEET).read_text()))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def down(state: Path) -> None:
    """Cut the power, and return when the process is gone; a fleet that is down is no error."""
    try:
        call_fleet(state, "", "stop", {})
    except (HostUnreachable, OutcomeUnknown):
        pass  # down already, or gone before it had answered
    deadline = time.monotonic() + _DOWN_S
    while not _is_gone(state):
        if time.monotonic() > deadline:
            raise VgpumgrError("the simulated fleet does not end", why=f"see {state / _LOG}")
        time.sleep(_POLL_S)


def status(state: Path) -> SimStatus:
    """What is up now."""
    found = ask_fleet(state)
    if found is None:
        return SimStatus(up=False)
    return SimStatus(
        up=True,
        fleet=found["fleet"]["name"],
        pid=found["pid"],
        hosts=tuple(host["name"] for host in found["fleet"]["hosts"]),
        running_domains=found["running_domains"],
        redfish=found["redfish"],
        faults=_by_host(found["faults"]),
        without_fabric=_by_host(found["without_fabric"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimRedfish:
    """Where BMCs and PDU of a simulated fleet answer, and how to log in."""

    url: str
    user: str
    password_file: str


def redfish(state: Path, port: int) -> SimRedfish:
    """Have the fleet's Redfish service up, at that port of 127.0.0.1 (0: a free one) where it is
    not yet. HostUnreachable where no fleet is up, Conflict where the port is taken.
    """
    return SimRedfish(**call_fleet(state, "", "redfish", {"port": port}))


def _by_host(found: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(words) for name, words in found.items()}


def inject(state: Path, host: str, fault: Sequence[str]) -> None:
    """Make a host misbehave, in the words of ``forms.TABLE``; UsageError names the forms.

    VERB is a helper verb (its next write to the kernel fails) or, for libvirt, ``domains.start``,
    ``storage.create``, …; WHAT is ``unbind`` (sriov-manage), ``create`` (a vGPU), ``reset``, or
    an NVML function by its C name.
    """
    call_fleet(state, host, "inject", {"words": list(fault)})


def power(state: Path, host: str, to: str) -> bool:
    """Switch a host ``off`` or ``on``, or ask (``status``) alone: is it on then?

    NotFound for a host that is not in the fleet.
    """
    if to != "status":
        inject(state, host, [to])
    found = status(state)
    if host not in found.hosts:
        raise NotFound(f"there is no simulated host {host} that is up", next="vgpumgr sim status")
    return "off" not in found.faults.get(host, ())


def _start(state: Path) -> subprocess.Popen[bytes]:
    with (state / _LOG).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "vgpumgr.sim.sim_server", str(state.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )


def _wait_until_up(state: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _UP_S
    while ask_fleet(state) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            log = (state / _LOG).read_text(errors="replace").strip().splitlines()
            raise VgpumgrError(
                "the simulated fleet does not come up",
                why=log[-1] if log else f"see {state / _LOG}",
            )
        time.sleep(_POLL_S)
    # It is nobody's child any more: without this, Popen would warn that it still runs.
    process.returncode = 0


def _is_gone(state: Path) -> bool:
    """Nobody holds the lock any more."""
    try:
        with (state / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True
    return True
