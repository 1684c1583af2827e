"""Packages of npm that tests need, in a folder that is thrown away."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def installed(folder: Path, package: str) -> Path:
    """The folder with ``node_modules``; an expected failure where it cannot be had here."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.xfail("node and npm are not installed")
    argv = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", package]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.xfail(f"npm cannot install {package}: {done.stderr[-200:]}")
    return folder / "node_modules"
