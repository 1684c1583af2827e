"""A ticket asked for, given and closed: the asker and the desk of `serve` in one process.

What is written is killed at: the screen is one of this process, and changes nothing on a host.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace
from typing import Any

from tests.faults.scenario import Place, Scenario
from tests.simworld import host, vm
from vgpumgr.app.composition import App
from vgpumgr.app.console_proxy import LoopbackProxies
from vgpumgr.app.ticket_password import PasswordHalf
from vgpumgr.engine.consoles.connection_broker import ConnectionBroker
from vgpumgr.engine.consoles.console_request import ConsoleRequest, connect
from vgpumgr.engine.controller.cycle_threads import SerialCycleRunner
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import ConsoleProxy, Stream
from vgpumgr.sim import joined_helper
from vgpumgr.sim.libvirt import vnc_consoles

_MACHINE = "here"


@dataclass
class _Working(SystemClock):
    """While the asker waits, the desk works."""

    desk: ConnectionBroker

    def wait(self, seconds: float) -> None:
        self.desk.round()


class _Screens:
    """Hosts that have screens, and nothing else."""

    def open(self, _record: HostRecord) -> Any:
        return self

    def console(self, domain: str, _vm_id: str, _kind: object = None) -> Stream:
        near, far = socket.socketpair()
        vnc_consoles.serve_vnc(far, domain)
        return joined_helper.SocketProgram(near)

    def close(self) -> None:
        """Nothing to close."""


def _connected(app: App) -> None:
    turns: SerialCycleRunner[ConsoleProxy] = SerialCycleRunner(app.engine.clock)
    doors = LoopbackProxies(10.0)
    session = replace(app.engine, hosts=_Screens())
    desk = ConnectionBroker(session, _MACHINE, doors, turns, open_s=60.0, emit=lambda _: None)
    desk.round()  # what a killed one left is closed, or answered
    asker = replace(app.engine, clock=_Working(desk))
    request = ConsoleRequest(
        user="ann", machine=_MACHINE, key=PasswordHalf().public, timeout_s=60.0
    )
    assert connect(asker, "desk", request).address
    desk.close()
    left = [each.id for each in app.engine.ledger.tickets()]
    assert not left, f"tickets are open: {left}"


def _made(place: Place) -> None:
    place.enrol("h1")
    place.apply(vm("desk", "T4-4Q", display=True))


SCENARIOS = (
    Scenario(
        operation="connect",
        part="ticket",
        hosts=(host("T4"),),
        command=_connected,
        prepare=(_made,),
        ends=("again",),
    ),
)
