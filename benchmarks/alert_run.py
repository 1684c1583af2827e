"""Faults of a simulated fleet, each followed to the webhook that tells of it, in real time.

``python -m benchmarks.alert_run [--faults 200] [--minutes 30] [--json OUT]``: `serve` asks the
fleet every 5 s, a real Prometheus scrapes the API and evaluates the shipped rules every 5 s, a
real Alertmanager sends each alert by itself to a receiver here. Each fault is injected into a GPU
of its own at a moment drawn by chance. What rules with ``for:`` raise, minutes later, is counted
apart. Exit 1 where an alert is missing, told twice, late or unexpected.

What is real: all processes, HTTP, the ledger. What is not: a simulated driver answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.apiserver import serving_api
from tests.e2e.support import Cli, finish, host, new_cli
from tests.monitoring import Prometheus, alertmanager, prometheus, until
from tests.webhook_receiver import Received, receiving
from vgpumgr.telemetry.alert_rules import alerts, rules_text

BOARD, GPUS_OF_HOST = "A100-PCIE-80GB", 8
# Every so often hosts are asked, series scraped, rules evaluated.
EVERY_S = 5
PROMISED_S = 30.0
# An Xid that no series counted before says nothing until its GPU has been seen for that long.
PAST_S = 330.0
INTERVALS = re.compile(r"(?m)^  interval: .*$")
AT_ONCE = frozenset(each.name for each in alerts() if not each.lasts)


class Kind(NamedTuple):
    """Words of ``sim inject``, the alert that they must raise first, and what else they bring.
    ``past``: the alert needs series that are five minutes old.
    """

    words: tuple[str, ...]
    alert: str
    then: frozenset[str] = frozenset()
    past: bool = False


KINDS = (
    Kind(("hot",), "GpuHot", frozenset({"GpuThrottledHw"})),
    Kind(("lost",), "XidReboot", frozenset({"GpuLost", "RecoveryActionSet"})),
    Kind(("recovery", "1"), "RecoveryActionSet"),
    Kind(("recovery", "2"), "RecoveryActionSet"),
    Kind(("errors", "3"), "EccUncorrected"),
    Kind(("remap-pending",), "RowRemapPending"),
    Kind(("remap-failed",), "RowRemapFailed"),
    Kind(("xid", "95"), "XidReset", frozenset({"RecoveryActionSet"})),
    Kind(("xid", "119"), "XidReset", frozenset({"RecoveryActionSet"})),
    Kind(("xid", "94"), "XidResetWhenIdle"),
    Kind(("xid", "63"), "XidResetWhenIdle", frozenset({"RowRemapPending"})),
    Kind(("xid", "54"), "XidCheck", past=True),
    Kind(("xid", "92"), "XidCheck", past=True),
    Kind(("xid", "13"), "XidApp", past=True),
    Kind(("xid", "31"), "XidApp", past=True),
)


class Fault(NamedTuple):
    """``at`` in seconds after the first moment; ``host`` and ``gpu`` as the series name them."""

    at: float
    kind: Kind
    host: str
    device: str
    gpu: str


class Told(NamedTuple):
    """One alert as the receiver got it, with when (Unix seconds)."""

    at: float
    alert: str
    host: str
    gpu: str
    since: str


@dataclass
class Run:
    """What was injected (Unix seconds, by fault), and what was told."""

    injected: dict[Fault, float] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def heard(self, got: Received) -> None:
        """Alerts of one webhook; what has ended is passed over."""
        now = time.time()
        for each in got.event["alerts"]:
            if each["status"] == "firing":
                of = each["labels"]
                place = of.get("host", ""), of.get("gpu", "")
                self.told.append(Told(now, of["alertname"], *place, each["startsAt"]))


def drawn(
    gpus: Sequence[tuple[str, str, str]], count: int, seconds: float, seed: int, past: bool
) -> list[Fault]:
    """Faults of every kind alike, each of a GPU of its own, in the order of their moments."""
    chance = random.Random(seed)
    kinds = [each for each in KINDS if past or not each.past]
    places = chance.sample(list(gpus), count)
    moments = sorted(chance.uniform(0.0, seconds) for _ in range(count))
    order = [kinds[number % len(kinds)] for number in range(count)]
    chance.shuffle(order)
    return [Fault(at, kind, *place) for at, kind, place in zip(moments, order, places, strict=True)]


def follow(cli: Cli, run: Run, faults: Sequence[Fault]) -> None:
    """Inject each at its moment, then wait as long as an alert may take."""
    began = time.monotonic()
    for each in faults:
        time.sleep(max(0.0, began + each.at - time.monotonic()))
        cli.ok("sim", "inject", each.host, "gpu", each.device, *each.kind.words)
        run.injected[each] = time.time()
        run.loads.append(os.getloadavg()[0])
    end = time.monotonic() + 2 * PROMISED_S
    wanted = {(each.kind.alert, each.host, each.gpu) for each in faults}
    while wanted - {told[1:4] for told in run.told} and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(2 * EVERY_S)  # what is told twice is told soon after


def judged(run: Run) -> dict[str, Any]:
    """Delays of the first alert of each fault in seconds; what is missing, late or too much."""
    first = {(told.alert, told.host, told.gpu): told.at for told in reversed(run.told)}
    waits: dict[str, list[float]] = {}
    missing, expected = [], set()
    for fault, at in run.injected.items():
        place = fault.host, fault.gpu
        expected |= {(name, *place) for name in (fault.kind.alert, *fault.kind.then)}
        found = first.get((fault.kind.alert, *place))
        if found is None:
            missing.append(f"{fault.host} {fault.device} {' '.join(fault.kind.words)}")
        else:
            waits.setdefault(fault.kind.alert, []).append(found - at)
    counted = Counter(told[1:4] for told in run.told if told.alert in AT_ONCE)
    every = sorted(wait for each in waits.values() for wait in each)
    return {
        "alerts": len(every),
        "missing": missing,
        "twice": [" ".join(each) for each, number in counted.items() if number > 1],
        "unexpected": [" ".join(each) for each in counted if each not in expected],
        "later_than_30_s": sum(wait > PROMISED_S for wait in every),
        "followed_from_the_same_faults": len(counted) - len(every),
        "of_rules_with_for": Counter(told.alert for told in run.told if told.alert not in AT_ONCE),
        "seconds": _spread(every),
        "seconds_by_alert": {name: _spread(sorted(each)) for name, each in sorted(waits.items())},
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    place = min(len(values) - 1, int(0.99 * len(values)))
    return {
        "count": len(values),
        "p50": round(statistics.median(values), 1),
        "p99": round(values[place], 1),
        "max": round(values[-1], 1),
    }


ALERTMANAGER = {
    "route": {
        "receiver": "here",
        "group_by": ["..."],
        "group_wait": "0s",
        "group_interval": "5s",
        "repeat_interval": "4h",
    },
}


@contextmanager
def watched(cli: Cli, folder: Path, run: Run) -> Iterator[Prometheus]:
    """`serve`, the API, Prometheus, Alertmanager and the receiver, all at work."""
    environ = {**os.environ, "VGPUMGR_TELEMETRY_INTERVAL": str(EVERY_S)}
    rules = INTERVALS.sub(f"  interval: {EVERY_S}s", rules_text())
    with receiving() as receiver, (folder / "events").open("w") as events:
        receiver.on_request = run.heard
        here = {"name": "here", "webhook_configs": [{"url": receiver.url, "send_resolved": False}]}
        heard = yaml.safe_dump({**ALERTMANAGER, "receivers": [here]})
        served = cli.process("serve", "--interval", "10", env=environ, stdout=events, stderr=events)
        try:
            with (
                serving_api(cli, loopback=True) as api,
                alertmanager(folder, heard) as sends,
                prometheus(
                    folder,
                    [api.reading_url.removeprefix("http://")],
                    every=f"{EVERY_S}s",
                    rules=rules,
                    alertmanager=sends,
                ) as asked,
            ):
                yield asked
        finally:
            served.send_signal(signal.SIGTERM)
            finish(served)


def run_faults(
    count: int, minutes: float, *, seed: int = 42, past_s: float = PAST_S
) -> dict[str, Any]:
    """Inject that many within these minutes; the result as JSON. With ``past_s`` below five
    minutes, faults whose alert needs older series are left out.
    """
    run, hosts = Run(), -(-count // GPUS_OF_HOST)
    with new_cli() as cli:
        cli.sim_up(*(host(f"h{number:02}", (BOARD, GPUS_OF_HOST)) for number in range(hosts)))
        with watched(cli, cli.folder, run) as asked:
            all_seen = f'count(vgpumgr_gpu_xid_total{{xid="79"}}) == {hosts * GPUS_OF_HOST}'
            until(lambda: asked.query(all_seen), "series of every GPU", within_s=600.0)
            gpus = [
                (of["host"], of["pci"], of["gpu"])
                for of in (each["metric"] for each in asked.query("vgpumgr_gpu_info"))
            ]
            time.sleep(max(past_s, 3 * EVERY_S))
            faults = drawn(gpus, count, 60.0 * minutes, seed, past_s >= PAST_S)
            follow(cli, run, faults)
    return {
        "benchmark": "alert_run",
        "faults": count,
        "minutes": minutes,
        "seed": seed,
        "gpus": hosts * GPUS_OF_HOST,
        "every_s": EVERY_S,
        "cpus": os.cpu_count(),
        "load": {"median": statistics.median(run.loads), "max": max(run.loads)},
        **judged(run),
    }


def is_kept(result: dict[str, Any]) -> bool:
    """Is every fault told, once, in time, and nothing else?"""
    faults = ("missing", "twice", "unexpected", "later_than_30_s")
    return result["alerts"] == result["faults"] and not any(result[each] for each in faults)


def main() -> int:
    """The command line."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--faults", type=int, default=200)
    asked.add_argument("--minutes", type=float, default=30.0)
    asked.add_argument("--seed", type=int, default=42)
    asked.add_argument("--past", type=float, default=PAST_S, help="seconds before the first fault")
    asked.add_argument("--json", type=Path, help="file for the result")
    given = asked.parse_args()
    result = run_faults(given.faults, given.minutes, seed=given.seed, past_s=given.past)
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    if given.json:
        given.json.write_text(text)
    return 0 if is_kept(result) else 1


if __name__ == "__main__":
    sys.exit(main())
