"""The demo with Prometheus and Alertmanager over it, and a GPU that runs hot.

`make monitoring-demo`; `make demo-down` ends all of it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
STATE = Path(os.environ.get("VGPUMGR_DEMO_DIR", ROOT / ".demo"))
FOLDER = STATE / "monitoring"
HERE = Path(__file__).parent
VGPUMGR = [str(ROOT / ".venv/bin/vgpumgr"), "--state-dir", str(STATE)]
WITHIN_S = 180.0


def main() -> int:
    """Start what does not run yet, make one GPU hot, and show what is told of it."""
    subprocess.run([ROOT / "examples/demo/run.sh"], check=True, env=_environment())
    FOLDER.mkdir(exist_ok=True)
    api = (STATE / "api.pid").read_text().split()[1]
    rules, alerts = _free_port(), _free_port()
    _write_files(api, alerts)
    _start("serve", [*VGPUMGR, "serve"])
    ports = {"prometheus": rules, "prometheus-alertmanager": alerts}
    for name, port in ports.items():
        storage = "tsdb.path" if name == "prometheus" else "path"
        options = {
            "config.file": FOLDER / f"{name}.yml",
            f"storage.{storage}": FOLDER / f"{name}-data",
            "web.listen-address": f"127.0.0.1:{port}",
            **({} if name == "prometheus" else {"cluster.listen-address": ""}),
        }
        _start(name, [_program(name), *(f"--{key}={value}" for key, value in options.items())])
    subprocess.run([*VGPUMGR, "metrics", "dashboards", "--to", FOLDER / "dashboards"], check=True)
    _show(f"http://127.0.0.1:{rules}", f"http://127.0.0.1:{alerts}", api)
    return 0


def _show(prometheus: str, alertmanager: str, api: str) -> None:
    _until("Prometheus to have series", lambda: _query(prometheus, "vgpumgr_vgpu_info"))
    subprocess.run([*VGPUMGR, "top", "--once"], check=True)
    print("\nBusiest tenants:")
    wanted = "topk(3, vgpumgr:tenant_utilization:sum)"
    for each in _until("recorded series", lambda: _query(prometheus, wanted)):
        print(f"  {each['metric'].get('tenant', '')}: {float(each['value'][1]):.2f} GPUs busy")
    hot = _query(prometheus, 'vgpumgr_gpu_info{host="a40-01",gpu="0"}')[0]["metric"]["pci"]
    print(f"\n$ vgpumgr sim inject a40-01 gpu {hot} hot")
    subprocess.run([*VGPUMGR, "sim", "inject", "a40-01", "gpu", hot, "hot"], check=True)
    for each in _until("an alert", lambda: _get(f"{alertmanager}/api/v2/alerts")):
        print(f"  {each['labels']['severity']}: {each['annotations']['summary']}")
        print(f"    next: {each['annotations']['next']}")
    print(f"\nPrometheus: {prometheus}  Alertmanager: {alertmanager}")
    print(f"Series: http://127.0.0.1:{api}/metrics  Dashboards for Grafana: {FOLDER}/dashboards")
    print("Stop it with: make demo-down")


def _write_files(api: str, alerts: int) -> None:
    """The example's files, for this machine."""
    config = yaml.safe_load((HERE / "prometheus.yml").read_text())
    targets = [{"targets": [f"127.0.0.1:{api}"]}]
    config["scrape_configs"] = [{"job_name": "vgpumgr", "static_configs": targets}]
    config["alerting"] = {
        "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alerts}"]}]}]
    }
    (FOLDER / "prometheus.yml").write_text(yaml.safe_dump(config))
    rules = subprocess.run([*VGPUMGR, "metrics", "rules"], check=True, capture_output=True)
    (FOLDER / "rules.yml").write_bytes(rules.stdout)
    (FOLDER / "prometheus-alertmanager.yml").write_text((HERE / "alertmanager.yml").read_text())


def _start(name: str, argv: list[str]) -> None:
    """Start a program that goes on after us, in place of the one that an earlier demo left."""
    noted = FOLDER / f"{name}.pid"
    if noted.exists() and Path(f"/proc/{noted.read_text().strip()}").exists():
        os.kill(int(noted.read_text()), 15)
        _until(
            f"the old {name} to end",
            lambda: not Path(f"/proc/{noted.read_text().strip()}").exists(),
        )
    with (FOLDER / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    noted.write_text(f"{process.pid}\n")


def _until(what: str, told: Callable[[], Any]) -> Any:
    """Ask again until there is something."""
    end = time.monotonic() + WITHIN_S
    while True:
        try:
            found = told()
        except (OSError, ValueError):
            found = None
        if found:
            return found
        if time.monotonic() > end:
            sys.exit(f"waited {WITHIN_S:.0f} s in vain for {what}; logs are in {FOLDER}")
        time.sleep(0.5)


def _query(prometheus: str, expr: str) -> list[dict[str, Any]]:
    asked = urllib.parse.urlencode({"query": expr})
    return list(_get(f"{prometheus}/api/v1/query?{asked}")["data"]["result"])


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def _program(name: str) -> str:
    """Unpacked by `tools/setup.sh monitoring`, or the machine's own."""
    unpacked = ROOT / ".monitoring/usr/bin" / name
    return str(unpacked) if unpacked.exists() else name


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _environment() -> dict[str, str]:
    return {**os.environ, "VGPUMGR_DEMO_DIR": str(STATE)}


if __name__ == "__main__":
    sys.exit(main())
