"""What happens to a fleet besides commands: operators, other people's hands, power, faults."""

from __future__ import annotations

from collections.abc import Callable

from tests.soak.field import Field

Event = Callable[[Field, str, str, int], None]


def cordon(field: Field, host: str, _: str, n: int) -> None:
    field.cordon(host, on=n == 0)


def power_cut(field: Field, host: str, *_: object) -> None:
    field.power_cut(host)


def unreachable(field: Field, host: str, *_: object) -> None:
    field.world.sim.inject(host, ["unreachable"])


def gpu_lost(field: Field, host: str, _: str, n: int) -> None:
    gpus = field.world.sim.host(host).kernel.gpus
    field.world.sim.inject(host, ["gpu", gpus[n % len(gpus)].address, "lost"])


def mended(field: Field, host: str, *_: object) -> None:
    field.world.sim.inject(host, ["clear"])


def foreign_domain(field: Field, host: str, name: str, n: int) -> None:
    field.hands.make_domain(host, name, next(field.numbers), run=n % 2 == 0)


def foreign_mdev(field: Field, host: str, _: str, n: int) -> None:
    field.hands.make_mdev(host, next(field.numbers), n)


def strangers_leave(field: Field, *_: object) -> None:
    field.hands.leave()


def pulled_plug(field: Field, host: str, name: str, _: int) -> None:
    """``virsh destroy`` of ours."""
    if field.hands.pull_plug(host, name):
        field.shaken.add(name)


def undefined(field: Field, host: str, name: str, _: int) -> None:
    """``virsh undefine`` of ours."""
    if field.hands.forget(host, name):
        field.undefined.add(name)


EVENTS: dict[str, Event] = {
    "cordon": cordon,
    "power cut": power_cut,
    "unreachable": unreachable,
    "GPU lost": gpu_lost,
    "mended": mended,
    "mended again": mended,
    "foreign domain": foreign_domain,
    "foreign mdev": foreign_mdev,
    "strangers leave": strangers_leave,
    "virsh destroy": pulled_plug,
    "virsh undefine": undefined,
}
