"""Asking for tickets and giving them, on virtual time, over fake hosts and doors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from tests.world import World, vm
from vgpumgr.engine.consoles import connection_broker as desks
from vgpumgr.engine.consoles.connection_broker import ConnectionBroker
from vgpumgr.engine.consoles.console_request import ConsoleRequest, connect
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_threads import SerialCycleRunner
from vgpumgr.model.console_ticket import ConsoleProxyState, ConsoleTicket, TicketMoved, TicketState
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    Interrupted,
    LedgerError,
    NotFound,
    StaleGeneration,
)
from vgpumgr.model.ports import ConsoleProxy, Stream

OPEN_S = 60.0


@dataclass
class FakeDoor:
    console: Stream
    address: str = "127.0.0.1:5900"
    answer: str = "key of serve"
    seen: ConsoleProxyState = field(default_factory=ConsoleProxyState)

    def look(self) -> ConsoleProxyState:
        return self.seen

    def close(self) -> None:
        self.console.close()
        self.seen = replace(self.seen, ended="it was closed")


@dataclass
class FakeDoors:
    made: list[FakeDoor] = field(default_factory=list)
    error: Exception | None = None
    uids: list[Collection[int]] = field(default_factory=list)

    def open(self, console: Stream, key: str, uids: Collection[int] = ()) -> ConsoleProxy:
        if self.error is not None:
            console.close()
            raise self.error
        self.uids.append(uids)
        self.made.append(FakeDoor(console))
        return self.made[-1]


class Busy(FakeClock):
    """While somebody waits, the desk works."""

    desk: ConnectionBroker | None = None

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        if self.desk is not None:
            desk, self.desk = self.desk, None
            desk.round()
            self.desk = desk


class Scene:
    """A VM that runs, a desk, and somebody who asks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = self.world.clock = Busy(world.clock.time)
        self.world.restart()
        self.doors, self.events, self.used = (
            FakeDoors(),
            list[ControllerEvent](),
            list[ConsoleTicket](),
        )
        self.left: list[ConsoleTicket] = []
        self.desk = self.process()

    def process(self) -> ConnectionBroker:
        """One more `serve`, with a ledger of its own."""
        session = self.world.engine_over(self.world.open())
        turns: SerialCycleRunner[ConsoleProxy] = SerialCycleRunner(self.clock)
        return ConnectionBroker(
            session, "here", self.doors, turns,
            open_s=OPEN_S, emit=self.events.append, used=self.used.append, left=self.left.append,
        )  # fmt: skip

    def open(self) -> None:
        self.desk.round()
        self.clock.desk = self.desk

    def connect(
        self, name: str = "desk", machine: str = "here", timeout_s: float = 5.0
    ) -> ConsoleTicket:
        request = ConsoleRequest(
            user="ann", machine=machine, key="key of ann", timeout_s=timeout_s, uids=(1001, 0)
        )
        return connect(self.world.engine, name, request)

    def row(self) -> ConsoleTicket:
        """The last ticket, as it is now."""
        return self.all()[-1]

    def all(self) -> tuple[ConsoleTicket, ...]:
        return self.world.ledger.tickets(self.ids)

    @property
    def ids(self) -> list[str]:
        with self.world.ledger._database.read() as connection:
            return [row[0] for row in connection.exec_driver_sql("SELECT id FROM ticket")]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("base"))
    made.engine.apply([vm("desk", "T4-2Q")])
    return made


@pytest.fixture
def scene(base: World, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(base.twin(tmp_path / "twin"))
    yield made
    made.world.close()


def test_who_asks_gets_an_address_and_a_key(scene: Scene) -> None:
    scene.open()
    ticket = scene.connect()
    assert (ticket.state, ticket.address, ticket.answer) == (
        TicketState.OPEN, "127.0.0.1:5900", "key of serve",
    )  # fmt: skip
    assert scene.world.host.calls[-1] == ("console", ("desk", scene.world.vm("desk").id))
    assert scene.doors.uids == [(1001, 0)], "for programs of who asked"
    told = [record.event for record in scene.world.ledger.audit(event="ticket")]
    assert told == ["ticket.open", "ticket.asked"]


def test_a_connection_is_told_its_use_counts_and_its_end_closes_the_ticket(scene: Scene) -> None:
    scene.open()
    scene.connect()
    door = scene.doors.made[0]
    door.seen = ConsoleProxyState(connected=True, sent=5)
    scene.desk.round()
    assert scene.row().state is TicketState.CONNECTED
    for later, sent, times in ((1.0, 9, 1), (desks.USED_S, 9, 2), (desks.USED_S, 9, 2)):
        scene.clock.time += later
        door.seen = ConsoleProxyState(connected=True, sent=sent)
        scene.desk.round()
        assert len(scene.used) == times
    door.seen = replace(door.seen, ended="the viewer disconnected")
    scene.desk.round()
    assert (scene.row().state, scene.row().why) == (TicketState.CLOSED, "the viewer disconnected")
    assert [each.kind for each in scene.events] == [
        EventKind.TICKET_CONNECTED, EventKind.TICKET_CLOSED,
    ]  # fmt: skip
    assert scene.row().connected_at is not None


def test_a_connection_that_came_and_went_between_two_rounds_was_one(scene: Scene) -> None:
    scene.open()
    scene.connect()
    scene.doors.made[0].seen = ConsoleProxyState(
        connected=True, sent=1, ended="the viewer disconnected"
    )
    scene.desk.round()
    assert scene.row().connected_at is not None and scene.row().closed_at is not None
    assert [each.vm for each in scene.left] == ["desk"]


def test_a_ticket_nobody_uses_expires(scene: Scene) -> None:
    scene.open()
    scene.connect()
    scene.clock.time += OPEN_S - 1
    scene.desk.round()
    assert scene.row().state is TicketState.OPEN
    scene.clock.time += 1
    scene.desk.round()
    assert scene.row().why == "no viewer connected within 60 s"
    assert scene.left == []
    assert scene.world.host.consoles[0].closed


def test_who_else_tried_is_told(scene: Scene) -> None:
    scene.open()
    scene.connect()
    scene.doors.made[0].seen = ConsoleProxyState(strangers=3)
    scene.clock.time += OPEN_S
    scene.desk.round()
    assert scene.row().why.endswith("; connections of other users, rejected: 3")


def test_a_connection_lasts_longer_than_its_ticket_waited(scene: Scene) -> None:
    scene.open()
    scene.connect()
    scene.doors.made[0].seen = ConsoleProxyState(connected=True)
    scene.clock.time += 100 * OPEN_S
    scene.desk.round()
    assert scene.row().state is TicketState.CONNECTED


def test_an_end_of_serve_parts_everybody_and_says_so(scene: Scene) -> None:
    scene.open()
    scene.connect()
    scene.desk.close()
    assert (scene.row().state, scene.row().why) == (TicketState.CLOSED, "vgpumgr serve has ended")
    assert scene.world.host.consoles[0].closed
    with pytest.raises(Conflict, match="no vgpumgr serve"):
        scene.connect()


def test_what_a_killed_serve_had_open_the_next_one_closes(scene: Scene) -> None:
    scene.open()
    scene.connect()
    scene.clock.desk = None
    scene.world.restart()  # the claims of the dead are gone
    scene.desk = scene.process()
    scene.desk.round()
    assert scene.row().state is TicketState.CLOSED
    assert "had opened it has ended" in scene.row().why


def test_only_one_process_of_a_machine_gives_tickets(scene: Scene) -> None:
    scene.open()
    other = scene.process()
    scene.connect()
    other.round()
    assert scene.row().state is TicketState.OPEN


def test_another_machines_tickets_are_left_alone(scene: Scene) -> None:
    scene.open()
    with pytest.raises(Conflict, match="no vgpumgr serve runs here to proxy the console"):
        scene.connect(machine="there")
    scene.desk.round()
    assert scene.all() == ()


@pytest.mark.parametrize("kind", [HostUnreachable, HostRefused, DeadlineExceeded, Conflict])
def test_what_a_host_says_is_what_the_asker_hears(
    scene: Scene, kind: type[HostRefused | HostUnreachable | DeadlineExceeded | Conflict]
) -> None:
    scene.open()
    scene.world.host.refuse("console", kind("no way", why="a reason", next="a remedy"))
    with pytest.raises(kind, match="no connection to desk") as caught:
        scene.connect()
    assert (caught.value.why, caught.value.next) == ("no way: a reason", "a remedy")
    assert scene.doors.made == []


def test_a_console_is_let_go_when_no_door_can_be_made(scene: Scene) -> None:
    scene.open()
    scene.doors.error = OSError("no port is free")
    with pytest.raises(Exception, match="no connection"):
        scene.connect()
    assert scene.world.host.consoles[0].closed


def test_a_vm_that_is_unknown_or_off_is_not_asked_for(scene: Scene) -> None:
    scene.open()
    with pytest.raises(NotFound):
        scene.connect("dusk")
    scene.world.engine.stop_vms(["desk"], force=True, timeout_s=1.0)
    with pytest.raises(Conflict, match="desk is off"):
        scene.connect()
    assert scene.all() == ()


def test_who_gives_up_leaves_no_ticket_behind(scene: Scene) -> None:
    scene.desk.round()  # it has the desk, and does no more
    with pytest.raises(DeadlineExceeded):
        scene.connect()
    assert scene.row().state is TicketState.CLOSED
    scene.desk.round()
    assert scene.doors.made == []


def test_ctrl_c_takes_the_ask_back(scene: Scene) -> None:
    scene.desk.round()
    scene.world.engine.stop.set()
    with pytest.raises(Interrupted):
        scene.connect()
    assert scene.row().state is TicketState.CLOSED


def test_an_answer_that_comes_too_late_opens_nothing(scene: Scene) -> None:
    scene.desk.round()

    def give_up(name: str) -> None:
        if name == "console":
            asked = scene.row()
            scene.world.ledger.move_tickets(
                [TicketMoved(ticket=asked.id, before=asked.state, state=TicketState.CLOSED)]
            )

    scene.world.host.on_call = give_up
    scene.clock.desk = scene.desk
    with suppress(Exception):
        scene.connect()
    scene.desk.round()
    assert scene.row().state is TicketState.CLOSED
    assert scene.world.host.consoles[0].closed


def test_an_old_ask_is_not_answered(scene: Scene) -> None:
    scene.desk.round()
    scene.world.ledger.ask_ticket(_asked(scene, "t1", scene.clock.now() - desks.ASK_S - 1))
    scene.desk.round()
    assert scene.row().code == "deadline"
    assert scene.world.host.consoles == []


def test_there_is_a_bound(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "MOST", 1)
    scene.open()
    scene.connect()
    with pytest.raises(Conflict, match="no connection") as caught:
        scene.connect()
    assert "1 console tickets are open" in caught.value.why


def test_a_ledger_that_fails_costs_no_connection(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.open()
    scene.connect()
    with monkeypatch.context() as broken:
        broken.setattr(type(scene.world.ledger), "tickets", _failing)
        with pytest.raises(LedgerError):
            scene.desk.round()
    assert not scene.world.host.consoles[0].closed
    scene.desk.round()
    assert scene.row().state is TicketState.OPEN


def test_a_vm_of_the_same_name_is_another(scene: Scene) -> None:
    scene.desk.round()
    asked = _asked(scene, "t1", scene.clock.now())
    scene.world.ledger.ask_ticket(asked)
    scene.world.engine.delete(["desk"], keep_disks=False, force=True)
    scene.world.engine.apply([vm("desk", "T4-2Q")])
    scene.desk.round()
    scene.desk.round()
    assert scene.row().code == "conflict"


def test_two_who_move_a_ticket(scene: Scene) -> None:
    scene.open()
    ticket = scene.connect()
    moved = TicketMoved(ticket=ticket.id, before=ticket.state, state=TicketState.CONNECTED)
    scene.world.ledger.move_tickets([moved])
    with pytest.raises(StaleGeneration):
        scene.world.ledger.move_tickets([moved])


def _failing(*_: object) -> None:
    raise LedgerError("the disk is full")


def _asked(scene: Scene, id_: str, at: float) -> ConsoleTicket:
    return ConsoleTicket(
        id=id_,
        vm_id=scene.world.vm("desk").id,
        vm="desk",
        user="ann",
        machine="here",
        key="key",
        asked_at=at,
    )
