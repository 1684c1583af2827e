"""Many clients that scrape one API at the same moment, and what that costs it; JSON out.

``python -m benchmarks.metrics_clients [--clients 50] [--rounds 4] [--mib 19] [--json OUT]``: the
series of a large fleet as a file (1,000 GPUs with 16 vGPUs each are 19 MB), renewed every 5 s;
each client asks, reads all, and asks again. Memory is the highest of the API's processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.apiserver import serving_api
from tests.e2e.support import host, new_cli
from vgpumgr.telemetry.telemetry_files import SERIES

RENEWED_S = 5.0
LINE = 'vgpumgr_gpu_power_watts{{host="h{0:06}",UUID="GPU-{0:032x}",gpu="{1}"}} 71.5\n'


def text_of(mib: int) -> bytes:
    """That much of an exposition."""
    lines, size = [], 0
    while size < mib << 20:
        lines.append(LINE.format(len(lines), len(lines) % 8))
        size += len(lines[-1])
    return "".join(lines).encode()


def memory_mib(pid: int) -> float:
    """Resident memory of a process and its children."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    found = pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += memory_mib(int(child))
    return found


def measured(clients: int, rounds: int, mib: int) -> dict[str, Any]:
    """Seconds of a scrape, what was refused, and memory before and at most."""
    data = text_of(mib)
    with new_cli() as cli:
        cli.sim_up(host("one", ("T4", 1)))
        folder = cli.state / "telemetry"
        folder.mkdir(exist_ok=True)
        with serving_api(cli, loopback=True) as api:
            ended, peak = threading.Event(), [0.0]

            def renew() -> None:
                while not ended.is_set():
                    draft = folder / "draft"
                    draft.write_bytes(data)
                    draft.replace(folder / SERIES)
                    ended.wait(RENEWED_S)

            def watch() -> None:
                while not ended.wait(0.05):
                    peak[0] = max(peak[0], memory_mib(api.process.pid))

            def scrape(_: int) -> float:
                began = time.monotonic()
                with urllib.request.urlopen(f"{api.reading_url}/metrics", timeout=300) as answer:
                    assert len(answer.read()) == len(data), "cut"
                return time.monotonic() - began

            threads = [threading.Thread(target=each) for each in (renew, watch)]
            for each in threads:
                each.start()
            try:
                while not (folder / SERIES).exists():
                    time.sleep(0.1)
                alone = scrape(0)
                before = memory_mib(api.process.pid)
                began = time.monotonic()
                with ThreadPoolExecutor(clients) as pool:
                    seconds = sorted(pool.map(scrape, range(clients * rounds)))
                took = time.monotonic() - began
            finally:
                ended.set()
                for each in threads:
                    each.join()
    return {
        "benchmark": "metrics_clients",
        "clients": clients,
        "scrapes": len(seconds),
        "mib": mib,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "alone_s": round(alone, 2),
        "p50_s": round(seconds[len(seconds) // 2], 2),
        "max_s": round(seconds[-1], 2),
        "mib_a_second": round(len(seconds) * mib / took),
        "memory_mib": {"before": round(before), "at_most": round(peak[0])},
    }


def main() -> int:
    """The command line."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--clients", type=int, default=50)
    asked.add_argument("--rounds", type=int, default=4)
    asked.add_argument("--mib", type=int, default=19)
    asked.add_argument("--json", type=Path, help="file for the result")
    given = asked.parse_args()
    text = json.dumps(measured(given.clients, given.rounds, given.mib), indent=2) + "\n"
    print(text, end="")
    if given.json:
        given.json.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
