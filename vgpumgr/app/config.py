"""Settings: flag > ``VGPUMGR_*`` > ``./vgpumgr.yaml`` > the user's > the system's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.app import setting_values as values
from vgpumgr.app.directory_values import directory_values
from vgpumgr.app.setting_files import MIX, home, setting_sources
from vgpumgr.app.setting_values import (
    BACKUP_KEEP,
    DEFAULT_LANES,
    DEFRAG_THRESHOLD,
    QUARANTINE_AFTER,
    MailSecurity,
    SeriesChoice,
    SettingText,
    Unasked,
)
from vgpumgr.health.health_policy import DEFAULT_ACTIONS, Actions, HealthMode, HealthPolicy
from vgpumgr.model.errors import UsageError
from vgpumgr.model.health import ActionClass
from vgpumgr.model.vm import DEFAULT_POLICY, PlacementPolicy

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    Network = IPv4Network | IPv6Network

IMAGE_MAX_BYTES = 2 << 40
UPLOAD_MAX_BYTES, UPLOAD_TOTAL_BYTES = 256 << 30, 512 << 30
UPLOAD_KEEP_S = 24 * 3600.0
ACCESS_KEEP_S = 90 * 86_400.0
TICKET_S = 60.0
INTERRUPTED_S = 900.0
TELEMETRY_S = 15.0
BACKUP_EVERY_S = 6 * 3600.0


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
    ``auth_oidc_*`` are an identity provider for logins (no issuer: none), ``auth_ldap_*`` a
    directory (no URL: none), ``auth_certificate_user`` the part of a client certificate that names
    its user (empty: certificates log in no user).
    Every ``telemetry_interval`` seconds (0: never) `serve` asks hosts for their figures, and
    writes what comes of them to ``telemetry_dir``: ``telemetry_series`` says which series,
    ``telemetry_user_labels`` whether owners of dedicated desktops are named in labels.
    Receivers of webhooks are in ``webhook_networks``; (): anywhere but on this machine, in
    link-local networks and at metadata services.
    Mail of notifications goes to ``mail_server`` (empty: none does), a ``HOST:PORT``, from
    ``mail_from``; ``mail_password`` names the secret of the fleet that ``mail_user`` logs in with,
    ``mail_ca`` a file of certificates to trust in place of the system's.
    ``health_actions`` is what `serve` does about GPUs by what they ask for, and ``health_mode``
    whether it does it or says so; ``power_mode`` the same of power budgets and hot GPUs.
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
    auth_ldap_url: tuple[str, ...] = ()
    auth_ldap_bind_dn: str = ""
    auth_ldap_bind_password_file: Path | None = None
    auth_ldap_user_base: str = ""
    auth_ldap_user_filter: str = "(uid={user})"
    auth_ldap_user_name: str = "uid"
    auth_ldap_group_base: str = ""
    auth_ldap_group_filter: str = "(member={dn})"
    auth_ldap_group_name: str = "cn"
    auth_ldap_nested: bool = False
    auth_ldap_ca: Path | None = None
    auth_certificate_user: str = ""
    access_keep: float = ACCESS_KEEP_S
    telemetry_interval: float = TELEMETRY_S
    telemetry_series: SeriesChoice = SeriesChoice.NORMAL
    telemetry_user_labels: bool = False
    telemetry_dir: Path | None = None
    webhook_networks: tuple[Network, ...] = ()
    mail_server: str = ""
    mail_security: MailSecurity = MailSecurity.STARTTLS
    mail_from: str = ""
    mail_user: str = ""
    mail_password: str = ""
    mail_ca: Path | None = None
    health_mode: HealthMode = HealthMode.DRY_RUN
    power_mode: HealthMode = HealthMode.DRY_RUN
    health_actions: Mapping[ActionClass, Actions] = field(default_factory=lambda: DEFAULT_ACTIONS)

    @property
    def health(self) -> HealthPolicy:
        """What `serve` does about GPUs."""
        return HealthPolicy(mode=self.health_mode, actions=self.health_actions)

    @property
    def telemetry_folder(self) -> Path:
        """Where the newest figures lie."""
        return self.telemetry_dir or self.state_dir / "telemetry"

    @property
    def keys_dir(self) -> Path:
        """The controller's own keys: its SSH key and the CA for migrations."""
        return self.state_dir / "keys"


def load_config(
    environ: Mapping[str, str], folder: Path, overrides: Mapping[str, str] | None = None
) -> Config:
    """Merge all sources, the strongest last. UsageError names the source of a bad value."""
    merged: dict[str, SettingText] = {}
    for source, found in [
        *setting_sources(environ, folder, _names()),
        ("the command line", overrides or {}),
    ]:
        _check_keys(source, found)
        merged.update({key: SettingText(text, source) for key, text in found.items()})
    return _build(merged, environ)


def _names() -> tuple[str, ...]:
    return tuple(field.name for field in fields(Config))


def _check_keys(source: str, values: Mapping[str, str]) -> None:
    for key in values:
        if key not in _names():
            below = [name for name in _names() if name.startswith(f"{key}_")]
            if len(below) == 1:
                inner = below[0].removeprefix(f"{key}_")
                raise UsageError(
                    f"{source}: {key} is a group of settings",
                    why=f"its value is that of {inner} in it",
                    next=f"{key}: {{{inner}: {values[key]}}}",
                )
            raise UsageError(
                f"{source}: unknown setting {key}", next=f"known settings: {', '.join(_names())}"
            )


def _build(settings: Mapping[str, SettingText], environ: Mapping[str, str]) -> Config:
    base = Path(environ.get("XDG_STATE_HOME") or home(environ) / ".local" / "state")
    texts = {key: setting.text for key, setting in settings.items() if setting.text}
    state_dir = Path(texts.get("state_dir", base / "vgpumgr")).absolute()
    return Config(
        ledger=texts.get("ledger", str(state_dir / "ledger.sqlite")),
        state_dir=state_dir,
        policy=values.policy(settings.get("policy")),
        connect_timeout_s=values.number(settings, "connect_timeout_s", 10.0),
        call_timeout_s=values.number(settings, "call_timeout_s", 30.0),
        ssh_config=values.path(texts, "ssh_config"),
        lanes=values.lanes(settings),
        defrag_threshold=values.share(settings, "defrag_threshold", DEFRAG_THRESHOLD),
        defrag_mode=values.unasked(settings, "defrag_mode"),
        image_max=values.byte_size(settings, "image_max", IMAGE_MAX_BYTES),
        upload_max=values.byte_size(settings, "upload_max", UPLOAD_MAX_BYTES),
        upload_total=values.byte_size(settings, "upload_total", UPLOAD_TOTAL_BYTES),
        upload_keep=values.span(settings, "upload_keep", UPLOAD_KEEP_S),
        ticket_s=values.number(settings, "ticket_s", TICKET_S),
        evacuate=values.unasked(settings, "evacuate"),
        reserve_hosts=values.reserve(settings),
        interrupted_s=values.number(settings, "interrupted_s", INTERRUPTED_S, or_none=True),
        quarantine_after=values.refusals(settings),
        mix=Declared(settings[MIX].text, settings[MIX].source) if MIX in settings else None,
        backup_to=values.folder(settings, "backup_to"),
        backup_every=values.span(settings, "backup_every", BACKUP_EVERY_S),
        backup_keep=values.backups(settings),
        api_socket=values.path(texts, "api_socket"),
        api_listen=texts.get("api_listen", ""),
        api_loopback=values.port(settings, "api_loopback"),
        api_certificate=values.path(texts, "api_certificate"),
        api_key=values.path(texts, "api_key"),
        api_client_ca=values.path(texts, "api_client_ca"),
        auth_oidc_issuer=values.issuer(settings),
        auth_oidc_client_id=texts.get("auth_oidc_client_id", ""),
        auth_oidc_client_secret_file=values.path(texts, "auth_oidc_client_secret_file"),
        auth_oidc_user_claim=texts.get("auth_oidc_user_claim", "sub"),
        auth_oidc_groups_claim=values.groups_claim(settings),
        auth_oidc_scopes=values.words(texts, "auth_oidc_scopes", ("openid", "profile")),
        **directory_values(settings),
        auth_certificate_user=values.certificate_user(settings),
        access_keep=values.span(settings, "access_keep", ACCESS_KEEP_S),
        telemetry_interval=values.number(settings, "telemetry_interval", TELEMETRY_S, or_none=True),
        telemetry_series=values.series(settings, "telemetry_series"),
        telemetry_user_labels=values.flag(settings, "telemetry_user_labels"),
        telemetry_dir=values.folder(settings, "telemetry_dir"),
        webhook_networks=values.networks(settings, "webhook_networks"),
        health_mode=values.action_mode(settings, "health_mode"),
        power_mode=values.action_mode(settings, "power_mode"),
        mail_server=texts.get("mail_server", ""),
        mail_security=values.mail_security(settings, "mail_security"),
        mail_from=texts.get("mail_from", ""),
        mail_user=texts.get("mail_user", ""),
        mail_password=texts.get("mail_password", ""),
        mail_ca=values.path(texts, "mail_ca"),
        health_actions=values.health_actions(settings),
    )
