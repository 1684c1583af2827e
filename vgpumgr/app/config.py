"""Settings: flag > ``VGPUMGR_*`` > ``./vgpumgr.yaml`` > the user's > the system's file."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn

from vgpumgr.model.errors import UsageError
from vgpumgr.model.vm import PlacementPolicy

SYSTEM_FILE = Path("/etc/vgpumgr/config.yaml")
LOCAL_FILE = Path("vgpumgr.yaml")
MAX_BYTES = 64 * 1024
MAX_NUMBER = 1e6
DEFAULT_LANES = 32
MAX_LANES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings. ``ledger`` is a file path or an SQLAlchemy URL; times are seconds."""

    ledger: str
    state_dir: Path
    policy: PlacementPolicy = PlacementPolicy.BREADTH_FIRST
    connect_timeout_s: float = 10.0
    call_timeout_s: float = 30.0
    ssh_config: Path | None = None
    lanes: int = DEFAULT_LANES

    @property
    def keys_dir(self) -> Path:
        """The controller's own keys: its SSH key and the CA for migrations."""
        return self.state_dir / "keys"


@dataclass(frozen=True, slots=True)
class _Setting:
    """One value as text, and where it was written."""

    text: str
    source: str

    def refuse(self, key: str, problem: str, next: str = "") -> NoReturn:
        raise UsageError(f"{self.source}: {key}: {self.text} {problem}", next=next)


def load_config(
    environ: Mapping[str, str], folder: Path, overrides: Mapping[str, str] | None = None
) -> Config:
    """Merge all sources, the strongest last. UsageError names the source of a bad value."""
    merged: dict[str, _Setting] = {}
    for source, values in [*_sources(environ, folder), ("the command line", overrides or {})]:
        _check_keys(source, values)
        merged.update({key: _Setting(text, source) for key, text in values.items()})
    return _build(merged, environ)


def _sources(environ: Mapping[str, str], folder: Path) -> list[tuple[str, Mapping[str, str]]]:
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
            text = file.read(MAX_BYTES + 1)
        data = yaml.safe_load(text) if len(text) <= MAX_BYTES else None
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", why=str(error)) from error
    if len(text) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES // 1024} KiB")
    if not isinstance(data, dict | None):
        raise UsageError(f"{path} is not a mapping of settings")
    for key, value in (data or {}).items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"{path}: {key}: is no text or number")
    return {str(key): str(value) for key, value in (data or {}).items()}


def _check_keys(source: str, values: Mapping[str, str]) -> None:
    names = [field.name for field in fields(Config)]
    for key in values:
        if key not in names:
            raise UsageError(
                f"{source}: unknown setting {key}", next=f"known settings: {', '.join(names)}"
            )


def _build(settings: Mapping[str, _Setting], environ: Mapping[str, str]) -> Config:
    base = Path(environ.get("XDG_STATE_HOME") or _home(environ) / ".local" / "state")
    texts = {key: setting.text for key, setting in settings.items() if setting.text}
    state_dir = Path(texts.get("state_dir", base / "vgpumgr")).absolute()
    return Config(
        ledger=texts.get("ledger", str(state_dir / "ledger.sqlite")),
        state_dir=state_dir,
        policy=_policy(settings.get("policy")),
        connect_timeout_s=_number(settings, "connect_timeout_s", 10.0),
        call_timeout_s=_number(settings, "call_timeout_s", 30.0),
        ssh_config=Path(texts["ssh_config"]) if "ssh_config" in texts else None,
        lanes=_lanes(settings),
    )


def _policy(setting: _Setting | None) -> PlacementPolicy:
    if setting is None:
        return PlacementPolicy.BREADTH_FIRST
    if setting.text not in list(PlacementPolicy):
        setting.refuse("policy", "is not a policy", next=" or ".join(PlacementPolicy))
    return PlacementPolicy(setting.text)


def _number(settings: Mapping[str, _Setting], key: str, default: float) -> float:
    setting = settings.get(key)
    if setting is None:
        return default
    try:
        number = float(setting.text)
    except ValueError:
        setting.refuse(key, "is not a number")
    if not 0 < number < MAX_NUMBER:
        setting.refuse(key, "is out of range")
    return number


def _lanes(settings: Mapping[str, _Setting]) -> int:
    lanes = _number(settings, "lanes", float(DEFAULT_LANES))
    if not lanes.is_integer() or lanes > MAX_LANES:
        settings["lanes"].refuse("lanes", f"is not a whole number up to {MAX_LANES}")
    return int(lanes)
