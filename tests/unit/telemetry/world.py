"""A simulated fleet of every kind, and its series as Prometheus' own client reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.poolsim import spec
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.pools import desktop_assignment, pool_cycle
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.model.layout import GpuLayout, InstanceGoal, LayoutRule, LayoutSpec
from vgpumgr.model.licence import Edition, Licence
from vgpumgr.model.pool import Entitlement, PoolKind
from vgpumgr.model.vm import Terms
from vgpumgr.telemetry.telemetry_round import TelemetryOptions, TelemetryRound

Labels = Mapping[str, str]
GPU = "0000:41:00.0"


@dataclass(frozen=True)
class Series:
    """One series as it was read."""

    name: str
    labels: Labels
    value: float


class Read:
    """All series of one exposition."""

    def __init__(self, text: str) -> None:
        self.text = text
        families = list(text_string_to_metric_families(text))
        self.types = {each.name: each.type for each in families}
        self.series = [
            Series(each.name, dict(each.labels), each.value)
            for family in families
            for each in family.samples
        ]

    def of(self, name: str, **labels: str) -> list[Series]:
        wanted = labels.items()
        found = (each for each in self.series if each.name == f"vgpumgr_{name}")
        return [each for each in found if wanted <= each.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        [one] = self.of(name, **labels)
        return one.value

    def values(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """By the value of one label."""
        return {each.labels[label]: each.value for each in self.of(name, **labels)}


def layout(world: SimWorld, name: str, wanted: GpuLayout) -> None:
    spec = LayoutSpec(name=f"of-{name}", hosts=(name,), rules=(LayoutRule(layout=wanted),))
    world.engine.layout_apply([spec])[1].raise_for_failure()


class Fleet:
    """Six hosts: mdevs with a pool, vGPUs on VFs, MIG, whole GPUs, NVSwitch, other vendors."""

    def __init__(self, folder: Path) -> None:
        images = ("cad@1.qcow2", "cad@2.qcow2")
        self.world = SimWorld(
            folder,
            host("T4", "T4", name="vdi", images=images),
            host("L40S", name="vf"),
            host("H100-PCIE-80GB", name="mig"),
            host("L40S", name="whole"),
            host(*["H100-SXM5-80GB"] * 8, name="hgx", fabric="HGX-H100-8"),
            host("MI300X", name="amd"),
        )
        world = self.world
        for name, rack in (("vdi", "r1"), ("vf", "r1"), ("mig", "r2")):
            record = world.ledger.host(name)
            world.ledger.update_host(replace(record, labels={"rack": rack}))
        world.ledger.set_licence(Licence(edition=Edition.VWS, seats=40))
        world.engine.refresh()
        layout(world, "vf", GpuLayout(vfs=32))
        instances = (InstanceGoal(profile="3g.40gb"), InstanceGoal(profile="3g.40gb"))
        layout(world, "mig", GpuLayout(mig=True, vfs=20, instances=instances))
        world.apply(
            vm("web", "L40S-8Q", tenant="blue"),
            vm("pair", "L40S-8Q", "L40S-8Q", tenant="blue"),
            vm("model", "3g.40gb", tenant="red"),
            vm("all", "passthrough", tenant="red", queue=None),
            vm("spot", "T4-4Q", queue=Terms(spot=True)),
        )
        staff = Entitlement(users=frozenset({"ada"}))
        pool = spec(least=1, spare=1, most=3, kind=PoolKind.DEDICATED, entitlement=staff)
        world.engine.put_pool(pool)
        pool_cycle.step(world.engine)
        desktop_assignment.assign(world.engine, "cad", "ada", frozenset())
        pool_cycle.step(world.engine)
        self.rounds = self.new_rounds()

    def new_rounds(self, **options: bool) -> TelemetryRound:
        return TelemetryRound(self.world.engine, SerialWorkers(), TelemetryOptions(**options))

    def read(self, **options: bool) -> Read:
        """A round of its own."""
        return Read(self.new_rounds(**options).take().text)

    def inject(self, name: str, *words: str) -> None:
        self.world.sim.inject(name, list(words))

    def close(self) -> None:
        self.world.close()


def made(folder: Path) -> Iterator[Fleet]:
    fleet = Fleet(folder)
    yield fleet
    fleet.close()
