"""The map in a browser: how soon it is painted, and how soon a committed change is on the screen.

``python -m benchmarks.web_map --hosts 1000 [--listeners 200] [--changes 60]``: a simulated fleet of
8-GPU hosts as in ``commands.py``, with VMs, and `vgpumgr api` on it. Chromium opens the map (first
contentful paint by the browser's own clock, best and median); then hosts are cordoned and taken
again in the ledger, by this process, while listeners hold the map's stream open: from the commit's
return until each listener has the host, and until Chromium has changed its document. The browser,
the listeners and the API share this machine's processors. Prints JSON: milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.commands import World
from vgpumgr.store import open_ledger

LONGEST_S = 30.0


class Listeners:
    """Streams of the map that are open; when each has heard of the host last, by this clock."""

    def __init__(self, port: int, count: int, host: str) -> None:
        self._wanted = f"host-{host}".encode()
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._heard: dict[int, float] = {}
        self.count = count
        for number in range(count):
            connection = socket.create_connection(("127.0.0.1", port))
            request = f"GET /live/map HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
            connection.sendall(request.encode())
            self._selector.register(connection, selectors.EVENT_READ, number)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            for key, _ in self._selector.select():
                data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
                if not data:
                    self._selector.unregister(key.fileobj)
                if self._wanted in data:
                    with self._lock:
                        self._heard[key.data] = time.time()

    def forget(self) -> None:
        """Nothing was heard."""
        with self._lock:
            self._heard.clear()

    def heard(self) -> list[float]:
        """When those who have heard did so."""
        with self._lock:
            return list(self._heard.values())


def painted(browser: Browser, url: str, rounds: int) -> dict[str, Any]:
    """First contentful paint of the map, in a new profile each time."""
    times, whole = [], 0
    for _ in range(rounds):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        answer = page.goto(f"{url}/map")
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        told = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        times.append(page.evaluate(told))
        whole = len(answer.body()) if answer else 0
        context.close()
    return {
        "best_ms": round(min(times), 1),
        "median_ms": round(statistics.median(times), 1),
        "bytes": whole,
    }


WATCH = """host => {
  window.seen = 0;
  const of = () => document.getElementById(`host-${host}`).className;
  let was = of();
  new MutationObserver(() => {
    if (of() !== was) { was = of(); window.seen = Date.now(); }
  }).observe(document.getElementById("fleet"), {subtree: true, childList: true, attributes: true});
}"""


def changed(page: Page, ledger: Any, listeners: Listeners, count: int, name: str) -> dict[str, Any]:
    """Milliseconds from commits to the listeners and to the browser's document."""
    heard: list[float] = []
    shown: list[float] = []
    late = 0
    for number in range(count):
        listeners.forget()
        page.evaluate("window.seen = 0")
        host = ledger.host(name)
        ledger.update_host(replace(host, cordoned=not host.cordoned))
        committed = time.time()
        until = time.monotonic() + LONGEST_S
        while len(listeners.heard()) < listeners.count and time.monotonic() < until:
            time.sleep(0.01)
        times = listeners.heard()
        late += listeners.count - len(times)
        if number:  # the first one opens what all the others find open
            heard += [1000 * (each - committed) for each in times]
            page.wait_for_function("window.seen > 0", timeout=LONGEST_S * 1000)
            shown.append(page.evaluate("window.seen") - 1000 * committed)
        time.sleep(0.3)
    return {"listeners": spread(heard), "browser": spread(shown), "not_heard": late}


def spread(times: list[float]) -> dict[str, float]:
    """The middle, the slowest in a hundred, and the slowest."""
    times = sorted(times)
    return {
        "p50_ms": round(times[len(times) // 2], 1),
        "p99_ms": round(times[int(len(times) * 0.99)], 1),
        "max_ms": round(times[-1], 1),
    }


def measured(world: World, home: Path, given: argparse.Namespace) -> dict[str, Any]:
    """All of it over a fleet that is up."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "vgpumgr", "api", "--loopback", str(port)]
    api = subprocess.Popen(words, env=world.environ, stderr=subprocess.DEVNULL)
    ledger = open_ledger(home / "state" / "ledger.sqlite", by="bench", now=time.time)
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
        path = shutil.which("chromium")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=path, args=["--no-sandbox", "--disable-gpu"]
            )
            url = f"http://127.0.0.1:{port}"
            paint = painted(browser, url, given.paints)
            page = browser.new_page()
            page.goto(f"{url}/map")
            name = ledger.hosts()[0].name
            page.evaluate(WATCH, name)
            listeners = Listeners(port, given.listeners, name)
            time.sleep(5)
            changes = changed(page, ledger, listeners, given.changes, name)
            browser.close()
    finally:
        ledger.close()
        api.terminate()
        api.wait()
    return {"first_paint": paint, f"change_with_{given.listeners}_listeners": changes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--vms", type=int, default=400)
    parser.add_argument("--listeners", type=int, default=200)
    parser.add_argument("--changes", type=int, default=60)
    parser.add_argument("--paints", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench-") as folder:
        home = Path(folder)
        world = World(home, Path(__file__).parent.parent, given.hosts, given.vms)
        world.cpu_s(["sim", "up", "-f", "fleet.yaml"])
        load = os.getloadavg()[0]
        try:
            world.cpu_s(["apply", "-f", "many.yaml"])
            told = measured(world, home, given)
        finally:
            world.cpu_s(["sim", "down"])
    facts = {"benchmark": "web_map", "hosts": given.hosts, "vms": given.vms}
    print(json.dumps({**facts, "cpus": os.cpu_count(), "load": load, **told}, indent=2))


if __name__ == "__main__":
    main()
