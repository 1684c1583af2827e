"""Setting hosts up and enrolling them: pin the key, run the playbook, probe, write down."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vgpumgr.app.bootstrap import keys, playbook
from vgpumgr.app.bootstrap.events import Event, HostEnd
from vgpumgr.app.bootstrap.faults import fault_of
from vgpumgr.app.bootstrap.known import known_as
from vgpumgr.app.bootstrap.variables import Sent, Wish, of_host
from vgpumgr.app.bootstrap.workplace import Workplace
from vgpumgr.app.composition import App
from vgpumgr.app.enrolment import AcceptKey, keep
from vgpumgr.hosts import enrol as reach
from vgpumgr.hosts.helper.bundle import bundle
from vgpumgr.hosts.helper.install import installer_text
from vgpumgr.hosts.ssh.address import LOCAL, SshAddress
from vgpumgr.hosts.ssh.openssh import OpenSshWay
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import HostRecord

Seen = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One host: how the playbook ended there, and the enrolled record, or why there is none.

    ``end`` is None where it did not start; ``record`` is None after a dry run, too.
    """

    end: HostEnd | None = None
    record: HostRecord | None = None
    error: VgpumgrError | None = None


def set_up(
    app: App,
    records: Sequence[HostRecord],
    wish: Wish,
    *,
    fingerprint: str,
    accept: AcceptKey,
    seen: Seen,
) -> dict[str, Result]:
    """Set hosts up, all at once, and enrol each that came to the end of it.

    A host that is enrolled already is set up again. With ``wish.check`` nothing is changed on the
    hosts, and nothing is enrolled. What is wrong with one host is its result; UsageError,
    Conflict, Interrupted, and VgpumgrError for what is wrong with all.
    """
    playbook.require_programs()
    ledger = app.ledger if wish.check else app.writable_ledger
    known = {record.name: known_as(app, ledger, record) for record in records}
    results: dict[str, Result] = {}
    pinned: dict[str, _Pinned] = {}
    with tempfile.TemporaryDirectory(prefix="vgpumgr-") as folder:
        workplace = Workplace(Path(folder))
        for record in records:
            try:
                before = known[record.name]
                pinned[record.name] = _pin(app, workplace, record, before, fingerprint, accept)
            except VgpumgrError as error:
                results[record.name] = Result(error=error)
        if not pinned:
            return results
        _fill(app, workplace, list(pinned.values()), wish)
        ends = playbook.run(workplace, list(pinned), check=wish.check, seen=seen, stop=app.stop)
    for name, end in ends.items():
        results[name] = _result(app, pinned[name], wish, end)
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pinned:
    """A host whose key was checked: as it will be enrolled, as it was, and OpenSSH's way to it."""

    record: HostRecord
    before: HostRecord | None
    way: OpenSshWay | None


def _pin(
    app: App,
    workplace: Workplace,
    record: HostRecord,
    before: HostRecord | None,
    fingerprint: str,
    accept: AcceptKey,
) -> _Pinned:
    wanted = fingerprint or record.host_key or (before.host_key if before else "")
    found = reach.pin(app.real_hosts, record, wanted, accept)
    migration = record.migration or (before.migration if before else None)
    local = record.address == LOCAL
    return _Pinned(
        record=replace(found, migration=migration),
        before=before,
        way=None if local else app.real_hosts.ways.openssh(found, workplace.folder),
    )


def _fill(app: App, workplace: Workplace, pinned: Sequence[_Pinned], wish: Wish) -> None:
    own_key = app.config.keys_dir / "id_ed25519"
    sent = Sent(
        bundle=workplace.write("bundle.zip", bundle()),
        installer=workplace.write("installer.py", installer_text().encode()),
        ca_folder=app.config.keys_dir / "migration-ca",
        public_key=(keys.public_key_if_any if wish.check else keys.public_key)(own_key),
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


def _result(app: App, pinned: _Pinned, wish: Wish, end: HostEnd) -> Result:
    record = pinned.record
    user = app.real_hosts.user(record)
    error = fault_of(record.name, user, end)
    if error is not None or wish.check:
        return Result(end=end, error=error)
    try:
        enrolled = _enrol(
            app, replace(record, address=_address(record, user, wish)), again=pinned.before
        )
    except VgpumgrError as refusal:
        return Result(end=end, error=refusal)
    return Result(end=end, record=enrolled)


def _address(record: HostRecord, user: str, wish: Wish) -> str:
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
