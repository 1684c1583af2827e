"""Another user of this machine at work against us: programs of a uid that is nobody's."""

from __future__ import annotations

import subprocess
import sys

UID = 65534

# The interpreter may lie where that user cannot read: what it needs is loaded before it is him.
_BECOME = f"""
import encodings.idna, os, socket, sys, time
os.setgroups([])
os.setresgid({UID}, {UID}, {UID})
os.setresuid({UID}, {UID}, {UID})
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Run Python text of the standard library as that user; its words come over stdout."""
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _BECOME + program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    )


def said(program: str, *arguments: str, timeout_s: float = 60.0) -> str:
    """All that such a program says."""
    with start(program, *arguments) as running:
        try:
            return running.communicate(timeout=timeout_s)[0].strip()
        finally:
            running.kill()
