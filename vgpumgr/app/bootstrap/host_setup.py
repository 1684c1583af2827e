"""Hosts set up and enrolled: controller key, pinned host key, playbook, probe, ledger."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vgpumgr.app.bootstrap import playbook_run
from vgpumgr.app.bootstrap.playbook_events import HostSetupEnd, PlaybookEvent, fault_of
from vgpumgr.app.bootstrap.playbook_run import AnsibleFolder
from vgpumgr.app.bootstrap.variables import Sent, SetupRequest, of_host
from vgpumgr.app.composition import App, is_simulated
from vgpumgr.app.enrolment import AcceptKey, keep
from vgpumgr.hosts import real_hosts as reach
from vgpumgr.hosts.helper.helper_installation import installer_text
from vgpumgr.hosts.helper.helper_launch import bundle
from vgpumgr.hosts.ssh.routes import OpenSshRoute
from vgpumgr.hosts.ssh.ssh_config import LOCAL, SshAddress
from vgpumgr.model.errors import Conflict, UsageError, VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ledger import Ledger


def enrolled_already(app: App, ledger: Ledger, record: HostRecord) -> HostRecord | None:
    """The ledger's record of this host, None for a new one.

    Conflict where its name or its place is another host's; UsageError for a simulated host.
    """
    if is_simulated(record):
        raise UsageError(
            f"{record.name} is simulated: there is nothing to set up",
            next=f"vgpumgr host add {record.name} --address {record.address}",
        )
    place = _endpoint(app, record)
    for other in ledger.hosts():
        same = not is_simulated(other) and _endpoint(app, other) == place
        if same and other.name == record.name:
            return other
        if same or other.name == record.name:
            raise Conflict(
                f"host {other.name} ({other.address}) is enrolled already",
                next=f"vgpumgr host show {other.name}",
            )
    return None


def _endpoint(app: App, record: HostRecord) -> tuple[str, int]:
    """Where it is, whoever comes."""
    if record.address == LOCAL:
        return LOCAL, 0
    target = app.real_hosts.ways.target(record.address)
    return target.host, target.port


NOT_YET = "ssh-ed25519 (the controller's key, made by the first run) vgpumgr"


def public_key(private: Path) -> str:
    """The public half, one line; the pair is made on first use, 0600, without a passphrase.

    Two who start at once get the same one. VgpumgrError without ``ssh-keygen``.
    """
    public = private.with_suffix(".pub")
    if not public.exists():
        _make(private)
    return public.read_text().strip()


def public_key_if_any(private: Path) -> str:
    """The same for a dry run: nothing is made."""
    public = private.with_suffix(".pub")
    return public.read_text().strip() if public.exists() else NOT_YET


def _make(private: Path) -> None:
    private.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=private.parent) as folder:
        draft = Path(folder) / private.name
        _keygen("-q", "-t", "ed25519", "-N", "", "-C", "vgpumgr", "-f", str(draft))
        _link(draft, private)
        # Of whichever private half was first.
        public = draft.with_suffix(".fresh")
        public.write_text(_keygen("-y", "-f", str(private)))
        _link(public, private.with_suffix(".pub"))


def _keygen(*args: str) -> str:
    try:
        ran = subprocess.run(["ssh-keygen", *args], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", "") or str(error)
        raise VgpumgrError(
            "the controller's SSH key could not be created",
            why=why.strip(),
            next="install OpenSSH's client   (Debian: apt install openssh-client)",
        ) from error
    return ran.stdout


def _link(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return


OnPlaybookEvent = Callable[[PlaybookEvent], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupResult:
    """One host: how the playbook ended there, and the enrolled record, or why there is none.

    ``end`` is None where it did not start; ``record`` is None after a dry run, too.
    """

    end: HostSetupEnd | None = None
    record: HostRecord | None = None
    error: VgpumgrError | None = None


def set_up_hosts(
    app: App,
    records: Sequence[HostRecord],
    wish: SetupRequest,
    *,
    fingerprint: str,
    accept: AcceptKey,
    seen: OnPlaybookEvent,
) -> dict[str, SetupResult]:
    """Set hosts up, all at once, and enrol each that came to the end of it.

    A host that is enrolled already is set up again. With ``wish.check`` nothing is changed on the
    hosts, and nothing is enrolled. What is wrong with one host is its result; UsageError,
    Conflict, Interrupted, and VgpumgrError for what is wrong with all.
    """
    playbook_run.require_programs()
    ledger = app.ledger if wish.check else app.writable_ledger
    known = {record.name: enrolled_already(app, ledger, record) for record in records}
    results: dict[str, SetupResult] = {}
    pinned: dict[str, _Pinned] = {}
    with tempfile.TemporaryDirectory(prefix="vgpumgr-") as folder:
        workplace = AnsibleFolder(Path(folder))
        for record in records:
            try:
                before = known[record.name]
                pinned[record.name] = _pin(app, workplace, record, before, fingerprint, accept)
            except VgpumgrError as error:
                results[record.name] = SetupResult(error=error)
        if not pinned:
            return results
        _fill(app, workplace, list(pinned.values()), wish)
        ends = playbook_run.run_playbook(
            workplace, list(pinned), check=wish.check, seen=seen, stop=app.stop
        )
    for name, end in ends.items():
        results[name] = _result(app, pinned[name], wish, end)
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pinned:
    """A host whose key was checked: as it will be enrolled, as it was, and OpenSSH's way to it."""

    record: HostRecord
    before: HostRecord | None
    way: OpenSshRoute | None


def _pin(
    app: App,
    workplace: AnsibleFolder,
    record: HostRecord,
    before: HostRecord | None,
    fingerprint: str,
    accept: AcceptKey,
) -> _Pinned:
    wanted = fingerprint or record.host_key or (before.host_key if before else "")
    found = reach.pin_host_key(app.real_hosts, record, wanted, accept)
    migration = record.migration or (before.migration if before else None)
    local = record.address == LOCAL
    return _Pinned(
        record=replace(found, migration=migration),
        before=before,
        way=None if local else app.real_hosts.ways.openssh(found, workplace.folder),
    )


def _fill(
    app: App, workplace: AnsibleFolder, pinned: Sequence[_Pinned], wish: SetupRequest
) -> None:
    own_key = app.config.keys_dir / "id_ed25519"
    sent = Sent(
        bundle=workplace.write("bundle.zip", bundle()),
        installer=workplace.write("installer.py", installer_text().encode()),
        ca_folder=app.config.keys_dir / "migration-ca",
        public_key=(public_key_if_any if wish.check else public_key)(own_key),
    )
    records = [each.record for each in pinned]
    workplace.fill(
        {
            record.name: of_host(
                record, _place(app, record), app.real_hosts.user(record), wish, sent
            )
            for record in records
        },
        wish.variables,
        [each.way for each in pinned if each.way is not None],
    )


def _place(app: App, record: HostRecord) -> str:
    return LOCAL if record.address == LOCAL else app.real_hosts.ways.target(record.address).host


def _result(app: App, pinned: _Pinned, wish: SetupRequest, end: HostSetupEnd) -> SetupResult:
    record = pinned.record
    user = app.real_hosts.user(record)
    error = fault_of(record.name, user, end)
    if error is not None or wish.check:
        return SetupResult(end=end, error=error)
    try:
        enrolled = _enrol(
            app, replace(record, address=_address(record, user, wish)), again=pinned.before
        )
    except VgpumgrError as refusal:
        return SetupResult(end=end, error=refusal)
    return SetupResult(end=end, record=enrolled)


def _address(record: HostRecord, user: str, wish: SetupRequest) -> str:
    """Where and by whom the host is reached from now on."""
    if record.address == LOCAL or wish.user(user) == user:
        return record.address
    return str(replace(SshAddress.parse(record.address), user=wish.user(user)))


def _enrol(app: App, record: HostRecord, *, again: HostRecord | None) -> HostRecord:
    if again is None:
        return keep(app, record)
    ledger = app.writable_ledger
    current = ledger.host(record.name)
    ledger.update_host(
        replace(
            current,
            address=record.address,
            host_key=record.host_key,
            migration=record.migration,
            probe_only=False,
        )
    )
    app.engine.refresh([record.name])
    return ledger.host(record.name)
