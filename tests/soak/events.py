"""What happens to a fleet besides commands: operators, other people's hands, power, faults."""

from __future__ import annotations

from collections.abc import Callable

from tests.soak.field import Field

# False where there was nothing to do it to.
Event = Callable[[Field, str, str, int], bool]


def cordon(field: Field, host: str, _: str, n: int) -> bool:
    field.cordon(host, on=n == 0)
    return True


def power_cut(field: Field, host: str, *_: object) -> bool:
    field.power_cut(host)
    return True


def unreachable(field: Field, host: str, *_: object) -> bool:
    field.inject(host, "unreachable")
    return True


def gpu_lost(field: Field, host: str, _: str, n: int) -> bool:
    gpus = field.world.sim.host(host).kernel.gpus
    field.inject(host, "gpu", gpus[n % len(gpus)].address, "lost")
    return True


# What a host refuses for so many calls; a GPU's driver makes no mdevs.
_REFUSED = ("mdev_create", "vgpu_create", "vfio_bind", "domains.start", "domains.define")


def host_refuses(field: Field, host: str, _: str, n: int) -> bool:
    verb = _REFUSED[n % len(_REFUSED)]
    field.inject(host, "refuse", verb, "EIO" if n % 2 else "ENOSPC", str(1 + n))
    return True


def gpu_refuses(field: Field, host: str, _: str, n: int) -> bool:
    gpus = sorted(field.world.sim.host(host).kernel.nvidia)
    if not gpus:
        return False
    field.inject(host, "gpu", gpus[n % len(gpus)], "fail", "create", str(2 + n))
    return True


def foreign_domain(field: Field, host: str, name: str, n: int) -> bool:
    return field.hands.make_domain(host, name, next(field.numbers), run=n % 2 == 0)


def foreign_mdev(field: Field, host: str, _: str, n: int) -> bool:
    return field.hands.make_mdev(host, next(field.numbers), n)


def pulled_plug(field: Field, host: str, name: str, _: int) -> bool:
    """``virsh destroy`` of ours."""
    done = field.hands.pull_plug(host, name)
    if done:
        field.shaken.add(name)
    return done


def undefined(field: Field, host: str, name: str, _: int) -> bool:
    """``virsh undefine`` of ours."""
    done = field.hands.forget(host, name)
    if done:
        field.undefined.add(name)
    return done


# At any time, to any host.
EVENTS: dict[str, Event] = {
    "cordon": cordon,
    "power cut": power_cut,
    "unreachable": unreachable,
    "GPU lost": gpu_lost,
    "GPU refuses": gpu_refuses,
    "host refuses": host_refuses,
    "foreign domain": foreign_domain,
    "foreign mdev": foreign_mdev,
}
# To a VM of ours.
MEDDLING: dict[str, Event] = {
    "virsh destroy": pulled_plug,
    "virsh undefine": undefined,
}
