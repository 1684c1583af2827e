"""The command of an experiment with a pool: runs it, prints the page, writes JSON and charts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.placement.checker import InvalidPlacement
from benchmarks.placement.curves import Picture
from benchmarks.placement.document import text
from benchmarks.placement.options import count, seeds, typed
from benchmarks.placement.pools.experiment import JOB, Experiment, Job, bounds, measure_all
from benchmarks.placement.pools.summary import report, summary
from benchmarks.placement.report import drawn
from benchmarks.placement.run import WORKERS


def main(experiment: Experiment, argv: Sequence[str] | None, about: str | None) -> int:
    """The exit status: 2 where a file cannot be written, 1 where a policy broke a rule."""
    args = _parser(experiment, about).parse_args(argv)
    chosen = replace(experiment, gpus=args.gpus, lasting=args.lasting)
    try:
        _run(chosen, args)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except InvalidPlacement as error:
        print(f"invalid: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _run(experiment: Experiment, args: argparse.Namespace) -> None:
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.touch()
    jobs = [Job(*each) for each in product(args.mix, args.load, args.seeds, args.policy)]
    results = _found_in(args.json, experiment, jobs) if args.resume else {}
    missing = [job for job in jobs if job not in results]
    found = measure_all(experiment, missing, args.workers)
    for job, result in zip(missing, found, strict=True):
        results[job] = result
        print(f"{len(results)}/{len(jobs)} {job.mix} {job.load:g} {job.policy}", file=sys.stderr)
        if args.json:
            args.json.write_text(text(_head(experiment, _in_order(jobs, results))), "utf-8")
    rows = _in_order(jobs, results)
    document = {
        **_head(experiment, rows),
        "bound": bounds(experiment, jobs), "summary": summary(rows, experiment.base),
    }  # fmt: skip
    page = list(report(document))
    print("\n".join(page))
    if args.json:
        args.json.write_text(text(document), encoding="utf-8")
    if args.report:
        args.report.mkdir(parents=True, exist_ok=True)
        page += drawn(args.report, experiment.name, _pictures(document))
        (args.report / f"{experiment.name}.md").write_text("\n".join(page) + "\n", encoding="utf-8")


def _head(experiment: Experiment, results: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": experiment.name, "gpus": experiment.gpus, "lifetimes": experiment.lasting,
        "warm_up": experiment.warm, "base": experiment.base, "results": results,
    }  # fmt: skip


def _in_order(jobs: Sequence[Job], results: Mapping[Job, dict[str, Any]]) -> list[dict[str, Any]]:
    return [results[job] for job in jobs if job in results]


def _found_in(
    file: Path | None, experiment: Experiment, jobs: Sequence[Job]
) -> dict[Job, dict[str, Any]]:
    """What an earlier run of the same experiment has found; raises OSError for anything else."""
    if file is None or not file.stat().st_size:
        return {}
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        found = {Job(*(row[key] for key in JOB)): row for row in document["results"]}
        same = {**document, **_head(experiment, document["results"])} == document
    except (ValueError, KeyError, TypeError):
        same = False
    if not same or found.keys() - set(jobs):
        raise OSError(f"{file} has results of other runs; leave --resume out, or ask for the same")
    return found


def _pictures(document: Mapping[str, Any]) -> Iterator[Picture]:
    """Per mix, what is accepted by offered load; nothing where there is one load."""
    rows = document["summary"]
    if len({row["load"] for row in rows}) < 2:
        return
    for mix in dict.fromkeys(row["mix"] for row in rows):
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            if row["mix"] == mix:
                lines.setdefault(row["policy"], []).append((row["load"], row["units_pct"]))
        lowest = min(value for line in lines.values() for _, value in line)
        axes = ("offered load, of the GPUs", "accepted GPU, %")
        yield Picture(mix, f"{mix}: accepted by load", axes, lines, float(int(lowest)))


def _parser(experiment: Experiment, about: str | None) -> argparse.ArgumentParser:
    names, mixes = list(experiment.policies), list(experiment.board().mixes)
    words = argparse.ArgumentParser(
        prog=f"python -m benchmarks.placement.{experiment.name}",
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    words.add_argument("--mix", nargs="+", choices=mixes, default=experiment.mixes)
    words.add_argument("--load", nargs="+", type=typed(_positive), default=experiment.loads)
    words.add_argument("--seeds", type=typed(seeds), default=seeds("42-46"), help="42-46, or 42,44")
    words.add_argument("--policy", nargs="+", choices=names, default=names)
    words.add_argument("--gpus", type=typed(count), default=experiment.gpus)
    words.add_argument("--lasting", type=typed(_positive), default=experiment.lasting,
                       metavar="LIFETIMES")  # fmt: skip
    words.add_argument("--workers", type=typed(count), default=WORKERS)
    words.add_argument("--json", type=Path, metavar="OUT")
    words.add_argument("--resume", action="store_true", help="run only what OUT does not have")
    words.add_argument("--report", type=Path, metavar="DIR", help="a page and charts")
    return words


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ValueError(f"{text!r} is not a number above 0")
    return value
