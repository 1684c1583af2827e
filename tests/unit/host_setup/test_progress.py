"""The collection's callback under real Ansible, read by what reads it."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

from vgpumgr.app.bootstrap import playbook_run
from vgpumgr.app.bootstrap.playbook_events import PlaybookEvent, SetupOutcome
from vgpumgr.app.bootstrap.playbook_run import AnsibleFolder

PLAY = [
    {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            {"name": "Write", "ansible.builtin.copy": {"dest": "{{ file }}", "content": "new\n"}},
            {"name": "Look", "ansible.builtin.command": {"argv": ["true"]}, "changed_when": False},
            {"name": "Leave", "ansible.builtin.set_stats": {
                "per_host": True, "data": {"reboot_due": True, "guests": ["vm-1"]}}},
            {"name": "Fail", "ansible.builtin.command": {"argv": ["{{ item }}", "/nowhere"]},
             "loop": ["true", "ls"], "when": "inventory_hostname == 'bad'"},
        ],
    }
]  # fmt: skip


@pytest.fixture
def workplace(tmp_path: Path) -> AnsibleFolder:
    made = AnsibleFolder(tmp_path)
    hosts = {
        name: {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "file": str(tmp_path / f"{name}.txt"),
        }
        for name in ("good", "bad")
    }
    made.fill(hosts, {}, [])
    return made


def run(
    workplace: AnsibleFolder, monkeypatch: pytest.MonkeyPatch, *, check: bool
) -> list[PlaybookEvent]:
    play = workplace.write("play.yml", json.dumps(PLAY).encode())
    monkeypatch.setattr(playbook_run, "PLAYBOOK", str(play))
    seen: list[PlaybookEvent] = []
    stop = threading.Event()
    ends = playbook_run.run_playbook(
        workplace, ["good", "bad"], check=check, seen=seen.append, stop=stop
    )
    assert ends["good"].reboot_due and ends["good"].guests == ("vm-1",)
    assert len(ends["good"].changed) == 1 and ends["good"].fault is None
    return seen


@pytest.mark.thorough
def test_every_end_is_told_with_its_words(
    workplace: AnsibleFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = run(workplace, monkeypatch, check=False)
    assert [each.task for each in seen if not each.host] == ["Write", "Look", "Leave", "Fail"]
    (written,) = [each for each in seen if each.host == "good" and each.task == "Write"]
    assert written.outcome is SetupOutcome.CHANGED
    (failed,) = [each for each in seen if each.outcome is SetupOutcome.FAILED]
    assert failed.host == "bad" and "'/nowhere': No such file" in failed.message
    assert (workplace.folder / "good.txt").read_text() == "new\n"


def test_a_dry_run_brings_the_difference(
    workplace: AnsibleFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = run(workplace, monkeypatch, check=True)
    (written,) = [each for each in seen if each.host == "good" and each.task == "Write"]
    assert "+new" in written.diff.splitlines()
    assert not (workplace.folder / "good.txt").exists()
