"""What the metrics of a large fleet cost: 125 hosts with 8 GPUs each and 16 vGPUs on every GPU.

A simulated host is filled and read once; its rows and its answer are copied under names of their
own until there are as many hosts as asked for. Then

- `serve`: rounds as it takes them every 15 seconds, in a process of their own: CPU seconds by part;
- a real Prometheus scrapes a real API that serves what the rounds have written.

``python benchmarks/telemetry.py [--hosts 125] [--all]``. JSON on stdout.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ledger_to_fleet import _EVIDENCE, GARBAGE_EVERY, _other, copied, timed
from tests.monitoring import Prometheus, free_port, prometheus, until

SOURCE = "t4-01"
FLEET = f"""
apiVersion: vgpumgr/v1
kind: Fleet
name: bench
hosts:
  - {{name: {SOURCE}, cpus: 128, memory: 1TiB, gpus: [{{board: T4, count: 8}}]}}
"""
VMS = "---".join(
    f"""
apiVersion: vgpumgr/v1
kind: VM
name: {name}
replicas: 64
tenant: {tenant}
vcpus: 1
memory: 1GiB
gpus: [{{profile: T4-1Q}}]
"""
    for name, tenant in (("desk", "blue"), ("work", "red"))
)
JOINED = (
    "vgpumgr_vgpu_framebuffer_used_bytes"
    " * on (host, UUID, vgpu) group_left (tenant) vgpumgr_vgpu_info"
)
INTERVAL_S = 15.0
ROUNDS, SCRAPES = 8, 6


def small_fleet(state: Path) -> tuple[Path, str]:
    """A ledger of one full host, and what that host's helper says."""
    from vgpumgr.model.host import HostRecord
    from vgpumgr.sim.sim_client import SimHosts

    program = str(Path(sys.executable).parent / "vgpumgr")
    environ = {**os.environ, "VGPUMGR_STATE_DIR": str(state)}

    def run(*words: str, given: str = "") -> None:
        file = state.with_name("given.yaml")
        file.write_text(given)
        named = [str(file) if word == "FILE" else word for word in words]
        subprocess.run([program, *named], env=environ, check=True, capture_output=True)

    try:
        run("sim", "up", "-f", "FILE", given=FLEET)
        run("apply", "-f", "FILE", given=VMS)
        run("host", "list", "--refresh")
        hosts = SimHosts(state / "sim")
        found = hosts.open(HostRecord(name=SOURCE, address=f"sim://{SOURCE}"))
        answer = json.dumps(found.helper.call("figures", {}))
        hosts.close()
    finally:
        run("sim", "down")
    return state / "ledger.sqlite", answer


class _CopiedHosts:
    """Each host tells what the one that was read told, of its own GPUs."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self._texts: dict[str, str] = {}

    def open(self, record: Any) -> Any:
        text = self._texts.get(record.name)
        if text is None:
            number = int(record.name.rpartition("-")[2])
            text = _EVIDENCE.sub(lambda found: _other(found[0], number), self._answer)
            self._texts[record.name] = text
        return _CopiedHost(record.name, text)

    def close(self) -> None: ...


class _CopiedHost:
    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def figures(self) -> Any:
        from vgpumgr.hosts.facts.figure_facts import read_figures

        return read_figures(json.loads(self._text), self._name)


def rounds(folder: Path, *, details: bool) -> dict[str, Any]:
    """CPU seconds of rounds in this process, the first and the later ones, and of their parts."""
    from vgpumgr.app import App
    from vgpumgr.app.config import load_config
    from vgpumgr.engine.workers.thread_workers import ThreadWorkers
    from vgpumgr.telemetry import figure_sampler, room_gauges, telemetry_round
    from vgpumgr.telemetry.exposition import Exposition
    from vgpumgr.telemetry.measured_series import MeasuredSeries
    from vgpumgr.telemetry.telemetry_files import TelemetryFiles

    gc.set_threshold(GARBAGE_EVERY)
    overrides = {"state_dir": str(folder), "ledger": str(folder / "ledger.sqlite")}
    app = App(load_config({"HOME": str(folder)}, folder, overrides))
    hosts: Any = _CopiedHosts((folder / "answer.json").read_text())
    engine = replace(app.engine, hosts=hosts)
    options = telemetry_round.TelemetryOptions(details=details)
    taken = telemetry_round.TelemetryRound(engine, ThreadWorkers(16), options)
    files = TelemetryFiles(app.config.telemetry_folder)
    found: dict[str, Any] = {}
    with (
        _counted(figure_sampler.FigureSampler, "read", found, "ask_and_check"),
        _counted(MeasuredSeries, "add", found, "measured_series"),
        _counted(room_gauges.RoomGauges, "add", found, "placement"),
        _counted(telemetry_round.TelemetryRound, "written", found, "all_series"),
        _counted(Exposition, "text", found, "text"),
        _counted(TelemetryFiles, "write", found, "files"),
        files.owned(),
    ):
        for number in range(ROUNDS):
            with timed(found, f"round_{number}_s"):
                result = taken.take()
                files.write(result)
            if number == 0:
                found["rss_mib_first"] = _rss_mib()
    app.close()
    later = [found.pop(f"round_{number}_s") for number in range(1, ROUNDS)]
    parts = {name: each for name, each in found.items() if isinstance(each, list)}
    return {
        "series": result.series,
        "bytes": len(result.text),
        "first_round_cpu_s": found["round_0_s"],
        "round_cpu_s": round(median(later), 3),
        "share_of_a_core": round(median(later) / INTERVAL_S, 4),
        "cpu_s": {name: round(median(each[1:]), 4) for name, each in parts.items()},
        "first_cpu_s": {name: each[0] for name, each in parts.items()},
        "rss_mib": [found["rss_mib_first"], _rss_mib()],
    }


@contextmanager
def _counted(owner: Any, method: str, found: dict[str, Any], name: str) -> Iterator[None]:
    """The CPU seconds of each call of a method, by all threads."""
    calls: list[float] = found.setdefault(name, [])
    plain: Callable[..., Any] = getattr(owner, method)

    def timed_call(*args: Any, **options: Any) -> Any:
        before = time.process_time()
        try:
            return plain(*args, **options)
        finally:
            calls.append(round(time.process_time() - before, 4))

    setattr(owner, method, timed_call)
    try:
        yield
    finally:
        setattr(owner, method, plain)


def _rss_mib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 2**20


def scrapes(folder: Path) -> dict[str, Any]:
    """What a scrape by Prometheus takes; a first one makes its series, later ones add to them."""
    port = free_port()
    environ = {
        **os.environ,
        "VGPUMGR_STATE_DIR": str(folder),
        "VGPUMGR_LEDGER": str(folder / "ledger.sqlite"),
        "VGPUMGR_TELEMETRY_INTERVAL": "3600",
    }
    program = str(Path(sys.executable).parent / "vgpumgr")
    api = subprocess.Popen(
        [program, "api", "--loopback", str(port), "--socket", str(folder / "api.sock")],
        env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with prometheus(folder, [f"127.0.0.1:{port}"], every="5s") as asked:
            return _scraped(asked)
    finally:
        api.terminate()
        api.wait(30)


def _scraped(asked: Prometheus) -> dict[str, Any]:
    seen: dict[str, float] = {}

    def enough() -> bool:
        for each in asked.query("scrape_duration_seconds"):
            at, took = each["value"][0], float(each["value"][1])
            if asked.value("up") == 1:
                seen.setdefault(f"{took:.6f}", at)
        return len(seen) >= SCRAPES

    until(enough, "scrapes", 240.0)
    took = [float(each) for each in seen]
    before = time.monotonic()
    tenants = len(asked.query(f"sum by (tenant) ({JOINED})"))
    return {
        "samples": asked.value("scrape_samples_scraped"),
        "first_scrape_s": took[0],
        "scrape_s": round(median(took[1:]), 4),
        "all_scrapes_s": took,
        "sum_by_tenant_s": round(time.monotonic() - before, 3),
        "tenants": tenants,
        "prometheus_rss_mib": _own_memory(asked) // 2**20,
    }


def _own_memory(asked: Prometheus) -> int:
    with urllib.request.urlopen(f"{asked.url}/metrics", timeout=30) as answer:
        told = answer.read().decode()
    return int(float(re.findall(r"(?m)^process_resident_memory_bytes (\S+)", told)[0]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=125)
    parser.add_argument("--all", action="store_true", help="every series that hosts can tell")
    parser.add_argument("--rounds", type=Path, help="take rounds over this folder, in this process")
    given = parser.parse_args()
    if given.rounds:
        print(json.dumps(rounds(given.rounds, details=given.all)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small, answer = small_fleet(folder / "small")
        (folder / "answer.json").write_text(answer)
        copied(folder / "ledger.sqlite", small, {SOURCE: 1}, given.hosts)
        argv = [sys.executable, __file__, "--rounds", name, *(["--all"] if given.all else [])]
        said = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
        result = {
            "benchmark": "telemetry",
            "hosts": given.hosts,
            "gpus": given.hosts * 8,
            "vgpus": given.hosts * 8 * 16,
            "serve": json.loads(said),
            "scrape": scrapes(folder),
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
