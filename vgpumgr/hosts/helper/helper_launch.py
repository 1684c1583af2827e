"""The helper as a zip, and its start on a host: installed, or streamed for a single call."""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from vgpumgr.model.errors import UsageError

_WHEN = (1980, 1, 1, 0, 0, 0)


@cache
def bundle() -> bytes:
    """The zip: ``vgpumgr/helper/**.py``, an empty ``vgpumgr/__init__.py``, ``pynvml.py``.

    The same files give the same bytes.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(_files().items()):
            archive.writestr(zipfile.ZipInfo(name, _WHEN), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


@cache
def helper_version() -> str:
    """The version of the helper that :func:`bundle` carries."""
    tree = ast.parse(_files()["vgpumgr/helper/__init__.py"])
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "VERSION":
            return str(ast.literal_eval(node.value))
    raise ValueError("the helper has no VERSION")


@cache
def _files() -> dict[str, bytes]:
    files = {"vgpumgr/__init__.py": b""}
    files |= dict(_sources(resources.files("vgpumgr") / "helper", "vgpumgr/helper"))
    nvml = importlib.util.find_spec("pynvml")
    if nvml is not None and nvml.origin:
        files["pynvml.py"] = Path(nvml.origin).read_bytes()
    return files


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """The Python files of a package and of those in it, by path in the zip."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{path}/{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{path}/{entry.name}", entry.read_bytes()


FOLDER = "/usr/local/lib/vgpumgr"
LAUNCHER = f"{FOLDER}/vgpumgr-helper"
SUDOERS = "/etc/sudoers.d/vgpumgr"
STATE = "/var/lib/vgpumgr"

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")

# Reads the length, the zip into a memfd, and leaves the request on stdin for the helper.
_STUB = """\
import os, sys
left = int(sys.stdin.buffer.readline())
fd = os.memfd_create("vgpumgr-helper")
while left:
    piece = sys.stdin.buffer.read(min(left, 65536))
    if not piece:
        sys.exit("the helper did not arrive whole")
    left -= os.write(fd, piece)
sys.path.insert(0, "/proc/self/fd/%d" % fd)
from vgpumgr.helper.__main__ import main
sys.exit(main())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperLaunch:
    """A command line, and what goes to its stdin before the request.

    ``user`` is set where sudo is needed.
    """

    argv: tuple[str, ...]
    prefix: bytes = b""
    user: str | None = None
    may_change: bool = True

    def without_sudo(self) -> HelperLaunch:
        """The same, as whoever we are."""
        return replace(self, argv=(LAUNCHER,), user=None)


def installed(user: str) -> HelperLaunch:
    """The installed helper, through its one sudo rule where ``user`` is not root."""
    if user == "root":
        return HelperLaunch(argv=(LAUNCHER,))
    return HelperLaunch(argv=("sudo", "-n", LAUNCHER), user=user)


def streamed() -> HelperLaunch:
    """A helper that is nowhere installed: it travels with the call, and cannot change anything."""
    packed = bundle()
    prefix = f"{len(packed)}\n".encode() + packed
    return HelperLaunch(argv=("python3", "-I", "-c", _STUB), prefix=prefix, may_change=False)


def sudoers_line(user: str) -> str:
    """The one rule: the helper, as root, without arguments. UsageError for an odd user name."""
    if _USER.fullmatch(user) is None:
        raise UsageError(f"{user[:80]!r} cannot be written into a sudoers file")
    return f"{user} ALL={sudo_rule()}"


def sudo_rule() -> str:
    """What the rule allows, as ``sudo -l`` lists it, too."""
    return f'(root) NOPASSWD: {LAUNCHER} ""'
