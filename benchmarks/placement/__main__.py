"""Placement policies over arrival sequences made from a trace; JSON out.

python -m benchmarks.placement --workload FILE --hosts FILE --seeds 42-46 --json OUT

The files are CSV, plain or gzipped, with the columns of the openb trace. A workload is also the
name of one that lies here (default, cpu250, …) or under --traces. Give several to run them all.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from benchmarks.placement.checker import InvalidPlacement
from benchmarks.placement.policies import DEFAULT, NAMES
from benchmarks.placement.report import write_report
from benchmarks.placement.run import BOUND, WORKERS, Job, Variant, run_all
from benchmarks.placement.summary import DATA, summary
from benchmarks.placement.traces import TraceError

PREFIX = "openb_pod_list_"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 2 where a file or a word cannot be used, 1 where a policy broke a rule."""
    args = _parser().parse_args(argv)
    try:
        _run(args)
    except (TraceError, BrokenProcessPool) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except InvalidPlacement as error:
        print(f"invalid: {error}", file=sys.stderr)
        return 1
    return 0


def _run(args: argparse.Namespace) -> None:
    jobs = _jobs(args)
    results: list[dict[str, Any]] = []
    bounds: dict[str, dict[str, Any]] = {}
    for done, (job, result) in enumerate(run_all(jobs, args.workers), start=1):
        print(f"{done}/{len(jobs)} {job.name} {job.seed} {job.policy}", file=sys.stderr)
        if job.policy == BOUND:
            bounds.setdefault(job.name, {})[str(job.seed)] = result
        else:
            results.append(result)
    order = {name: number for number, name in enumerate(args.workload)}
    ranks = {name: number for number, name in enumerate(NAMES)}
    results.sort(key=lambda r: (order.get(r["workload"], 0), ranks[r["policy"]], r["seed"]))
    document = {
        "history": args.history,
        "variant": args.variant,
        "cpus": os.cpu_count(),
        "results": results,
        "bound": {name: dict(sorted(found.items())) for name, found in bounds.items()},
        "summary": summary(results),
    }
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(_text(document), encoding="utf-8")
    if args.report:
        write_report(args.report, document)


def _text(document: dict[str, Any]) -> str:
    """JSON with a line per result, so that a diff can be read."""
    lines = ",\n".join(json.dumps(result) for result in document["results"])
    rest = json.dumps({**document, "results": []}, indent=1)
    return rest.replace('"results": []', f'"results": [\n{lines}\n]', 1) + "\n"


def _jobs(args: argparse.Namespace) -> list[Job]:
    variant = Variant.parse(args.variant)
    policies = [*args.policies, *([] if args.no_bound or variant.load else [BOUND])]
    files = [_found(text, args.traces) for text in args.workload]
    return [
        Job(_name(file), file, args.hosts, seed, policy, args.history, variant)
        for file in files
        for seed in args.seeds
        for policy in policies
    ]


def _found(text: str, traces: Path | None) -> Path:
    """The file of that path or name."""
    if Path(text).is_file():
        return Path(text)
    names = (text, f"{text}.csv", f"{text}.csv.gz", f"{PREFIX}{text}.csv.gz")
    for folder in (DATA, *([traces] if traces else [])):
        for name in names:
            for file in sorted(folder.rglob(name)):
                return file
    raise TraceError(f"no workload {text}: neither a file nor a name under {DATA} or --traces")


def _name(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".csv").removeprefix(PREFIX)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.placement",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workload", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--hosts", type=Path, default=DATA / "openb_node_list_gpu_node.csv.gz")
    parser.add_argument("--seeds", type=_typed(_seeds), default=(42,), help="42-46, or 42,44")
    parser.add_argument("--history", type=_typed(_share), default=0.2, metavar="SHARE",
                        help="of the file's tasks that the plan may know (0.2)")  # fmt: skip
    parser.add_argument("--variant", default="plain", type=_typed(_variant),
                        help="plain, windows:SIZE, departures[:LOAD]")  # fmt: skip
    parser.add_argument("--policies", type=_typed(_policies), default=DEFAULT,
                        help=f"of {', '.join(NAMES)}")  # fmt: skip
    parser.add_argument("--no-bound", action="store_true", help="leave the bounds out")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="a folder with more workloads")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--json", type=Path, required=True, metavar="OUT")
    parser.add_argument("--report", type=Path, metavar="DIR", help="report.md and charts")
    return parser


def _typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """argparse shows the message of a ValueError only if it is of its own kind."""

    def parse(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def _seeds(text: str) -> tuple[int, ...]:
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise ValueError(f"{text!r} is not like 42-46 or 42,44")
        seeds += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(seeds))


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise ValueError(f"{text} is not between 0 and 1")
    return share


def _variant(text: str) -> str:
    Variant.parse(text)
    return text


def _policies(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ValueError(f"no policy {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
