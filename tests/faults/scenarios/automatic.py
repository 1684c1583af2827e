"""VMs on GPUs that are partitioned for them, where nobody wrote a layout."""

from __future__ import annotations

from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import Place, Prepare, Scenario
from tests.faults.scenarios.ways import FRESH, MDEV
from tests.simworld import NEW, host, vm
from vgpumgr.model.host import AUTO, Versions

# part: board, versions, what was there before and is deleted, what the VMs ask for
PARTS: dict[str, tuple[str, Versions, str, tuple[str, ...]]] = {
    "vfs": ("L40S", NEW, "", ("L40S-8Q",)),
    "vfs of an mdev-era board": ("A40", MDEV, "", ("A40-8Q",)),
    "mig": ("A100-PCIE-80GB", NEW, "", ("3g.40gb",)),
    "mixed size": ("L40S", NEW, "", ("L40S-8Q", "L40S-12Q")),
    "vfs to mig": ("A100-PCIE-80GB", NEW, "A100D-10C", ("1g.10gb",)),
    "vfs to passthrough": ("L40S", NEW, "L40S-8Q", ("passthrough",)),
}


def _from(before: str) -> Prepare:
    def prepare(place: Place) -> None:
        place.enrol("h1")
        ledger = place.app.writable_ledger
        ledger.update_host(replace(ledger.host("h1"), layout=AUTO))
        if before:
            place.apply(vm("before", before))
            place.engine.delete(["before"], keep_disks=False, force=True).raise_for_failure()

    return prepare


def _of(part: str, board: str, versions: Versions, before: str, asked: tuple[str, ...]) -> Scenario:
    desks = [vm(f"desk{n}", each, disks=(FRESH,)) for n, each in enumerate(asked)]
    return Scenario(
        operation="create with layout",
        part=part,
        hosts=(host(board, versions=versions),),
        command=commands.apply(*desks),
        prepare=(_from(before),),
        several=len(desks) > 1,
    )


SCENARIOS = tuple(_of(part, *way) for part, way in PARTS.items())
