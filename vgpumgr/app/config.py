"""Settings: flag > ``VGPUMGR_*`` > ``./vgpumgr.yaml`` > the user's > the system's file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from vgpumgr.app.setting_files import MIX, home, setting_sources
from vgpumgr.health.health_policy import (
    DEFAULT_ACTIONS,
    Actions,
    HealthMode,
    HealthPolicy,
    parse_actions,
)
from vgpumgr.model.errors import UsageError
from vgpumgr.model.failover import MOST_LOST
from vgpumgr.model.formats import parse_bytes
from vgpumgr.model.health import ActionClass
from vgpumgr.model.vm import DEFAULT_POLICY, PlacementPolicy

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    Network = IPv4Network | IPv6Network

MAX_NUMBER = 1e6
DEFAULT_LANES = 32
MAX_LANES = 256
DEFRAG_THRESHOLD = 0.3
IMAGE_MAX_BYTES = 2 << 40
UPLOAD_MAX_BYTES, UPLOAD_TOTAL_BYTES = 256 << 30, 512 << 30
UPLOAD_KEEP_S = 24 * 3600.0
ACCESS_KEEP_S = 90 * 86_400.0
TICKET_S = 60.0
INTERRUPTED_S = 900.0
QUARANTINE_AFTER = 3
MAX_REFUSALS = 1000
BACKUP_EVERY_S = 6 * 3600.0
BACKUP_KEEP = 14
MAX_BACKUPS = 10_000
_SPAN = re.compile(r"([0-9]{1,5})(m|h|d)")
_SPAN_S = {"m": 60.0, "h": 3600.0, "d": 86_400.0}
CERTIFICATE_USERS = ("email", "uri", "cn", "fingerprint")


class Unasked(StrEnum):
    """What `serve` does where it could act unasked: it says what to type, or does it."""

    ASK = "ask"
    AUTOMATIC = "automatic"


@dataclass(frozen=True, slots=True)
class Declared:
    """YAML that holds a setting with a structure, and where it was written."""

    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings. ``ledger`` is a file path or an SQLAlchemy URL; times are seconds.

    ``defrag_threshold`` is the share of unusable free GPU memory above which moves are proposed,
    or made (``defrag_mode``): moves that cut no user off, running ones, those of free desktops, and
    others once their users have logged off. ``evacuate`` is what becomes of a host that is proven
    off. Placement keeps capacity for the VMs of any ``reserve_hosts`` hosts that are lost.
    ``image_max`` is the largest disk, in bytes, that an image may be of. An image's file that is
    sent to the API has at most ``upload_max`` bytes, all of a user's at a time ``upload_total``;
    one that is sent no further is kept for ``upload_keep`` seconds.
    A ticket waits ``ticket_s`` for its viewer, an operation that a person interrupted
    ``interrupted_s`` for that person. After ``quarantine_after`` refusals a GPU is quarantined, a
    host cordoned; 0: never. ``mix`` are the requests that are expected, read when they are needed.
    Every ``backup_every`` seconds `serve` writes a backup to the folder ``backup_to`` (None: it
    writes none), of which ``backup_keep`` stay.
    ``api_listen`` is ``HOST:PORT`` of the API over TLS, the files next to it are PEM;
    ``api_loopback`` the port of 127.0.0.1 where a login is not needed to read (0: none).
    Login sessions and tokens are forgotten ``access_keep`` seconds after their end.
    ``auth_oidc_*`` are an identity provider for logins (no issuer: none), ``auth_certificate_user``
    the part of a client certificate that names its user (empty: certificates log in no user).
    Receivers of webhooks are in ``webhook_networks``; (): anywhere but on this machine, in
    link-local networks and at metadata services.
    ``health_actions`` is what `serve` does about GPUs by what they ask for, and ``health_mode``
    whether it does it or says so.
    """

    ledger: str
    state_dir: Path
    policy: PlacementPolicy = DEFAULT_POLICY
    connect_timeout_s: float = 10.0
    call_timeout_s: float = 30.0
    ssh_config: Path | None = None
    lanes: int = DEFAULT_LANES
    defrag_threshold: float = DEFRAG_THRESHOLD
    defrag_mode: Unasked = Unasked.ASK
    image_max: int = IMAGE_MAX_BYTES
    upload_max: int = UPLOAD_MAX_BYTES
    upload_total: int = UPLOAD_TOTAL_BYTES
    upload_keep: float = UPLOAD_KEEP_S
    ticket_s: float = TICKET_S
    evacuate: Unasked = Unasked.ASK
    reserve_hosts: int = 0
    interrupted_s: float = INTERRUPTED_S
    quarantine_after: int = QUARANTINE_AFTER
    mix: Declared | None = None
    backup_to: Path | None = None
    backup_every: float = BACKUP_EVERY_S
    backup_keep: int = BACKUP_KEEP
    api_socket: Path | None = None
    api_listen: str = ""
    api_loopback: int = 0
    api_certificate: Path | None = None
    api_key: Path | None = None
    api_client_ca: Path | None = None
    auth_oidc_issuer: str = ""
    auth_oidc_client_id: str = ""
    auth_oidc_client_secret_file: Path | None = None
    auth_oidc_user_claim: str = "sub"
    auth_oidc_groups_claim: str = "groups"
    auth_oidc_scopes: tuple[str, ...] = ("openid", "profile")
    auth_certificate_user: str = ""
    access_keep: float = ACCESS_KEEP_S
    webhook_networks: tuple[Network, ...] = ()
    health_mode: HealthMode = HealthMode.DRY_RUN
    health_actions: Mapping[ActionClass, Actions] = field(default_factory=lambda: DEFAULT_ACTIONS)

    @property
    def health(self) -> HealthPolicy:
        """What `serve` does about GPUs."""
        return HealthPolicy(mode=self.health_mode, actions=self.health_actions)

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
    for source, values in [
        *setting_sources(environ, folder, _names()),
        ("the command line", overrides or {}),
    ]:
        _check_keys(source, values)
        merged.update({key: _Setting(text, source) for key, text in values.items()})
    return _build(merged, environ)


def _names() -> tuple[str, ...]:
    return tuple(field.name for field in fields(Config))


def _check_keys(source: str, values: Mapping[str, str]) -> None:
    for key in values:
        if key not in _names():
            raise UsageError(
                f"{source}: unknown setting {key}", next=f"known settings: {', '.join(_names())}"
            )


def _build(settings: Mapping[str, _Setting], environ: Mapping[str, str]) -> Config:
    base = Path(environ.get("XDG_STATE_HOME") or home(environ) / ".local" / "state")
    texts = {key: setting.text for key, setting in settings.items() if setting.text}
    state_dir = Path(texts.get("state_dir", base / "vgpumgr")).absolute()
    return Config(
        ledger=texts.get("ledger", str(state_dir / "ledger.sqlite")),
        state_dir=state_dir,
        policy=_policy(settings.get("policy")),
        connect_timeout_s=_number(settings, "connect_timeout_s", 10.0),
        call_timeout_s=_number(settings, "call_timeout_s", 30.0),
        ssh_config=_path(texts, "ssh_config"),
        lanes=_lanes(settings),
        defrag_threshold=_share(settings, "defrag_threshold", DEFRAG_THRESHOLD),
        defrag_mode=_unasked(settings, "defrag_mode"),
        image_max=_bytes(settings, "image_max", IMAGE_MAX_BYTES),
        upload_max=_bytes(settings, "upload_max", UPLOAD_MAX_BYTES),
        upload_total=_bytes(settings, "upload_total", UPLOAD_TOTAL_BYTES),
        upload_keep=_span(settings, "upload_keep", UPLOAD_KEEP_S),
        ticket_s=_number(settings, "ticket_s", TICKET_S),
        evacuate=_unasked(settings, "evacuate"),
        reserve_hosts=_reserve(settings),
        interrupted_s=_number(settings, "interrupted_s", INTERRUPTED_S, or_none=True),
        quarantine_after=_refusals(settings),
        mix=Declared(settings[MIX].text, settings[MIX].source) if MIX in settings else None,
        backup_to=_folder(settings, "backup_to"),
        backup_every=_span(settings, "backup_every", BACKUP_EVERY_S),
        backup_keep=_backups(settings),
        api_socket=_path(texts, "api_socket"),
        api_listen=texts.get("api_listen", ""),
        api_loopback=_port(settings, "api_loopback"),
        api_certificate=_path(texts, "api_certificate"),
        api_key=_path(texts, "api_key"),
        api_client_ca=_path(texts, "api_client_ca"),
        auth_oidc_issuer=_issuer(settings),
        auth_oidc_client_id=texts.get("auth_oidc_client_id", ""),
        auth_oidc_client_secret_file=_path(texts, "auth_oidc_client_secret_file"),
        auth_oidc_user_claim=texts.get("auth_oidc_user_claim", "sub"),
        auth_oidc_groups_claim=_groups_claim(settings),
        auth_oidc_scopes=_words(texts, "auth_oidc_scopes", ("openid", "profile")),
        auth_certificate_user=_certificate_user(settings),
        access_keep=_span(settings, "access_keep", ACCESS_KEEP_S),
        webhook_networks=_networks(settings, "webhook_networks"),
        health_mode=_health_mode(settings),
        health_actions=_health_actions(settings),
    )


def _health_mode(settings: Mapping[str, _Setting]) -> HealthMode:
    setting = settings.get("health_mode")
    if setting is None:
        return HealthMode.DRY_RUN
    if setting.text not in list(HealthMode):
        setting.refuse("health_mode", "is not a mode", next=" or ".join(HealthMode))
    return HealthMode(setting.text)


def _health_actions(settings: Mapping[str, _Setting]) -> Mapping[ActionClass, Actions]:
    setting = settings.get("health_actions")
    if setting is None:
        return DEFAULT_ACTIONS
    try:
        return parse_actions(setting.text)
    except ValueError as error:
        example = "health_actions: reset=drain+reset"
        setting.refuse("health_actions", f"is not understood: {error}", next=example)


def _issuer(settings: Mapping[str, _Setting]) -> str:
    setting = settings.get("auth_oidc_issuer")
    if setting is None or not setting.text:
        return ""
    client = settings.get("auth_oidc_client_id")
    if client is None or not client.text:
        setting.refuse("auth_oidc_issuer", "needs a client", next="auth_oidc_client_id: ID")
    return setting.text


def _groups_claim(settings: Mapping[str, _Setting]) -> str:
    """Empty where it is set so: groups are then not asked for."""
    setting = settings.get("auth_oidc_groups_claim")
    return "groups" if setting is None else setting.text


def _certificate_user(settings: Mapping[str, _Setting]) -> str:
    setting = settings.get("auth_certificate_user")
    if setting is None or not setting.text:
        return ""
    if setting.text not in CERTIFICATE_USERS:
        setting.refuse(
            "auth_certificate_user", "is no part of one", next=" or ".join(CERTIFICATE_USERS)
        )
    return setting.text


def _port(settings: Mapping[str, _Setting], key: str) -> int:
    setting = settings.get(key)
    if setting is None or not setting.text:
        return 0
    if not setting.text.isdecimal() or int(setting.text) > 65535:
        setting.refuse(key, "is no port", next=f"{key}: 8700")
    return int(setting.text)


def _path(texts: Mapping[str, str], key: str) -> Path | None:
    return Path(texts[key]) if key in texts else None


def _words(texts: Mapping[str, str], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """``openid profile groups``, with commas too."""
    return tuple(texts[key].replace(",", " ").split()) if key in texts else default


def _networks(settings: Mapping[str, _Setting], key: str) -> tuple[Network, ...]:
    """``10.20.0.0/16, 2001:db8::/32``."""
    setting = settings.get(key)
    if setting is None:
        return ()
    from ipaddress import ip_network

    try:
        return tuple(map(ip_network, setting.text.replace(",", " ").split()))
    except ValueError as error:
        setting.refuse(key, f"names no networks: {error}", next=f"{key}: 10.20.0.0/16")


def _policy(setting: _Setting | None) -> PlacementPolicy:
    if setting is None:
        return DEFAULT_POLICY
    try:
        return PlacementPolicy(setting.text)
    except ValueError:
        setting.refuse("policy", "is not a policy", next=" or ".join(PlacementPolicy))


def _unasked(settings: Mapping[str, _Setting], key: str) -> Unasked:
    setting = settings.get(key)
    if setting is None:
        return Unasked.ASK
    if setting.text not in list(Unasked):
        setting.refuse(key, "is not a mode", next=" or ".join(Unasked))
    return Unasked(setting.text)


def _number(
    settings: Mapping[str, _Setting], key: str, default: float, *, or_none: bool = False
) -> float:
    """A positive number, or 0 where that means none."""
    setting = settings.get(key)
    if setting is None:
        return default
    try:
        number = float(setting.text)
    except ValueError:
        setting.refuse(key, "is not a number")
    if not 0 <= number < MAX_NUMBER or not (number or or_none):
        setting.refuse(key, "is out of range")
    return number


def _share(settings: Mapping[str, _Setting], key: str, default: float) -> float:
    """``30%``, or ``0.3``."""
    setting = settings.get(key)
    if setting is None:
        return default
    try:
        text = setting.text.strip()
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        setting.refuse(key, "is not a share", next=f"{key}: 30%")
    if not 0 <= share <= 1:
        setting.refuse(key, "is not between 0% and 100%")
    return share


def _bytes(settings: Mapping[str, _Setting], key: str, default: int) -> int:
    """``4TiB``."""
    setting = settings.get(key)
    if setting is None:
        return default
    try:
        return parse_bytes(setting.text)
    except ValueError as error:
        setting.refuse(key, f"is not a size: {error}", next=f"{key}: 4TiB")


def _refusals(settings: Mapping[str, _Setting]) -> int:
    setting = settings.get("quarantine_after")
    if setting is None:
        return QUARANTINE_AFTER
    if not setting.text.isdecimal() or int(setting.text) > MAX_REFUSALS:
        setting.refuse("quarantine_after", f"is not a whole number up to {MAX_REFUSALS}")
    return int(setting.text)


def _reserve(settings: Mapping[str, _Setting]) -> int:
    setting = settings.get("reserve_hosts")
    if setting is None:
        return 0
    if not setting.text.isdecimal() or int(setting.text) > MOST_LOST:
        setting.refuse("reserve_hosts", f"is not a whole number up to {MOST_LOST}")
    return int(setting.text)


def _folder(settings: Mapping[str, _Setting], key: str) -> Path | None:
    """A place that is the same for every process, wherever it was started."""
    setting = settings.get(key)
    if setting is None or not setting.text:
        return None
    if not setting.text.startswith("/"):
        setting.refuse(key, "is not an absolute path", next=f"{key}: /srv/backups")
    return Path(setting.text)


def _span(settings: Mapping[str, _Setting], key: str, default: float) -> float:
    """``6h`` as seconds: from a minute to a year."""
    setting = settings.get(key)
    if setting is None:
        return default
    found = _SPAN.fullmatch(setting.text)
    seconds = int(found[1]) * _SPAN_S[found[2]] if found else 0.0
    if not 60 <= seconds <= 366 * 86_400:
        setting.refuse(key, "is not a time from 1m to 366d", next=f"{key}: 6h")
    return seconds


def _backups(settings: Mapping[str, _Setting]) -> int:
    setting = settings.get("backup_keep")
    if setting is None:
        return BACKUP_KEEP
    if not setting.text.isdecimal() or not 1 <= int(setting.text) <= MAX_BACKUPS:
        setting.refuse("backup_keep", f"is not a whole number from 1 to {MAX_BACKUPS}")
    return int(setting.text)


def _lanes(settings: Mapping[str, _Setting]) -> int:
    lanes = _number(settings, "lanes", float(DEFAULT_LANES))
    if not lanes.is_integer() or lanes > MAX_LANES:
        settings["lanes"].refuse("lanes", f"is not a whole number up to {MAX_LANES}")
    return int(lanes)
