"""Settings: flag > ``VGPUMGR_*`` > ``./vgpumgr.yaml`` > the user's > the system's file."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from vgpumgr.model.errors import UsageError
from vgpumgr.model.vm import PlacementPolicy

SYSTEM_FILE = Path("/etc/vgpumgr/config.yaml")
LOCAL_FILE = Path("vgpumgr.yaml")
MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings. ``ledger`` is a file path or an SQLAlchemy URL; times are seconds."""

    ledger: str
    state_dir: Path
    policy: PlacementPolicy = PlacementPolicy.BREADTH_FIRST
    connect_timeout_s: float = 10.0
    call_timeout_s: float = 30.0
    ssh_config: Path | None = None
    lanes: int = 32


def load_config(
    environ: Mapping[str, str], folder: Path, overrides: Mapping[str, str] | None = None
) -> Config:
    """Merge all sources, the strongest last. UsageError names the source of a bad value."""
    merged: dict[str, str] = {}
    for source, values in _sources(environ, folder):
        _check_keys(source, values)
        merged.update(values)
    merged.update(overrides or {})
    return _build(merged, environ)


def _sources(environ: Mapping[str, str], folder: Path) -> list[tuple[str, dict[str, str]]]:
    user = Path(environ.get("XDG_CONFIG_HOME") or _home(environ) / ".config")
    files = [SYSTEM_FILE, user / "vgpumgr" / "config.yaml"]
    local = folder / LOCAL_FILE
    if _trusted(local):
        files.append(local)
    found = [(str(path), _read(path)) for path in files if path.is_file()]
    prefix = "VGPUMGR_"
    names = {field.name for field in fields(Config)}
    env = {
        key.removeprefix(prefix).lower(): value
        for key, value in environ.items()
        if key.startswith(prefix) and key.removeprefix(prefix).lower() in names
    }
    return [*found, ("the environment", env)]


def _home(environ: Mapping[str, str]) -> Path:
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
            data = yaml.safe_load(file.read(MAX_BYTES))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", why=str(error)) from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UsageError(f"{path} is not a mapping of settings")
    return {str(key): str(value) for key, value in data.items()}


def _check_keys(source: str, values: Mapping[str, str]) -> None:
    names = [field.name for field in fields(Config)]
    for key in values:
        if key not in names:
            raise UsageError(
                f"{source}: unknown setting {key}", next=f"known settings: {', '.join(names)}"
            )


def _build(values: Mapping[str, str], environ: Mapping[str, str]) -> Config:
    base = Path(environ.get("XDG_STATE_HOME") or _home(environ) / ".local" / "state")
    state_dir = Path(values.get("state_dir") or base / "vgpumgr").absolute()
    ssh_config = values.get("ssh_config")
    return Config(
        ledger=values.get("ledger") or str(state_dir / "ledger.sqlite"),
        state_dir=state_dir,
        policy=_policy(values.get("policy", PlacementPolicy.BREADTH_FIRST)),
        connect_timeout_s=_seconds(values, "connect_timeout_s", 10.0),
        call_timeout_s=_seconds(values, "call_timeout_s", 30.0),
        ssh_config=Path(ssh_config) if ssh_config else None,
        lanes=int(_seconds(values, "lanes", 32)),
    )


def _policy(text: str) -> PlacementPolicy:
    try:
        return PlacementPolicy(text)
    except ValueError:
        raise UsageError(
            f"policy: {text} is not a policy", next="breadth-first or depth-first"
        ) from None


def _seconds(values: Mapping[str, str], key: str, default: float) -> float:
    try:
        number = float(values.get(key, default))
    except ValueError:
        raise UsageError(f"{key}: {values[key]} is not a number") from None
    if not 0 < number < 1e6:
        raise UsageError(f"{key}: {values[key]} is out of range")
    return number
