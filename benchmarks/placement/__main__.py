"""Placement policies over arrival sequences made from a trace; JSON out.

python -m benchmarks.placement --workload FILE --hosts FILE --seeds 42-46 --json OUT

The files are CSV, plain or gzipped, with the columns of the openb trace. A workload is also the
name of one that lies here (default, cpu250, …) or under --traces. Of workloads, variants and
histories give several to run them all.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.placement.checker import InvalidPlacement
from benchmarks.placement.document import text
from benchmarks.placement.options import parser
from benchmarks.placement.policies import knows_history
from benchmarks.placement.report import write_report
from benchmarks.placement.resuming import found_in, missing
from benchmarks.placement.run import BOUND, Job, run_all
from benchmarks.placement.summary import DATA, summary
from benchmarks.placement.traces import TraceError

PREFIX = "openb_pod_list_"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 2 where a file or a word cannot be used, 1 where a policy broke a rule."""
    args = parser(__doc__).parse_args(argv)
    try:
        _run(args)
    except (TraceError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except InvalidPlacement as error:
        print(f"invalid: {error}", file=sys.stderr)
        return 1
    return 0


def _run(args: argparse.Namespace) -> None:
    files = _files(args.workload, args.traces)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    results, bounds = found_in(args.json) if args.resume else ([], {})
    jobs = missing(_jobs(args, files), results, bounds)
    args.json.touch()
    try:
        for done, (job, result) in enumerate(run_all(jobs, args.workers), start=1):
            print(f"{done}/{len(jobs)} {job.name} {job.variant} {job.seed} {job.policy}",
                  file=sys.stderr)  # fmt: skip
            if job.policy == BOUND:
                bounds.setdefault(job.name, {})[str(job.seed)] = result
            else:
                results.append(result)
    finally:  # a run of hours that one job ends keeps what the others found
        _write(args, list(files), results, bounds)


def _write(
    args: argparse.Namespace,
    files: Sequence[str],
    results: list[dict[str, Any]],
    bounds: Mapping[str, dict[str, Any]],
) -> None:
    results.sort(key=_order(args, files))
    document = {
        "cpus": os.cpu_count(),
        "results": results,
        "bound": {name: dict(sorted(bounds[name].items())) for name in files if name in bounds},
        "summary": summary(results),
    }
    args.json.write_text(text(document), encoding="utf-8")
    if args.report:
        write_report(args.report, args.json.stem, document)


def _order(args: argparse.Namespace, names: Sequence[str]) -> Callable[[dict[str, Any]], Any]:
    """As asked for, not as they ended."""
    variants = [str(variant) for variant in args.variant]

    def key(result: dict[str, Any]) -> tuple[Any, ...]:
        known = 0 if result["history"] is None else args.history.index(result["history"])
        return (
            names.index(result["workload"]),
            variants.index(result["variant"]),
            args.policies.index(result["policy"]),
            known,
            result["seed"],
        )

    return key


def _jobs(args: argparse.Namespace, files: Mapping[str, Path]) -> list[Job]:
    """Bounds are of the first variant without departures: all of those hold the same tasks."""
    jobs = [
        Job(name, file, args.hosts, seed, policy, history, variant)
        for name, file in files.items()
        for variant in args.variant
        for policy in args.policies
        for history in (args.history if knows_history(policy) else args.history[:1])
        for seed in args.seeds
    ]
    bounded = [variant for variant in args.variant if not variant.load][:1]
    if args.no_bound:
        return jobs
    return jobs + [
        Job(name, file, args.hosts, seed, BOUND, 0.0, variant)
        for name, file in files.items()
        for variant in bounded
        for seed in args.seeds
    ]


def _files(words: Sequence[str], traces: Path | None) -> dict[str, Path]:
    """The workloads by name; raises ``TraceError`` where one is missing or two are called alike."""
    files: dict[str, Path] = {}
    for file in dict.fromkeys(_found(word, traces) for word in words):
        if _name(file) in files:
            raise TraceError(f"{files[_name(file)]} and {file} are called alike; rename one")
        files[_name(file)] = file
    return files


def _found(word: str, traces: Path | None) -> Path:
    """The file of that path or name."""
    if Path(word).is_file():
        return Path(word)
    names = (word, f"{word}.csv", f"{word}.csv.gz", f"{PREFIX}{word}.csv.gz")
    for folder in (DATA, *([traces] if traces else [])):
        for name in names:
            for file in sorted(folder.rglob(name)):
                return file
    raise TraceError(f"no workload {word}: neither a file nor a name under {DATA} or --traces")


def _name(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".csv").removeprefix(PREFIX)


if __name__ == "__main__":
    sys.exit(main())
