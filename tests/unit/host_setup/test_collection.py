"""The collection itself: it parses, needs nothing but Ansible, and its options are described."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from vgpumgr import app
from vgpumgr.app.bootstrap.playbook_run import AnsibleFolder
from vgpumgr.app.bootstrap.variables import OF_THE_PLAYBOOK, PLAYBOOK, collection_folder
from vgpumgr.helper.exporter import PORT, listen_address
from vgpumgr.hosts.helper.helper_launch import LAUNCHER

FOLDER = collection_folder()
APP = Path(app.__file__).parent
ROLES = sorted(path.name for path in (FOLDER / "roles").iterdir())
KEYWORDS = {
    "always", "become", "block", "changed_when", "check_mode", "delegate_to", "environment",
    "failed_when", "ignore_errors", "loop", "loop_control", "name", "notify", "register",
    "rescue", "retries", "delay", "run_once", "until", "vars", "when",
}  # fmt: skip


def tasks(path: Path) -> Iterator[dict[str, Any]]:
    """Every task of a file, those in blocks, too."""
    waiting = list(yaml.safe_load(path.read_text()) or [])
    while waiting:
        each = waiting.pop()
        waiting += [task for part in ("block", "always", "rescue") for task in each.get(part, [])]
        yield each


def task_files() -> list[Path]:
    return sorted([*FOLDER.glob("roles/*/tasks/*.yml"), *FOLDER.glob("playbooks/tasks/*.yml")])


def test_the_playbook_parses(tmp_path: Path) -> None:
    workplace = AnsibleFolder(tmp_path)
    workplace.fill({"h": {"ansible_connection": "local"}}, {}, [])
    ran = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", str(workplace.inventory),
         "--syntax-check", PLAYBOOK],
        env=workplace.environ(os.environ, forks=1), capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("role", ROLES)
def test_every_option_is_described_with_the_default_it_has(role: str) -> None:
    folder = FOLDER / "roles" / role
    spec = yaml.safe_load((folder / "meta" / "argument_specs.yml").read_text())
    options = spec["argument_specs"]["main"].get("options", {})
    described = {name: each["default"] for name, each in options.items() if "default" in each}
    defaults = folder / "defaults" / "main.yml"
    found = yaml.safe_load(defaults.read_text()) if defaults.exists() else {}
    required = {name for name, each in options.items() if each.get("required")}
    assert described == {name: found[name] for name in found if name not in required}
    assert all(name.startswith(f"{role}_") for name in options)
    assert all(each.get("description") for each in options.values())


def test_nothing_but_ansibles_own_modules_and_our_roles() -> None:
    for path in task_files():
        for task in tasks(path):
            (module,) = {key for key in task if key not in KEYWORDS} or {"block"}
            assert module == "block" or module.startswith("ansible.builtin."), f"{path}: {module}"


def test_no_task_goes_through_a_shell() -> None:
    used = {module for path in task_files() for task in tasks(path) for module in task}
    assert not used & {"ansible.builtin.shell", "ansible.builtin.get_url", "ansible.builtin.uri"}


def test_the_playbooks_own_variables_are_known_to_the_command_line() -> None:
    text = "".join(path.read_text() for path in sorted(FOLDER.glob("playbooks/**/*.yml")))
    words = {word.strip("({") for word in text.split() if word.strip("({").startswith("vgpumgr_")}
    assert words == OF_THE_PLAYBOOK


def test_the_unit_comes_before_libvirt_and_never_stops_it() -> None:
    unit = (FOLDER / "roles/boot_restore/files/vgpumgr-restore.service").read_text()
    assert "Before=libvirtd.service virtqemud.service libvirt-guests.service" in unit
    assert "RequiredBy=" not in unit and "Type=oneshot" in unit
    assert "ExecStart=/usr/local/lib/vgpumgr/vgpumgr-helper --restore" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize(
    ("unit", "most"),
    [
        (FOLDER / "roles/boot_restore/files/vgpumgr-restore.service", 5.0),
        (FOLDER / "roles/exporter/files/vgpumgr-exporter.service", 3.0),
        (APP / "vgpumgr-serve.service", 2.0),
        (APP.parent / "api" / "vgpumgr-api.service", 2.0),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_units_have_what_they_need_and_no_more(unit: Path, most: float) -> None:
    assert unit.exists(), "it is shipped"
    said = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert found is not None, said
    assert float(found[1]) <= most, "exposed"
    wrong = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    lines = [line for line in wrong.splitlines() if "is not executable" not in line]
    assert lines == []


def test_the_exporter_s_unit_starts_what_the_helper_takes() -> None:
    unit = (FOLDER / "roles/exporter/files/vgpumgr-exporter.service").read_text()
    assert f"ExecStart={LAUNCHER} --export $ARGUMENTS" in unit
    assert "Restart=always" in unit, "it ends where another helper was installed"
    assert "PrivateDevices=yes" not in unit and "ProtectKernelLogs=yes" not in unit
    defaults = yaml.safe_load((FOLDER / "roles/exporter/defaults/main.yml").read_text())
    assert listen_address(defaults["exporter_listen"]) == ("127.0.0.1", PORT)


def test_the_restore_unit_keeps_what_restoring_needs() -> None:
    """sysfs, modules, devices, the programs that hold a GPU, and its own state."""
    unit = (FOLDER / "roles/boot_restore/files/vgpumgr-restore.service").read_text()
    forbidden = ("ProtectKernelTunables=yes", "ProtectKernelModules=yes", "PrivateDevices=yes")
    assert not [each for each in forbidden if each in unit]
    assert not [each for each in ("ProtectClock=yes", "DevicePolicy=", "User=") if each in unit]
    assert "CAP_SYS_MODULE" in unit and "CAP_SYS_PTRACE" in unit and "CAP_SYS_ADMIN" in unit
    assert "ReadWritePaths=/run -/var/lib/vgpumgr" in unit
