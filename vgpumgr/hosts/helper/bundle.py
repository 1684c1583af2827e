"""The helper as data: its files, nvidia-ml-py, and nothing else of ours, in one zip."""

from __future__ import annotations

import ast
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

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
