"""How fast decisions are, with every rule on, beside two rivals; JSON out.

python -m benchmarks.placement.speed --hosts 100 1213 10000 50000 --json OUT

Each size and load runs in a process of its own, one after the other: memory is that of the product
alone, before the rivals begin. ``answer`` is until a place is named, ``decision`` until the fleet
has taken it in too, which can be done once the answer is out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.placement.speeds.fleet import full_fleet, tiled, types_of
from benchmarks.placement.speeds.load import Load
from benchmarks.placement.speeds.ours import ours
from benchmarks.placement.speeds.rivals import RIVALS, against
from benchmarks.placement.summary import DATA
from benchmarks.placement.traces import read_hosts, read_tasks

DECISIONS, HISTORY, SEED = 3000, 2000, 7
LOADS = 0.0, 0.8
HELD = 0.1
"""As many VMs as that share of the GPUs come on top of the load; then for each the oldest goes."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    args = _parser().parse_args(argv)
    rows = []
    for hosts in args.hosts:
        for load in args.load:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                rows.append(fresh.submit(measured, hosts, load, args.decisions).result())
            print(_line(rows[-1]), file=sys.stderr)
    document = {"machine": _machine(), "decisions": args.decisions, "results": rows}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


def measured(count: int, load: float, decisions: int) -> dict[str, Any]:
    """One size at one load."""
    types = types_of(read_tasks(DATA / "openb_pod_list_gpuspec20.csv.gz"))
    hosts = tiled(read_hosts(DATA / "openb_node_list_gpu_node.csv.gz"), count)
    lying = Load(hosts, types.shapes)
    lying.fill(load, types.draw(10_000, SEED + 1), SEED)
    fleet = full_fleet(hosts, types, lying)
    cluster = lying.cluster
    del lying
    kinds = types.draw(decisions, SEED)
    most = max(1, int(HELD * cluster.counts.sum()))
    found = ours(fleet, types, types.draw(HISTORY, SEED + 2), kinds, most)
    rivals = {name: against(kind, cluster, kinds, most) for name, kind in RIVALS.items()}
    medians = {name: each["decision"]["cpu_us"]["median"] for name, each in rivals.items()}
    mine = found["decision"]["cpu_us"]["median"]
    return {
        "hosts": count, "load": load, "vgpumgr": found, **rivals,
        "times_faster": {name: round(value / mine, 2) for name, value in medians.items()},
    }  # fmt: skip


def _machine() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(), "load_average": os.getloadavg()[0], "numpy": np.__version__,
        "python": platform.python_version(),
    }  # fmt: skip


def _line(row: dict[str, Any]) -> str:
    ours = row["vgpumgr"]
    answer, whole = ours["answer"]["cpu_us"], ours["decision"]["cpu_us"]
    return (
        f"{row['hosts']} hosts at {row['load']:.0%}: answer {answer['median']} µs, decision "
        f"{whole['median']} µs (p99 {whole['p99']}), {ours['per_second']['cpu']}/s, "
        f"{ours['rss_mib']['all']} MiB, times faster: {row['times_faster']}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.placement.speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--hosts", nargs="+", type=int, default=[100, 1213, 10_000, 50_000])
    parser.add_argument("--load", nargs="+", type=float, default=LOADS, help="0 to 0.9")
    parser.add_argument("--decisions", type=int, default=DECISIONS)
    parser.add_argument("--json", type=Path, required=True, metavar="OUT")
    return parser


if __name__ == "__main__":
    sys.exit(main())
