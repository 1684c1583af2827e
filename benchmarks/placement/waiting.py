"""Waiting time on replay with departures, against FIFO and EASY backfill; JSON out.

python -m benchmarks.placement.waiting --loads 0.8 0.95 1.1 --seeds 42-46 --json OUT
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.placement.options import seeds as seeds_of
from benchmarks.placement.queueing.arms import ARMS
from benchmarks.placement.queueing.figures import figures, summary
from benchmarks.placement.queueing.replay import replay
from benchmarks.placement.queueing.scene import make_scene
from benchmarks.placement.sequences import history
from benchmarks.placement.summary import DATA
from benchmarks.placement.traces import read_hosts, read_tasks
from vgpumgr.model.queue import QueueRules

HISTORY = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """One policy over one scene."""

    policy: str
    load: float
    seed: int
    workload: Path
    hosts: Path
    one_in: int
    noise: float
    requests: int | None


def run(job: Job) -> dict[str, Any]:
    """One result, as the JSON has it; raises ``InvalidPlacement``."""
    tasks = read_tasks(job.workload)
    scene = make_scene(
        read_hosts(job.hosts),
        tasks,
        job.seed,
        job.load,
        one_in=job.one_in,
        noise=job.noise,
        requests=job.requests,
    )
    past = [task.shape for task in history(tasks, HISTORY, job.seed)]
    found = figures(scene, replay(ARMS[job.policy](scene, past), scene))
    return {"policy": job.policy, "load": job.load, "seed": job.seed, **found}


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    args = _parser().parse_args(argv)
    jobs = [
        Job(policy, load, seed, args.workload, args.hosts, args.one_in, args.noise, args.requests)
        for seed in args.seeds
        for load in args.loads
        for policy in args.policies
    ]
    results: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.workers, mp_context=context) as pool:
        for done, future in enumerate(as_completed([pool.submit(run, job) for job in jobs]), 1):
            result = future.result()
            results.append(result)
            line = f"{result['policy']} {result['load']} {result['seed']}"
            print(f"{done}/{len(jobs)} {line}: {result['waited_s']['mean']} s", file=sys.stderr)
            _write(args, results)
    return 0


def _write(args: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    """What is known by now, so that nothing is lost when the rest is not waited for."""
    results.sort(key=lambda r: (r["load"], args.policies.index(r["policy"]), r["seed"]))
    document = {
        "workload": args.workload.name,
        "fleet": f"one host in {args.one_in}",
        "bounds": f"lifetime times 1 to {args.noise:g}",
        "rules": asdict(QueueRules()),
        "cpus": os.cpu_count(),
        "summary": summary(results),
        "results": results,
    }
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(_text(document), encoding="utf-8")


def _text(document: dict[str, Any]) -> str:
    """JSON with a line per result, so that a diff can be read."""
    lines = ",\n".join(json.dumps(result) for result in document["results"])
    rest = json.dumps({**document, "results": []}, indent=1)
    return rest.replace('"results": []', f'"results": [\n{lines}\n]', 1) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.placement.waiting",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--loads", type=float, nargs="+", default=(0.8, 0.95, 1.1))
    parser.add_argument("--seeds", type=seeds_of, default=(42,), help="42-46, or 42,44")
    parser.add_argument("--policies", nargs="+", choices=list(ARMS), default=list(ARMS)[:4])
    parser.add_argument("--workload", type=Path, default=DATA / "openb_pod_list_default.csv.gz")
    parser.add_argument("--hosts", type=Path, default=DATA / "openb_node_list_gpu_node.csv.gz")
    parser.add_argument("--one-in", type=int, default=8, help="hosts of the file that are used (8)")
    parser.add_argument("--noise", type=float, default=10.0, help="users guess up to so many times")
    parser.add_argument("--requests", type=int, help="how many come (as many as there are tasks)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, required=True, metavar="OUT")
    return parser


if __name__ == "__main__":
    sys.exit(main())
