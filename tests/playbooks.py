"""Playbooks run by the real ``ansible-playbook`` with the collection, on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vgpumgr.app.bootstrap.playbook_run import AnsibleFolder

VM, POOL = "vgpumgr.host.vgpumgr_vm", "vgpumgr.host.vgpumgr_pool"


def task(module: str, args: Mapping[str, Any], **keywords: Any) -> dict[str, Any]:
    """A task that may fail without ending the play."""
    return {"name": "Task", module: dict(args), "ignore_errors": True, **keywords}


def results(
    folder: Path, *tasks: dict[str, Any], options: tuple[str, ...] = (), **environ: str
) -> list[dict[str, Any]]:
    """What each task of one play came to."""
    told = folder / "results.json"
    numbered = [{**each, "register": f"r{number}"} for number, each in enumerate(tasks)]
    names = ", ".join(each["register"] for each in numbered)
    keep = {
        "name": "Keep",
        "ansible.builtin.copy": {"content": f"{{{{ [{names}] }}}}", "dest": str(told)},
        "check_mode": False,
        "diff": False,
    }
    play = {"hosts": "all", "gather_facts": False, "tasks": [*numbered, keep]}
    ran = run_play(folder, json.dumps([play]), *options, **environ)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found: list[dict[str, Any]] = json.loads(told.read_text())
    return found


def run_play(
    folder: Path, text: str, *options: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a playbook on this machine, without a setting of its user's."""
    workplace = AnsibleFolder(folder)
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    workplace.fill({"localhost": {**here, **json.loads(environ.pop("HOST", "{}"))}}, {}, [])
    playbook = workplace.write("play.yml", text.encode())
    return subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", str(workplace.inventory),
         *options, str(playbook)],
        env={**workplace.environ(os.environ, forks=1), **environ},
        capture_output=True, text=True, cwd=folder, timeout=240, check=False,
    )  # fmt: skip
