"""Where settings are written: files of the system, the user and the folder, and the environment."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from vgpumgr.model.errors import UsageError

SYSTEM_FILE = Path("/etc/vgpumgr/config.yaml")
LOCAL_FILE = Path("vgpumgr.yaml")
MAX_BYTES = 64 * 1024
# The one setting that is not a text or number.
MIX = "mix"


def setting_sources(
    environ: Mapping[str, str], folder: Path, names: Collection[str]
) -> list[tuple[str, Mapping[str, str]]]:
    """Settings as text, the strongest last, each source by its name; ``names`` are those known."""
    user = Path(environ.get("XDG_CONFIG_HOME") or home(environ) / ".config")
    files = [SYSTEM_FILE, user / "vgpumgr" / "config.yaml"]
    local = folder / LOCAL_FILE
    if _trusted(local):
        files.append(local)
    found = [(str(path), _read(path)) for path in files if path.is_file()]
    prefix = "VGPUMGR_"
    env = {
        key.removeprefix(prefix).lower(): value
        for key, value in environ.items()
        if key.startswith(prefix) and key.removeprefix(prefix).lower() in names
    }
    if MIX in env:
        env[MIX] = f"{MIX}: {env[MIX]}"
    return [*found, ("the environment", env)]


def home(environ: Mapping[str, str]) -> Path:
    """The user's home folder."""
    return Path(environ.get("HOME") or "/root")


def _trusted(path: Path) -> bool:
    """A config in the working folder counts only if ours and not writable by others."""
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: Path) -> dict[str, str]:
    import yaml

    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        data = yaml.safe_load(text) if len(text) <= MAX_BYTES else None
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", why=str(error)) from error
    if len(text) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES // 1024} KiB")
    if not isinstance(data, dict | None):
        raise UsageError(f"{path} is not a mapping of settings")
    if data and MIX in data:
        data[MIX] = text.decode()  # the reader of it says what is wrong, and where
    data = _flat(data or {})
    for key, value in data.items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"{path}: {key}: is not a text or number")
    return {str(key): str(value) for key, value in data.items()}


def _flat(data: Mapping[object, object], before: str = "") -> dict[str, object]:
    """``defrag: {threshold: 30%}`` is ``defrag_threshold: 30%``, ``defrag: automatic`` its mode."""
    found: dict[str, object] = {}
    for key, value in data.items():
        name = f"{before}{key}"
        if name == "defrag" and isinstance(value, str):
            found["defrag_mode"] = value
        elif isinstance(value, dict) and value:
            found |= _flat(value, f"{name}_")
        else:
            found[name] = value
    return found
