"""``host add --bootstrap`` over a stand-in for Ansible: what it is given, and what comes of it."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Cli, new_cli, until
from vgpumgr.app.bootstrap import playbook_run

FAKE = Path(__file__).with_name("fake_ansible.py")
ADD = ("host", "add", "here", "--address", "local", "--bootstrap")


class Ansible:
    """What the stand-in will say, and how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.says()

    def says(self, *events: dict[str, Any], complains: str = "", status: int = 0) -> None:
        (self.folder / "says").write_text("".join(json.dumps(each) + "\n" for each in events))
        (self.folder / "complains").write_text(complains)
        (self.folder / "status").write_text(str(status))

    @property
    def called(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "called.json").read_text()))


def task(outcome: str, name: str = "Do it", **more: str) -> dict[str, Any]:
    event = {"event": "task", "host": "here", "role": "iommu", "task": name, "outcome": outcome}
    return {**event, "message": "", "diff": "", **more}


def end(**left: Any) -> dict[str, Any]:
    return {"event": "end", "hosts": {"here": left}}


@pytest.fixture
def ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ansible:
    made = Ansible(tmp_path)
    monkeypatch.setattr(playbook_run, "ANSIBLE", (sys.executable, str(FAKE), str(tmp_path)))
    return made


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        yield made


def test_a_dry_run_shows_what_would_change_and_enrols_nothing(cli: Cli, ansible: Ansible) -> None:
    ansible.says(task("ok"), task("changed", "Write it", diff="--- a\n+++ b\n+x\n"), end())
    ran = cli.fails(10, *ADD, "--check")
    assert ran.out == "here  iommu: Write it\n    --- a\n    +++ b\n    +x\n"
    assert ansible.called["argv"][-3:] == ["--check", "--diff", "vgpumgr.host.host"]
    assert cli.items("host", "list") == []
    assert not (cli.state / "keys").exists()


def test_a_dry_run_that_finds_nothing_ends_well(cli: Cli, ansible: Ansible) -> None:
    ansible.says(task("ok"), end())
    assert cli.ok(*ADD, "--check").out == "nothing to change\n"


def test_a_dry_run_as_json(cli: Cli, ansible: Ansible) -> None:
    ansible.says(task("changed", message="would install ovmf"), end())
    ran = cli.fails(10, *ADD, "--check", "-o", "json")
    (change,) = ran.json["changes"]
    assert (change["host"], change["message"]) == ("here", "would install ovmf")


def test_a_failed_task_is_named_with_what_the_host_said(cli: Cli, ansible: Ansible) -> None:
    ansible.says(
        {"event": "start", "role": "iommu", "task": "Write GRUB's menu"},
        task("changed", "Add the arguments"),
        task("failed", "Write GRUB's menu", message="grub-probe: no such disk"),
        end(),
        status=2,
    )
    ran = cli.fails(1, *ADD)
    assert ran.err.splitlines()[0] == "here  iommu: Add the arguments: changed"
    assert "setting up here failed at: iommu: Write GRUB's menu" in ran.err
    assert "grub-probe: no such disk" in ran.err
    assert "the same command resumes" in ran.err
    assert cli.items("host", "list") == []


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (task("unreachable", message="no route to host"), 6),
        (task("unreachable", message="me@h: Permission denied (publickey)."), 8),
        (task("failed", message="Missing sudo password"), 8),
        (task("failed", message="sudo: a password is required"), 8),
    ],
)
def test_exit_codes_say_what_kind_of_failure(
    cli: Cli, ansible: Ansible, event: dict[str, Any], code: int
) -> None:
    ansible.says(event, end(), status=4)
    assert cli.fails(code, *ADD, "-o", "json").error["exit"] == code


def test_ansible_that_breaks_off_is_quoted(cli: Cli, ansible: Ansible) -> None:
    ansible.says(complains="ERROR: no such module\n", status=250)
    ran = cli.fails(1, *ADD)
    assert "Ansible broke off (status 250)" in ran.err and "no such module" in ran.err


def test_a_host_that_was_lost_on_the_way_is_no_success(cli: Cli, ansible: Ansible) -> None:
    ansible.says(task("ok"), {"event": "end", "hosts": {}})
    assert "did not come to its end" in cli.fails(1, *ADD).err


def test_what_ansible_gets_to_see(
    cli: Cli, ansible: Ansible, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_ROLES_PATH", "/elsewhere")
    monkeypatch.setenv("SECRET", "x")
    ansible.says(end())
    cli.ok(*ADD, "--check", "-e", "iommu_grub=false", "-e", "helper_user=gpuops")
    called = ansible.called
    assert called["folder_mode"] == 0o700
    assert {each["mode"] for each in called["files"].values()} == {0o600}
    assert "SECRET" not in called["environ"] and "ANSIBLE_ROLES_PATH" not in called["environ"]
    assert called["environ"]["ANSIBLE_CONFIG"].endswith("/ansible.cfg")
    (host,) = json.loads(called["files"]["inventory.yaml"]["text"])["all"]["hosts"].values()
    assert host["ansible_connection"] == "local" and host["vgpumgr_reboot"] is False
    assert host["helper_order"]["sudoers_line"].startswith("gpuops ALL=(root) NOPASSWD: ")
    given = json.loads(called["files"]["variables.json"]["text"])
    assert given == {"iommu_grub": False, "helper_user": "gpuops"}


def test_variables_come_from_a_file_and_the_command_line_beats_it(
    cli: Cli, ansible: Ansible
) -> None:
    ansible.says(end())
    file = cli.file("iommu_grub: true\niommu_extra_kernel_arguments: [pci=realloc]\n")
    cli.ok(*ADD, "--check", "--extra-vars", file, "-e", "iommu_grub=false")
    given = json.loads(ansible.called["files"]["variables.json"]["text"])
    assert given == {"iommu_grub": False, "iommu_extra_kernel_arguments": ["pci=realloc"]}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("-e", "iomu_grub=false"), "did you mean iommu_grub?"),
        (("-e", "iommu_grub"), "is not KEY=VALUE"),
        (("-e", "iommu_grub=[",), "the value is not YAML"),
        (("--extra-vars", "/nowhere"), "/nowhere cannot be read"),
        (("--no-install",), "leave out --no-install"),
    ],
)  # fmt: skip
def test_what_is_refused_before_anything_starts(
    cli: Cli, ansible: Ansible, args: tuple[str, ...], says: str
) -> None:
    assert says in cli.fails(2, *ADD, *args).err
    assert not (ansible.folder / "called.json").exists()


@pytest.mark.parametrize(
    "args", [("--check",), ("--keep-user",), ("-e", "iommu_grub=false"), ("--extra-vars", "x")]
)
def test_flags_of_the_set_up_need_it(cli: Cli, args: tuple[str, ...]) -> None:
    ran = cli.fails(2, "host", "add", "here", "--address", "local", *args)
    assert "only with --bootstrap" in ran.err


def test_a_simulated_host_needs_no_set_up(cli: Cli, ansible: Ansible) -> None:
    ran = cli.fails(2, "host", "add", "h1", "--address", "sim://h1", "--bootstrap")
    assert "is simulated" in ran.err


def test_without_ansible_the_extra_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert "pip install 'vgpumgr[bootstrap]'" in cli.fails(1, *ADD).err


def test_ctrl_c_ends_ansible_and_says_how_to_go_on(cli: Cli, ansible: Ansible) -> None:
    ansible.says(task("changed"))
    (ansible.folder / "waits").touch()

    def interrupt() -> None:
        until((ansible.folder / "called.json").exists, "the stand-in to be called")
        os.kill(os.getpid(), signal.SIGINT)
        (ansible.folder / "waits").unlink()

    presser = threading.Thread(target=interrupt)
    presser.start()
    ran = cli.fails(130, *ADD)
    presser.join()
    assert "the same command resumes" in ran.err
