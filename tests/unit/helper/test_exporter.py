"""A host's own series over HTTP: named as the contract has them, one reading at a time."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.helper.host import done
from tests.unit.helper.nvml_figures import GIB, FakeVgpu
from tests.unit.helper.test_figures import MDEV, VM, MeasuredHost
from vgpumgr.helper import exporter, host_series
from vgpumgr.helper.exporter import ExporterServer, HostExporter, listen_address
from vgpumgr.telemetry.contract import CONTRACT

LABELS = {family.name: {*row.labels} for row in CONTRACT for family in row.families}
KINDS = {family.name: family for row in CONTRACT for family in row.families}


def told(host: MeasuredHost) -> dict[str, Any]:
    return dict(done(host, "figures"))


@pytest.fixture
def host() -> MeasuredHost:
    host = MeasuredHost()
    host.gpu.running = [FakeVgpu(11, MDEV, VM, used=6 * GIB)]
    return host


def read(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            found.setdefault(each.name, []).append((dict(each.labels), each.value))
    return found


def series(host: MeasuredHost, **options: bool) -> dict[str, list[tuple[dict[str, str], float]]]:
    wanted = {"details": False, **options}
    return read(host_series.text("h1", told(host), 0.25, details=wanted["details"]))


def test_every_series_is_of_the_contract(host: MeasuredHost) -> None:
    found = series(host, details=True)
    assert len(found) > 30
    for name, lines in found.items():
        for labels, _ in lines:
            assert labels.keys() <= LABELS[name], name


def test_the_families_are_the_contract_s(host: MeasuredHost) -> None:
    assert [KINDS[each.name] for each in host_series.FAMILIES] == [*host_series.FAMILIES]
    text = host_series.text("h1", told(host), 0.25, details=True)
    assert re.findall(r"(?m)^# TYPE (\S+)", text) == [
        each.name for each in host_series.FAMILIES if f"\n# TYPE {each.name} " in text
    ]


def test_a_vgpu_is_named_by_its_mdev_and_the_domain_of_its_vm(host: MeasuredHost) -> None:
    [(labels, one)] = series(host)["vgpumgr_vgpu_info"]
    assert one == 1
    assert (labels["host"], labels["gpu"]) == ("h1", "0")
    assert (labels["vgpu"], labels["domain"]) == (MDEV, VM)


def test_details_are_asked_for(host: MeasuredHost) -> None:
    few, all_of_them = series(host), series(host, details=True)
    assert sum(map(len, few.values())) < sum(map(len, all_of_them.values()))
    assert "vgpumgr_gpu_temperature_threshold_celsius" not in few


def test_xids_begin_at_0(host: MeasuredHost) -> None:
    codes = {labels["xid"]: value for labels, value in series(host)["vgpumgr_gpu_xid_total"]}
    assert codes["79"] == 0


def test_a_host_that_tells_nothing_is_down() -> None:
    found = read(host_series.text("h1", None, 15.0, details=False))
    assert found == {
        "vgpumgr_host_up": [({"host": "h1"}, 0)],
        "vgpumgr_host_probe_duration_seconds": [({"host": "h1"}, 15)],
        "vgpumgr_host_probe_hung": [({"host": "h1"}, 1)],
    }


def test_a_driver_that_hangs_is_told(host: MeasuredHost) -> None:
    answer = {**told(host), "hung": True, "gpus": [], "driver": None}
    found = read(host_series.text("h1", answer, 10.0, details=False))
    assert found["vgpumgr_host_probe_hung"] == [({"host": "h1"}, 1)]
    assert found["vgpumgr_host_up"] == [({"host": "h1"}, 1)]


# -- over HTTP --------------------------------------------------------------------------------


@contextmanager
def serving(read: Callable[[], Any]) -> Iterator[str]:
    with ExporterServer(("127.0.0.1", 0), HostExporter("h1", read)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return str(answer.read().decode())


def test_it_answers_a_scrape(host: MeasuredHost) -> None:
    with serving(lambda: told(host)) as address:
        assert read(get(f"{address}/metrics"))["vgpumgr_host_up"] == [({"host": "h1"}, 1)]


def test_nothing_else_is_there(host: MeasuredHost) -> None:
    with serving(lambda: told(host)) as address:
        for path in ("/", "/metrics/", "/../etc/passwd"):
            assert refused(urllib.request.Request(address + path)) == 404
        posted = urllib.request.Request(f"{address}/metrics", data=b"", method="POST")
        assert refused(posted) == 501


def refused(asked: urllib.request.Request) -> int:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=30)
    caught.value.close()
    return caught.value.code


def test_who_asks_at_once_gets_the_same_reading(host: MeasuredHost) -> None:
    readings = []

    def counted() -> dict[str, Any]:
        readings.append(1)
        return told(host)

    own = HostExporter("h1", counted)
    threads = [threading.Thread(target=own.text) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(readings) == 1


def test_one_that_sends_nothing_holds_up_no_other(host: MeasuredHost) -> None:
    with serving(lambda: told(host)) as address:
        port = int(address.rpartition(":")[2])
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
        assert "vgpumgr_host_up" in get(f"{address}/metrics")
        for each in silent:
            each.close()


def test_it_ends_where_another_helper_was_installed(host: MeasuredHost) -> None:
    def newer() -> dict[str, Any]:
        return {"helper": "next", "figures": "told in another way"}

    with ExporterServer(("127.0.0.1", 0), HostExporter("h1", newer)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        asked = f"http://127.0.0.1:{server.server_address[1]}/metrics"
        assert refused(urllib.request.Request(asked)) == 503
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9869", ("::", 9869)),
        ("10.0.0.5:80", ("10.0.0.5", 80)),
        ("[fd00::1]:9869", ("fd00::1", 9869)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_where_it_listens(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["", "9869", "h:", "h:x", "h:70000", "fd00::1:9869", "[x]:1"])
def test_where_it_cannot_listen(text: str) -> None:
    with pytest.raises(ValueError, match="no ADDRESS:PORT"):
        listen_address(text)


# -- as a process -----------------------------------------------------------------------------


def test_a_reading_is_a_process_of_its_own() -> None:
    answer = exporter.reading()
    assert answer is not None
    assert answer["gpus"] is not None


def test_a_reading_that_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "_START", "import sys; sys.exit(1)")
    assert exporter.reading() is None
    monkeypatch.setattr(exporter, "_START", "print('nothing')")
    assert exporter.reading() is None
    monkeypatch.setattr(exporter, "_START", "import time; time.sleep(60)")
    monkeypatch.setattr(exporter, "_READING_S", 0.2)
    assert exporter.reading() is None


def test_the_helper_serves_until_it_is_ended(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    argv = [sys.executable, "-m", "vgpumgr.helper", "--export", "--listen", "127.0.0.1:0"]
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [*argv, "--host", "h1"], stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline().rpartition(":")[2])
            assert 'vgpumgr_host_up{host="h1"} 1' in get(f"http://127.0.0.1:{port}/metrics")
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM
    assert os.stat(log).st_size == 0
