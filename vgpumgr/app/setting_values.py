"""Values of settings, from the text in which they were written; UsageError names the source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from vgpumgr.health.health_policy import DEFAULT_ACTIONS, Actions, HealthMode, parse_actions
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
QUARANTINE_AFTER = 3
MAX_REFUSALS = 1000
BACKUP_KEEP = 14
MAX_BACKUPS = 10_000
_SPAN = re.compile(r"([0-9]{1,5})(m|h|d)")
_SPAN_S = {"m": 60.0, "h": 3600.0, "d": 86_400.0}
CERTIFICATE_USERS = ("email", "uri", "cn", "fingerprint")


class Unasked(StrEnum):
    """What `serve` does where it could act unasked: it says what to type, or does it."""

    ASK = "ask"
    AUTOMATIC = "automatic"


class SeriesChoice(StrEnum):
    """Which series of metrics are written: those within the budget, or all that hosts tell."""

    NORMAL = "normal"
    ALL = "all"


class MailSecurity(StrEnum):
    """How the connection to the mail server is secured."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SettingText:
    """One value as text, and where it was written."""

    text: str
    source: str

    def refuse(self, key: str, problem: str, next: str = "") -> NoReturn:
        """UsageError: the value, where it was written, and what is wrong with it."""
        raise UsageError(f"{self.source}: {key}: {self.text} {problem}", next=next)


def issuer(settings: Mapping[str, SettingText]) -> str:
    """The provider's address; it needs a client."""
    setting = settings.get("auth_oidc_issuer")
    if setting is None or not setting.text:
        return ""
    client = settings.get("auth_oidc_client_id")
    if client is None or not client.text:
        setting.refuse("auth_oidc_issuer", "needs a client", next="auth_oidc_client_id: ID")
    return setting.text


def groups_claim(settings: Mapping[str, SettingText]) -> str:
    """Empty where it is set so: groups are then not asked for."""
    setting = settings.get("auth_oidc_groups_claim")
    return "groups" if setting is None else setting.text


def certificate_user(settings: Mapping[str, SettingText]) -> str:
    """One of CERTIFICATE_USERS, or empty."""
    setting = settings.get("auth_certificate_user")
    if setting is None or not setting.text:
        return ""
    if setting.text not in CERTIFICATE_USERS:
        setting.refuse(
            "auth_certificate_user", "is no part of one", next=" or ".join(CERTIFICATE_USERS)
        )
    return setting.text


def port(settings: Mapping[str, SettingText], key: str) -> int:
    """A port, or 0."""
    setting = settings.get(key)
    if setting is None or not setting.text:
        return 0
    if not setting.text.isdecimal() or int(setting.text) > 65535:
        setting.refuse(key, "is no port", next=f"{key}: 8700")
    return int(setting.text)


def path(texts: Mapping[str, str], key: str) -> Path | None:
    """A path, or None."""
    return Path(texts[key]) if key in texts else None


def words(texts: Mapping[str, str], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """``openid profile groups``, with commas too."""
    return tuple(texts[key].replace(",", " ").split()) if key in texts else default


def networks(settings: Mapping[str, SettingText], key: str) -> tuple[Network, ...]:
    """``10.20.0.0/16, 2001:db8::/32``."""
    setting = settings.get(key)
    if setting is None:
        return ()
    from ipaddress import ip_network

    try:
        return tuple(map(ip_network, setting.text.replace(",", " ").split()))
    except ValueError as error:
        setting.refuse(key, f"names no networks: {error}", next=f"{key}: 10.20.0.0/16")


def policy(setting: SettingText | None) -> PlacementPolicy:
    """A placement policy."""
    if setting is None:
        return DEFAULT_POLICY
    try:
        return PlacementPolicy(setting.text)
    except ValueError:
        setting.refuse("policy", "is not a policy", next=" or ".join(PlacementPolicy))


def unasked(settings: Mapping[str, SettingText], key: str) -> Unasked:
    """A mode."""
    setting = settings.get(key)
    if setting is None:
        return Unasked.ASK
    if setting.text not in list(Unasked):
        setting.refuse(key, "is not a mode", next=" or ".join(Unasked))
    return Unasked(setting.text)


def action_mode(settings: Mapping[str, SettingText], key: str) -> HealthMode:
    """Whether `serve` acts, or says what it would do."""
    setting = settings.get(key)
    if setting is None:
        return HealthMode.DRY_RUN
    if setting.text not in list(HealthMode):
        setting.refuse(key, "is not a mode", next=" or ".join(HealthMode))
    return HealthMode(setting.text)


def health_actions(settings: Mapping[str, SettingText]) -> Mapping[ActionClass, Actions]:
    """``reset=drain+reset``, and the defaults of what is not named."""
    setting = settings.get("health_actions")
    if setting is None:
        return DEFAULT_ACTIONS
    try:
        return parse_actions(setting.text)
    except ValueError as error:
        example = "health_actions: reset=drain+reset"
        setting.refuse("health_actions", f"is not understood: {error}", next=example)


def series(settings: Mapping[str, SettingText], key: str) -> SeriesChoice:
    """Which series."""
    setting = settings.get(key)
    if setting is None:
        return SeriesChoice.NORMAL
    if setting.text not in list(SeriesChoice):
        setting.refuse(key, "is no choice of series", next=" or ".join(SeriesChoice))
    return SeriesChoice(setting.text)


def flag(settings: Mapping[str, SettingText], key: str) -> bool:
    """``true`` or ``false``."""
    setting = settings.get(key)
    if setting is None:
        return False
    if setting.text.lower() not in {"true", "false"}:
        setting.refuse(key, "is neither true nor false")
    return setting.text.lower() == "true"


def number(
    settings: Mapping[str, SettingText], key: str, default: float, *, or_none: bool = False
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


def share(settings: Mapping[str, SettingText], key: str, default: float) -> float:
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


def byte_size(settings: Mapping[str, SettingText], key: str, default: int) -> int:
    """``4TiB``."""
    setting = settings.get(key)
    if setting is None:
        return default
    try:
        return parse_bytes(setting.text)
    except ValueError as error:
        setting.refuse(key, f"is not a size: {error}", next=f"{key}: 4TiB")


def refusals(settings: Mapping[str, SettingText]) -> int:
    """A whole number."""
    setting = settings.get("quarantine_after")
    if setting is None:
        return QUARANTINE_AFTER
    if not setting.text.isdecimal() or int(setting.text) > MAX_REFUSALS:
        setting.refuse("quarantine_after", f"is not a whole number up to {MAX_REFUSALS}")
    return int(setting.text)


def reserve(settings: Mapping[str, SettingText]) -> int:
    """The hosts that may be lost at once."""
    setting = settings.get("reserve_hosts")
    if setting is None:
        return 0
    if not setting.text.isdecimal() or int(setting.text) > MOST_LOST:
        setting.refuse("reserve_hosts", f"is not a whole number up to {MOST_LOST}")
    return int(setting.text)


def folder(settings: Mapping[str, SettingText], key: str) -> Path | None:
    """A place that is the same for every process, wherever it was started."""
    setting = settings.get(key)
    if setting is None or not setting.text:
        return None
    if not setting.text.startswith("/"):
        setting.refuse(key, "is not an absolute path", next=f"{key}: /srv/backups")
    return Path(setting.text)


def mail_security(settings: Mapping[str, SettingText], key: str) -> MailSecurity:
    """One of its words; STARTTLS where it is not set."""
    setting = settings.get(key)
    if setting is None or not setting.text:
        return MailSecurity.STARTTLS
    if setting.text not in set(MailSecurity):
        setting.refuse(key, f"is none of {', '.join(MailSecurity)}")
    return MailSecurity(setting.text)


def span(settings: Mapping[str, SettingText], key: str, default: float) -> float:
    """``6h`` as seconds: from a minute to a year."""
    setting = settings.get(key)
    if setting is None:
        return default
    found = _SPAN.fullmatch(setting.text)
    seconds = int(found[1]) * _SPAN_S[found[2]] if found else 0.0
    if not 60 <= seconds <= 366 * 86_400:
        setting.refuse(key, "is not a time from 1m to 366d", next=f"{key}: 6h")
    return seconds


def backups(settings: Mapping[str, SettingText]) -> int:
    """A whole number from 1."""
    setting = settings.get("backup_keep")
    if setting is None:
        return BACKUP_KEEP
    if not setting.text.isdecimal() or not 1 <= int(setting.text) <= MAX_BACKUPS:
        setting.refuse("backup_keep", f"is not a whole number from 1 to {MAX_BACKUPS}")
    return int(setting.text)


def lanes(settings: Mapping[str, SettingText]) -> int:
    """A whole number from 1."""
    lanes = number(settings, "lanes", float(DEFAULT_LANES))
    if not lanes.is_integer() or lanes > MAX_LANES:
        settings["lanes"].refuse("lanes", f"is not a whole number up to {MAX_LANES}")
    return int(lanes)
