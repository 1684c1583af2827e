"""What examples/monitoring has is what Prometheus and Alertmanager take."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.monitoring import program
from vgpumgr.telemetry.alert_rules import CRITICAL, INFO, WARNING, rules_text

FOLDER = Path(__file__).parents[3] / "examples" / "monitoring"


def checked(*argv: str, folder: Path) -> str:
    ended = subprocess.run(
        (program(argv[0]), *argv[1:]), cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_its_rules_are_those_of_today() -> None:
    written = (FOLDER / "rules.yml").read_text()
    assert written == rules_text(), "vgpumgr metrics rules >examples/monitoring/rules.yml"


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    for name in ("prometheus.yml", "rules.yml"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    (tmp_path / "vgpumgr.token").write_text("vgm_secret\n")
    (tmp_path / "vgpumgr-ca.pem").write_text("")
    said = checked("promtool", "check", "config", "prometheus.yml", folder=tmp_path)
    assert "SUCCESS: 1 rule files found" in said


def test_alertmanager_takes_its_configuration() -> None:
    checked("amtool", "check-config", "alertmanager.yml", folder=FOLDER)


@pytest.mark.parametrize(
    ("severity", "receiver"), [(CRITICAL, "on-call"), (WARNING, "log"), (INFO, "log")]
)
def test_who_hears_of_what(severity: str, receiver: str) -> None:
    argv = ("amtool", "config", "routes", "test", "--config.file=alertmanager.yml")
    assert checked(*argv, f"severity={severity}", folder=FOLDER).strip() == receiver
