"""Mixed demand on empty hosts without a Layout, beside the optimum; JSON out.

python -m benchmarks.auto_layouts --json OUT [--seeds 6] [--load 1.1]

Two simulated hosts with A100, L40S and A40 boards; MIG slices, vGPUs of several sizes and whole
GPUs are asked for at random, in all ``load`` times the memory that there is. The demand comes VM by
VM, and as one order: on hosts with automatic layouts, and where half of the A100 have MIG mode and
all others VFs by a Layout. A share is of the GPU memory that the best partitioning would serve
(CP-SAT, over all that one GPU makes together).
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.placement.solver import Solver
from tests.simworld import NEW, SimWorld, host, vm
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.planning.hypothetical_layouts import goals, with_layouts
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.gpu import Framework
from vgpumgr.model.host import AUTO
from vgpumgr.model.layout import VFS_MAX, GpuLayout, LayoutRule, LayoutSpec
from vgpumgr.model.supply import GpuSupply
from vgpumgr.model.vm import GpuRequest, VmSpec

BOARDS = {"A100-PCIE-80GB": 6, "L40S": 4, "A40": 2}
# Parts with their memory in GiB: what is asked for, and how often.
PARTS: Mapping[str, tuple[int, int]] = {
    "1g.10gb": (10, 6),
    "2g.20gb": (20, 3),
    "3g.40gb": (40, 2),
    "A100D-10C": (10, 6),
    "A100D-20C": (20, 3),
    "A100D-40C": (40, 2),
    "L40S-8Q": (8, 8),
    "L40S-12Q": (12, 4),
    "L40S-24Q": (24, 2),
    "A40-8Q": (8, 4),
    "A40-12Q": (12, 2),
    "passthrough": (80, 1),
}
_MEMORY = {"A100-PCIE-80GB": 80, "L40S": 48, "A40": 48}
Pattern = Counter[str]


def demand(seed: int, load: float) -> list[VmSpec]:
    """VMs with one part each, in the order in which they come."""
    chance = random.Random(seed)
    left = load * sum(_MEMORY[board] * count for board, count in BOARDS.items())
    found: list[VmSpec] = []
    while left > 0:
        [part] = chance.choices(list(PARTS), [often for _, often in PARTS.values()])
        found.append(_asked(f"vm-{len(found)}", part))
        left -= PARTS[part][0]
    return found


def _asked(name: str, part: str) -> VmSpec:
    if part != "passthrough":
        return vm(name, part)
    return replace(vm(name), gpus=(GpuRequest(profile=part, model="A100-PCIE-80GB"),))


def served(seed: int, load: float, *, automatic: bool, at_once: bool) -> dict[str, Any]:
    """What is served, in GiB, and how many layouts there are at the end."""
    with tempfile.TemporaryDirectory(prefix="auto-layouts-") as folder:
        world = _world(Path(folder))
        try:
            _prepare(world, automatic=automatic)
            wanted = demand(seed, load)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            for order in [wanted] if at_once else [[each] for each in wanted]:
                with suppress(VgpumgrError):
                    world.engine.apply(order, partial=True)
            cpu = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
            made = [each.spec.gpus[0].profile for each in world.ledger.vms()]
            return {
                "gib": sum(PARTS[part][0] for part in made),
                "vms": len(made),
                "layouts": len(world.ledger.layouts()),
                "cpu_s": round(cpu, 2),
            }
        finally:
            world.close()


def _world(folder: Path) -> SimWorld:
    """Half of the boards on each host."""
    half = [board for board, count in BOARDS.items() for _ in range(count // 2)]
    return SimWorld(folder, *(host(*half, versions=NEW, name=name) for name in ("h1", "h2")))


def _prepare(world: SimWorld, *, automatic: bool) -> None:
    world.engine.refresh()
    for record in world.ledger.hosts():
        if automatic:
            world.ledger.update_host(replace(record, layout=AUTO))
            continue
        devices = [g.facts.device for g in world.ledger.gpus(record.name) if g.facts.mig]
        rules = (
            LayoutRule(layout=GpuLayout(mig=True, vfs=VFS_MAX), devices=tuple(devices[::2])),
            LayoutRule(layout=GpuLayout(vfs=VFS_MAX, mixed_size=True), models=("L40S",)),
            LayoutRule(layout=GpuLayout(vfs=VFS_MAX)),
        )
        spec = LayoutSpec(name=record.name, hosts=(record.name,), rules=rules)
        world.engine.layout_apply([spec])[1].raise_for_failure()
    world.engine.refresh()


def patterns() -> dict[str, list[Pattern]]:
    """By board: all that one GPU makes together, over all of its layouts, the most of each."""
    with tempfile.TemporaryDirectory(prefix="auto-layouts-") as folder:
        world = SimWorld(Path(folder), host(*BOARDS, versions=NEW))
        world.engine.refresh()
        view = world.engine.view()
        found = {}
        for gpu in view.gpus:
            ways = [view, *(with_layouts(view, {gpu.id: goal}) for goal in goals(gpu.facts))]
            supplies = [
                each for way in ways for each in build_fleet(way).hosts[0].gpus if each.id == gpu.id
            ]
            every = {frozenset(p.items()): p for s in supplies for p in _made_by(s)}
            found[gpu.facts.model] = list(every.values())
        world.close()
    return found


def _made_by(gpu: GpuSupply) -> Iterator[Pattern]:
    offers = [each for each in gpu.offers if {each.profile, *each.names} & PARTS.keys()]
    for each in offers:
        if each.framework is Framework.PASSTHROUGH:
            if not gpu.passthrough_blocked and gpu.model == "A100-PCIE-80GB":
                yield Counter({each.profile: 1})
        elif not each.starts:
            yield Counter({each.profile: each.max_instances})
    placed = [
        (each.profile, frozenset(start.slots), each.instance.gpu_slices if each.instance else 0)
        for each in offers
        for start in each.starts
    ]
    yield from _packed(placed, gpu.gpu_slices)


def _packed(placed: list[tuple[str, frozenset[int], int]], slices: int) -> Iterator[Pattern]:
    """Every set of places that do not overlap, as counts, the larger of two alone."""
    seen: set[tuple[frozenset[int], frozenset[tuple[str, int]]]] = set()

    def more(taken: frozenset[int], left: int, made: Pattern) -> Iterator[Pattern]:
        key = taken, frozenset(made.items())
        if key in seen:
            return
        seen.add(key)
        full = True
        for part, slots, needed in placed:
            if not slots & taken and needed <= left:
                full = False
                yield from more(taken | slots, left - needed, made + Counter({part: 1}))
        if full and made:
            yield made

    yield from more(frozenset(), slices, Counter())


def compared(seeds: int, load: float) -> dict[str, Any]:
    """Every seed in every way, with its share of the optimum."""
    boards = {name: {"count": BOARDS[name], "patterns": made} for name, made in patterns().items()}
    rows = []
    with Solver("benchmarks.auto_layouts_optimum") as solver:
        for seed in range(seeds):
            wanted = Counter(each.gpus[0].profile for each in demand(seed, load))
            problem = {
                "boards": boards,
                "demand": wanted,
                "weight": {part: PARTS[part][0] for part in wanted},
            }
            best = solver.ask(problem)
            for automatic in (True, False):
                for at_once in (False, True):
                    found = served(seed, load, automatic=automatic, at_once=at_once)
                    share = round(found["gib"] / best["most"], 4)
                    way = {"automatic": automatic, "at_once": at_once, "share": share}
                    rows.append({"seed": seed, **way, **found, **best})
                    print(json.dumps(rows[-1]), flush=True)
    return {"load": load, "shares": _shares(rows), "rows": rows}


def _shares(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The mean share of each way."""
    found: dict[str, list[float]] = {}
    for row in rows:
        layout = "automatic" if row["automatic"] else "declared"
        name = f"{layout}, {'one order' if row['at_once'] else 'VM by VM'}"
        found.setdefault(name, []).append(row["share"])
    return {name: round(statistics.mean(shares), 4) for name, shares in found.items()}


def main() -> None:
    """Run it."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--json", type=Path, required=True, metavar="OUT")
    words.add_argument("--seeds", type=int, default=6)
    words.add_argument("--load", type=float, default=1.1)
    given = words.parse_args()
    found = compared(given.seeds, given.load)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["shares"], indent=1))


if __name__ == "__main__":
    main()
