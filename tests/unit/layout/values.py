"""GPUs and a model of their driver for the tests of layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vgpumgr import catalog, layout
from vgpumgr.layout.instance_profiles import profiles
from vgpumgr.model.gpu import ComputeInstance, GpuFacts, GpuInstance, MigFacts, PowerFacts, VfFacts
from vgpumgr.model.layout import (
    CreateInstance,
    DestroyInstance,
    LockClocks,
    PartChange,
    Scheduler,
    SetMigMode,
    SetMixedSize,
    SetPowerLimit,
    SetScheduler,
    SetVfs,
)

DEVICE = "0000:41:00.0"


class Refused(Exception):
    """The driver says no."""


@dataclass
class Driver:
    """The driver of one GPU: state and refusals as in behaviour §4, §6, §7 and §8.

    ``instances`` are (profile name, compute ids) by first slice.
    """

    board: str
    vfs: int = 0
    enabled: bool = False
    pending: bool = False
    mixed: bool = False
    policy: str = "best-effort"
    limit: int = 250
    clocks: tuple[int, ...] = ()
    instances: dict[int, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """VFs of the board."""
        return {"RTX-PRO-6000-BSE": 48, "T4": 16}.get(self.board, 32)

    def facts(self, **changes: object) -> GpuFacts:
        """What a probe shows."""
        board = catalog.board(self.board)
        assert board is not None
        capable = catalog.mig(board) is not None
        seen = GpuFacts(
            device=DEVICE,
            path=f"/sys/{DEVICE}",
            model=self.board,
            vendor_device=board.vendor_device,
            uuid="GPU-1",
            driver="nvidia",
            sriov_total=self.total,
            vfs=tuple(VfFacts(number=n, address=f"0000:41:01.{n}") for n in range(self.vfs)),
            mig=MigFacts(enabled=self.enabled, pending=self.pending) if capable else None,
            mixed_size=self.mixed if board.mixed_size and not self.enabled else None,
            scheduler=None if self.enabled else self.policy,
            power=PowerFacts(
                limit_w=self.limit,
                default_w=250,
                least_w=100,
                most_w=300,
                locked_clocks=self.clocks,
            ),
        )
        if seen.mig is not None:
            seen = replace(seen, mig=replace(seen.mig, instances=self._instances(seen)))
        return replace(seen, **changes)  # type: ignore[arg-type]

    def run(self, change: PartChange) -> None:
        """Do it, or refuse like the driver."""
        match change:
            case SetMigMode():
                self._set_mig_mode(change)
            case SetVfs():
                self._set_vfs(change)
            case SetMixedSize():
                self._set_mixed_size(change)
            case SetScheduler():
                self._set_scheduler(change)
            case CreateInstance():
                self._create(change)
            case DestroyInstance():
                self._destroy(change)
            case SetPowerLimit():
                _refuse(not 100 <= change.watts <= 300, "invalid argument")
                self.limit = change.watts
            case LockClocks():
                self.clocks = change.range

    def _instances(self, seen: GpuFacts) -> tuple[GpuInstance, ...]:
        known = profiles(seen)
        return tuple(
            GpuInstance(
                id=start + 7,
                profile=name,
                profile_id=known[name].id,
                start=start,
                size=known[name].size,
                compute=tuple(ComputeInstance(id=n, profile_id=c) for n, c in enumerate(compute)),
            )
            for start, (name, compute) in sorted(self.instances.items())
        )

    def _rebound(self) -> None:
        self.instances, self.mixed, self.policy = {}, False, "best-effort"
        self.limit, self.clocks = 250, ()

    def _set_mig_mode(self, change: SetMigMode) -> None:
        _refuse(self.facts().mig is None, "no MIG")
        _refuse(self.vfs, "in use by another client: VFs are on")
        _refuse(self.instances, "instances are left")
        self.enabled = self.pending = change.enabled
        self._rebound()

    def _set_vfs(self, change: SetVfs) -> None:
        _refuse(change.count not in {0, self.total}, "all or none")
        _refuse(self.vfs and change.count not in {0, self.vfs}, "EBUSY")
        if change.count != self.vfs:
            self.vfs = change.count
            self._rebound()

    def _set_mixed_size(self, change: SetMixedSize) -> None:
        _refuse(self.facts().mixed_size is None, "not supported")
        _refuse(not self.vfs, "silently lost")
        _refuse(change.enabled and self.policy == "fixed-share", "never fixed share")
        self.mixed = change.enabled

    def _set_scheduler(self, change: SetScheduler) -> None:
        fixed = change.policy is Scheduler.FIXED_SHARE
        _refuse(self.enabled, "no scheduler with MIG on")
        _refuse(self.mixed and fixed, "never fixed share")
        self.policy = str(change.policy)

    def _create(self, change: CreateInstance) -> None:
        _refuse(not self.enabled, "MIG is off")
        known = profiles(self.facts())
        profile = known[change.profile]
        taken = {
            start + n
            for start, (name, _) in self.instances.items()
            for n in range(known[name].size)
        }
        there = [known[name] for name, _ in self.instances.values()]
        board = catalog.board(self.board)
        assert board is not None
        grid = catalog.mig(board)
        assert grid is not None
        span = set(range(change.start, change.start + change.size))
        _refuse(change.start not in profile.starts, "no such placement")
        _refuse((profile.id, profile.size) != (change.profile_id, change.size), "another profile")
        _refuse(taken & span, "insufficient resources: overlap")
        slices = sum(each.gpu_slices for each in there) + profile.gpu_slices
        _refuse(slices > grid.gpu_slices, "insufficient resources: slices")
        _refuse(profile.media and any(each.media for each in there), "one +me per GPU")
        self.instances[change.start] = (change.profile, tuple(sorted(change.compute)))

    def _destroy(self, change: DestroyInstance) -> None:
        found = self.instances.get(change.start)
        _refuse(found is None or found[0] != change.profile, "another instance")
        _refuse(change.id != change.start + 7, "another id")
        del self.instances[change.start]


def _refuse(condition: object, why: str) -> None:
    if condition:
        raise Refused(why)


@dataclass
class DriverHelper:
    """The helper's layout verbs over a Driver, to see that verbs and looks agree."""

    driver: Driver
    calls: list[str] = field(default_factory=list)

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        self.calls.append(verb)
        told = dict(args)
        assert told.pop("gpu") == DEVICE
        return getattr(self, f"_{verb}")(**told) or {}

    def _gpu_look(self) -> dict[str, object]:
        facts = self.driver.facts()
        return {"device": {"sriov": _sriov(facts)}, "nvml": _nvml(facts)}

    def _mig_mode_set(self, enabled: bool) -> None:
        self.driver.run(SetMigMode(enabled=enabled))

    def _vfs_set(self, count: int) -> None:
        self.driver.run(SetVfs(count=count))

    def _mixed_size_set(self, enabled: bool) -> None:
        self.driver.run(SetMixedSize(enabled=enabled))

    def _scheduler_set(self, policy: str) -> None:
        self.driver.run(SetScheduler(policy=Scheduler(policy)))

    def _power_limit_set(self, watts: int) -> None:
        self.driver.run(SetPowerLimit(watts=watts, before=self.driver.limit))

    def _clocks_lock(self, range: list[int]) -> None:
        self.driver.run(LockClocks(range=tuple(range), before=self.driver.clocks))

    def _gi_create(self, profile_id: int, start: int, size: int, compute: list[int]) -> None:
        name = next(
            n
            for n, p in profiles(self.driver.facts()).items()
            if (p.id, p.size) == (profile_id, size)
        )
        self.driver.run(
            CreateInstance(
                profile=name, profile_id=profile_id, start=start, size=size, compute=tuple(compute)
            )
        )

    def _gi_destroy(self, id: int, profile_id: int, start: int) -> None:
        name = next(n for n, p in profiles(self.driver.facts()).items() if p.id == profile_id)
        self.driver.run(DestroyInstance(id=id, profile=name, profile_id=profile_id, start=start))


def _sriov(facts: GpuFacts) -> dict[str, Any]:
    vfs = [{"number": each.number, "address": each.address} for each in facts.vfs]
    return {"total": facts.sriov_total, "num": len(vfs), "vfs": vfs}


def _nvml(facts: GpuFacts) -> dict[str, Any]:
    mig: dict[str, Any] | None = None
    if facts.mig is not None:
        mig = {
            "enabled": facts.mig.enabled,
            "pending": facts.mig.pending,
            "instances": [
                {
                    "id": each.id,
                    "profile": each.profile,
                    "profile_id": each.profile_id,
                    "start": each.start,
                    "size": each.size,
                    "compute": [{"id": c.id, "profile_id": c.profile_id} for c in each.compute],
                }
                for each in facts.mig.instances or ()
            ],
        }
    power = facts.power
    return {
        "mig": mig,
        "mixed_size": facts.mixed_size,
        "scheduler": facts.scheduler,
        "power": power and {"limit_w": power.limit_w, "locked_clocks": [*power.locked_clocks]},
    }


def run(driver: Driver, changes: tuple[PartChange, ...]) -> None:
    """Look, act, look again, as the engine does; and predict each state on the way."""
    helper = DriverHelper(driver)
    for change in changes:
        layout.act(helper, DEVICE, change)
        seen = layout.look(helper, DEVICE, change)
        assert repr(seen) == "InState()", (change, seen)
