"""Pools of desktops: what `serve` does for them, and what is written for their users."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.faults import commands
from tests.faults.scenario import Command, Place, Prepare, Scenario
from tests.poolsim import NEW, OLD, STAFF, spec
from tests.simworld import host
from vgpumgr.app.composition import App
from vgpumgr.model.defrag import LogoffMove
from vgpumgr.model.desktop import Booking
from vgpumgr.model.pool import PoolKind, ScaleIn, UpdatePolicy

_HOSTS = (host("T4", images=(f"{OLD}.qcow2", f"{NEW}.qcow2")),)
_SPEC = replace(spec(least=1, spare=1, most=3), shrink_after_s=0.0)
_LAB = Booking(id="b-1", group="lab", profile="T4-4Q", count=1, start=0.0, end=1.0)


def _scenario(operation: str, part: str, command: Command, *prepare: Prepare) -> Scenario:
    return Scenario(
        operation=operation,
        part=part,
        hosts=_HOSTS,
        command=command,
        prepare=(lambda place: place.enrol("h1"), *prepare),
        ends=("again",),
        sure=operation == "serve",
    )


def _engine(method: str, *args: Any, **named: Any) -> Command:
    return lambda app: getattr(app.engine, method)(*args, **named)


def _before(command: Command) -> Prepare:
    return lambda place: command(place.app)


def _put(**changes: Any) -> Prepare:
    return _before(_engine("put_pool", replace(_SPEC, **changes)))


def _settled(place: Place) -> None:
    commands.serve(place.app)


_GIVEN = _engine("assign_desktop", "cad", "ada", STAFF)
_LEFT = _engine("release_desktop", "cad", "ada")
_FEWER = _engine("scale_pool", "cad", least=0, spare=0)
_MORE = _engine("scale_pool", "cad", least=1, spare=1)
_GOES = _engine("delete_pool", "cad")


def _worked() -> Iterator[Scenario]:
    shelving = _put(scale_in=ScaleIn.SHELVE)
    for part, prepare in {
        "a pool makes": (_put(),),
        "a pool gives": (_put(), _before(_GIVEN)),
        "a pool makes anew": (_put(), _settled, _before(_GIVEN), _before(_LEFT)),
        "a pool updates": (_put(), _settled, _before(_engine("push_image", "cad", NEW))),
        "a pool shelves": (shelving, _settled, _before(_FEWER)),
        "a pool brings back": (shelving, _settled, _before(_FEWER), _settled, _before(_MORE)),
        "a pool deletes": (_put(), _settled, _before(_GOES)),
    }.items():
        yield _scenario("serve", part, commands.serve, *prepare)


def _of_an_owner() -> Iterator[Scenario]:
    """The image is proven while she is there; then she leaves."""
    proven = _put(kind=PoolKind.DEDICATED, update=UpdatePolicy(soak_s=0.0))
    coming = _before(_engine("push_image", "cad", NEW))
    left = (proven, _settled, _before(_GIVEN), coming, _settled, _before(_LEFT))
    found = _scenario("serve", "an owner gets an image", commands.serve, *left)
    yield found
    refused = replace(found, prepare=(*found.prepare, _refusing), sure=False)
    # What was refused once is not refused again: either image is a good end.
    yield replace(refused, part="an owner keeps an image", several=True, ends=("serve",))


def _beside_a_refusing_gpu() -> Scenario:
    """Desktops are made on the host's other GPU."""

    def refusing(place: Place) -> None:
        place.inject("h1", "gpu", "0000:41:00.0", "fail", "create", "1000")

    found = _scenario("serve", "a pool makes elsewhere", commands.serve, _put(), refusing)
    two = host("T4", "T4", images=(f"{OLD}.qcow2", f"{NEW}.qcow2"))
    return replace(found, hosts=(two,))


def _refusing(place: Place) -> None:
    place.inject("h1", "refuse", "domains.start", "EIO", "1")


def _written() -> Iterator[Scenario]:
    coming = _before(_engine("push_image", "cad", NEW))
    for part, command, prepare in (
        ("put", _engine("put_pool", _SPEC), ()),
        ("given", _GIVEN, (_put(), _settled)),
        ("asked for", _GIVEN, (_put(),)),
        ("left", _LEFT, (_put(), _settled, _before(_GIVEN))),
        ("waits no more", _LEFT, (_put(), _before(_GIVEN))),
        ("image taken back", _engine("push_image", "cad", OLD), (_put(), coming)),
    ):
        yield _scenario("pool", part, command, *prepare)


def _awaits(app: App) -> None:
    """Ada's desktop is to leave its GPU for the other one."""
    vm = app.ledger.vm("cad-01")
    mine = tuple(each.gpu for each in app.ledger.allocations() if each.vm_id == vm.id)
    waits = LogoffMove(
        id="m-1",
        vm_id=vm.id,
        vm=vm.name,
        user="ada",
        host=vm.host,
        leaves=mine,
        takes=tuple(gpu.id for gpu in app.ledger.gpus() if gpu.id not in mine),
        why="reduce fragmentation",
        asked_at=0.0,
    )
    app.writable_ledger.await_logoff([waits])


def _at_logoff() -> Iterator[Scenario]:
    given = (_put(kind=PoolKind.DEDICATED), _settled, _before(_GIVEN))
    waiting = (*given, _before(_awaits))
    two = (host("T4", "T4", images=(f"{OLD}.qcow2", f"{NEW}.qcow2")),)
    for operation, part, command, prepare in (
        ("logoff move", "waits", _awaits, given),
        ("logoff move", "cancelled", _engine("cancel_logoff_move", "cad-01"), waiting),
        ("serve", "a desktop moves after a logoff", commands.serve, (*waiting, _before(_LEFT))),
    ):
        yield replace(_scenario(operation, part, command, *prepare), hosts=two)


def _book(app: App) -> None:
    app.writable_ledger.book(_LAB, "default")


def _cancel(app: App) -> None:
    app.writable_ledger.cancel_booking(_LAB.id)


SCENARIOS = (
    *_worked(),
    _beside_a_refusing_gpu(),
    *_of_an_owner(),
    *_written(),
    *_at_logoff(),
    _scenario("booking", "made", _book),
    _scenario("booking", "cancelled", _cancel, _before(_book)),
)
