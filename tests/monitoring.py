"""A real Prometheus and a real Alertmanager, as processes that a test starts and ends."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

WITHIN_S = 120.0
UNPACKED = Path(__file__).parents[1] / ".monitoring/usr/bin"


def program(name: str) -> str:
    """Where a program of Prometheus or Alertmanager is: unpacked by `tools/setup.sh`, or the
    machine's own.
    """
    here = UNPACKED / name
    return str(here) if here.exists() else shutil.which(name) or name


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def get_json(url: str) -> Any:
    """A body as JSON."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def until(told: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> Any:
    """What is told, once that is something."""
    end = time.monotonic() + within_s
    while True:
        try:
            found = told()
        except OSError:
            found = None
        if found:
            return found
        assert time.monotonic() < end, f"waited {within_s:.0f} s in vain for {what}"
        time.sleep(0.1)


@contextmanager
def running(folder: Path, name: str, *options: str) -> Iterator[str]:
    """The URL of a program that is ready."""
    port = free_port()
    argv = [program(name), *options, f"--web.listen-address=127.0.0.1:{port}"]
    with (
        (folder / f"{name}.log").open("w") as log,
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
    ):
        url = f"http://127.0.0.1:{port}"
        try:
            until(lambda: _ready(process, url), f"{name}: {folder}")
            yield url
        finally:
            process.terminate()


def _ready(process: subprocess.Popen[bytes], url: str) -> bool:
    assert process.poll() is None, "it ended"
    with urllib.request.urlopen(f"{url}/-/ready", timeout=10) as answer:
        return bool(answer.status == 200)


class Prometheus:
    """A running one by its URL."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Labels and values of now."""
        asked = urllib.parse.urlencode({"query": expr})
        return list(get_json(f"{self.url}/api/v1/query?{asked}")["data"]["result"])

    def value(self, expr: str) -> float | None:
        """Of the one series that there is; None where there is none."""
        found = self.query(expr)
        return float(found[0]["value"][1]) if found else None

    def targets(self) -> list[dict[str, Any]]:
        """What it scrapes."""
        return list(get_json(f"{self.url}/api/v1/targets")["data"]["activeTargets"])

    def firing(self) -> set[str]:
        """Names of alerts that are raised."""
        alerts = get_json(f"{self.url}/api/v1/alerts")["data"]["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}


@contextmanager
def prometheus(
    folder: Path,
    targets: Sequence[str],
    *,
    every: str = "1s",
    rules: str = "",
    alertmanager: str = "",
    scheme: str = "http",
    **job: Any,
) -> Iterator[Prometheus]:
    """One that scrapes these targets. ``rules`` are a file's text; ``job`` more of its scrape
    configuration.
    """
    (folder / "rules.yml").write_text(rules)
    scraped = {"job_name": "vgpumgr", "static_configs": [{"targets": [*targets]}], **job}
    config: dict[str, Any] = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": ["rules.yml"] if rules else [],
        "scrape_configs": [{**scraped, "scheme": scheme}],
    }
    if alertmanager:
        place = alertmanager.removeprefix("http://")
        config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [place]}]}]}
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    data = f"--storage.tsdb.path={folder}/series"
    with running(folder, "prometheus", f"--config.file={path}", data) as url:
        yield Prometheus(url)


@contextmanager
def alertmanager(folder: Path, config: str) -> Iterator[str]:
    """The URL of one with this configuration."""
    path = folder / "alertmanager.yml"
    path.write_text(config)
    options = (f"--config.file={path}", f"--storage.path={folder}/alerts")
    alone = "--cluster.listen-address="
    with running(folder, "prometheus-alertmanager", *options, alone) as url:
        yield url
