"""The modules that work over the API: what they import, and that each option is documented."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vgpumgr.app.bootstrap.playbook_run import AnsibleFolder
from vgpumgr.app.bootstrap.variables import collection_folder

FOLDER = collection_folder() / "plugins"
ON_THE_TARGET = sorted([*FOLDER.glob("modules/*.py"), *FOLDER.glob("module_utils/*.py")])
OURS = "ansible_collections.vgpumgr.host.plugins.module_utils."
OPTIONS = {
    "vgpumgr_vm": {"state", "restart", "force", "keep_disks", "with_users", "wait"},
    "vgpumgr_pool": {"state", "wait"},
}
SHARED = {"name", "spec", "server", "ca", "token", "timeout", "idempotency_key"}


@pytest.mark.parametrize("file", ON_THE_TARGET, ids=lambda file: file.name)
def test_a_host_needs_python_3_9_and_nothing_else(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    nodes = list(ast.walk(tree))
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    others = {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {name for name in others if not name.startswith(OURS)} <= {"ansible.module_utils.basic"}


@pytest.mark.thorough
def test_every_option_is_documented(tmp_path: Path) -> None:
    workplace = AnsibleFolder(tmp_path)
    workplace.fill({}, {}, [])
    ran = subprocess.run(
        [sys.executable, "-m", "ansible", "doc", "--json", "-t", "module",
         *(f"vgpumgr.host.{name}" for name in OPTIONS)],
        env=workplace.environ(os.environ, forks=1), capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(ran.stdout)
    for name, own in OPTIONS.items():
        told = found[f"vgpumgr.host.{name}"]
        assert set(told["doc"]["options"]) == SHARED | own
        assert all(each.get("description") for each in told["doc"]["options"].values())
        assert {"actions", "operation", "settled", "code", "why", "next"} <= set(told["return"])
        assert f"vgpumgr.host.{name}:" in told["examples"]
