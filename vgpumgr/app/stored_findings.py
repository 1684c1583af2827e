"""What `doctor` finds about what is stored: scheduled backups, secrets, notifications."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from vgpumgr.app import ledger_admin
from vgpumgr.app.backup_schedule import OVERDUE, newest_backup
from vgpumgr.app.composition import App
from vgpumgr.app.config import Config
from vgpumgr.app.notifications.mail_server import mail_server
from vgpumgr.model.errors import LedgerError, UsageError
from vgpumgr.model.examination import CheckOutcome, Finding
from vgpumgr.model.formats import counted, size_words, span_words
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ledger_state import KeptBackup
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import SecretState, by_secret

_SECRETS = "secrets"
_SAYS = {
    SecretState.CHANGED: "has another value than was set, or its key is another",
    SecretState.MISSING: "has no value on this machine",
}


def secret_findings(app: App) -> Iterator[Finding]:
    """Nothing where there are no secrets."""
    records = {(each.tenant, each.name): each for each in app.ledger.secrets()}
    users = by_secret(app.ledger.secret_references())
    every = sorted({*records, *users, *app.secrets.names()})
    sound = True
    for tenant, name in every:
        state, why = app.secrets.state(tenant, name, records.get((tenant, name)))
        if state in {SecretState.PRESENT, SecretState.UNRECORDED}:
            continue
        sound = False
        used = f" (used by {', '.join(by)})" if (by := users.get((tenant, name))) else ""
        whose = "" if tenant == EVERY_TENANT else f" of tenant {tenant}"
        says = why or _SAYS[state]
        mend = f"vgpumgr secret set {name} --tenant '{tenant}'"
        yield _bad_secret(f"{name}{whose} {says}{used}", mend)
    if every and sound:
        yield Finding(check=_SECRETS, mark=CheckOutcome.OK, text=counted(len(every), "secret"))


def _bad_secret(text: str, next: str) -> Finding:
    return Finding(check=_SECRETS, mark=CheckOutcome.BAD, text=text, next=next)


_CHECK = "backup"
_SERVE = "vgpumgr serve   (its events backup-failed say why; it makes the next one)"


def backup_findings(app: App) -> Iterator[Finding]:
    """Nothing where no backups are asked for."""
    folder = app.config.backup_to
    if folder is None:
        return
    try:
        kept = ledger_admin.kept_backups(folder, app.ledger.fleet_id())
    except LedgerError as error:
        yield _bad(f"{error.message}: {error.why}", error.next)
        return
    yield from _place(app, folder, kept)
    problem = _overdue(app.config.backup_every, kept, time.time())
    if not problem:
        yield Finding(check=_CHECK, mark=CheckOutcome.OK, text=f"{kept[-1].path}")
        return
    yield _bad(problem, _SERVE)
    # Who looks may be kept from writing there by other rules than who backs up.
    if not os.access(folder, os.W_OK | os.X_OK):
        yield _bad(f"{folder} cannot be written to", f"ls -ld {folder}; findmnt --target {folder}")


def _place(app: App, folder: Path, kept: tuple[KeptBackup, ...]) -> Iterator[Finding]:
    if folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield _bad(f"others may remove backups from {folder}", f"chmod go-w {folder}")
    free = shutil.disk_usage(folder).free
    if kept and free < kept[-1].size:
        sizes = f"{size_words(free)} free, the last one has {size_words(kept[-1].size)}"
        yield _bad(f"there is no room in {folder} for another backup: {sizes}", f"df -h {folder}")
    file = Path(app.config.ledger)
    if file.exists() and file.stat().st_dev == folder.stat().st_dev:
        text = f"{folder} is on the same disk as the ledger: who loses one loses both"
        next = f"findmnt --target {folder}   (is it mounted?)"
        yield Finding(check=_CHECK, mark=CheckOutcome.WARN, text=text, next=next)


def _overdue(every_s: float, kept: tuple[KeptBackup, ...], now: float) -> str:
    """What is wrong with the newest one's age; empty where nothing is."""
    newest = newest_backup(list(kept), now)
    if newest is None:
        return "there is no backup yet"
    age = now - newest.at
    if age <= OVERDUE * every_s:
        return ""
    return f"the newest backup is {span_words(age)} old, one every {span_words(every_s)} is set"


def _bad(text: str, next: str) -> Finding:
    return Finding(check=_CHECK, mark=CheckOutcome.BAD, text=text, next=next)


def notification_findings(ledger: Ledger, config: Config) -> Iterator[Finding]:
    """A finding for each rule by which nothing is sent; one line where all is well."""
    rules = ledger.notifications()
    if not rules:
        return
    found = [*_server_faults(config)]
    for each in rules:
        if each.failures:
            state = "paused" if each.paused_at is not None else "fails"
            tried = counted(each.failures, "attempt")
            yield Finding(
                check=f"notification {each.name}",
                mark=CheckOutcome.WARN,
                text=f"{state}: {tried} failed: {each.why}",
                next=f"vgpumgr notification test {each.name}",
            )
    yield from found
    if not found and not any(each.failures for each in rules):
        text = f"{counted(len(rules), 'rule')}, none fails"
        yield Finding(check="notifications", mark=CheckOutcome.OK, text=text)


def _server_faults(config: Config) -> Iterator[Finding]:
    why, next = "the settings name no mail server", "mail_server: mail.example.com:587"
    try:
        if mail_server(config) is not None:
            return
    except UsageError as error:
        why, next = error.message, error.next
    yield Finding(check="notifications", mark=CheckOutcome.BAD, text=why, next=next)
