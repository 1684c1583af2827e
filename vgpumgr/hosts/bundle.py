"""The helper as data: its files, nvidia-ml-py, and nothing else of ours, in one zip."""

from __future__ import annotations

import ast
import importlib.util
import io
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path

_WHEN = (1980, 1, 1, 0, 0, 0)


@cache
def bundle() -> bytes:
    """The zip: ``vgpumgr/helper/*.py``, an empty ``vgpumgr/__init__.py``, ``pynvml.py``.

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
    for entry in (resources.files("vgpumgr") / "helper").iterdir():
        if entry.name.endswith(".py"):
            files[f"vgpumgr/helper/{entry.name}"] = entry.read_bytes()
    nvml = importlib.util.find_spec("pynvml")
    if nvml is not None and nvml.origin:
        files["pynvml.py"] = Path(nvml.origin).read_bytes()
    return files
