"""The ledger in SQL: each of its methods, and the one transaction that the method is."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeAlias, TypeVar

from sqlalchemy import Connection, select

from vgpumgr.model.actor import Actor, LoginMethod
from vgpumgr.model.api_request import RequestKey, current_request
from vgpumgr.model.host import HostFacts
from vgpumgr.model.operation import OperationMoved, Reservation, Transition
from vgpumgr.model.refusal import Refusal
from vgpumgr.store.admin.opening import BUSY_TIMEOUT_S, Migrated, claims_of, open_database
from vgpumgr.store.database.change_counter import ChangeCounter
from vgpumgr.store.database.connections import Database, GroupWriter, retried
from vgpumgr.store.database.locks import ProcessLocks
from vgpumgr.store.database.postgresql import WorkListener, notify
from vgpumgr.store.ledger import audit_trail
from vgpumgr.store.ledger import epoch as epoch_sql
from vgpumgr.store.ledger import operations as operations_sql
from vgpumgr.store.ledger.audit_trail import Stamp
from vgpumgr.store.ledger.operations import LeaseHolder
from vgpumgr.store.ledger_modules import (
    access_events_sql,
    access_sql,
    allocations_sql,
    api_requests_sql,
    calendars_sql,
    flavours_sql,
    gpu_health_sql,
    gpus_sql,
    guests_sql,
    history_sql,
    hosts_sql,
    images_sql,
    licences_sql,
    logoff_moves_sql,
    looks_sql,
    notifications_sql,
    observations_sql,
    pools_sql,
    power_sql,
    prices_sql,
    profile_disks_sql,
    purges,
    queue_sql,
    quotas_sql,
    recovery_sql,
    refusals_sql,
    reservations_sql,
    seals_sql,
    secrets_sql,
    tickets_sql,
    transitions_sql,
    usage_sql,
    vm_backups_sql,
    vms_sql,
    webhooks_sql,
)
from vgpumgr.store.schema import meta

if TYPE_CHECKING:
    from vgpumgr.model.role_binding import Scope
    from vgpumgr.model.scoped_reads import ScopedReads
    from vgpumgr.model.sealed_trail import SignHead, TreeHead

P = ParamSpec("P")
T = TypeVar("T")

MOST_SEALED = 2000
"""Bounds the time for which a seal holds the database's write lock."""
AskedTransitions: TypeAlias = tuple[Actor, Sequence[Transition]]
"""Transitions, and who asks for them: the thread that commits is not the one that asks."""


def reads(work: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[SqlLedger, P], T]:
    """A method of the ledger that is ``work`` in a read transaction."""

    @wraps(work)
    def read(ledger: SqlLedger, /, *args: P.args, **named: P.kwargs) -> T:
        with ledger._database.read() as connection:
            return work(connection, *args, **named)

    return read


def writes(work: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[SqlLedger, P], T]:
    """A method of the ledger that is ``work`` in a write transaction."""

    @wraps(work)
    @retried
    def write(ledger: SqlLedger, /, *args: P.args, **named: P.kwargs) -> T:
        with ledger._database.write() as connection:
            return work(connection, *args, **named)

    return write


def changes(
    work: Callable[Concatenate[Connection, Stamp, P], T],
    *,
    heard: bool = False,
    requested: bool = True,
) -> Callable[Concatenate[SqlLedger, P], T]:
    """The same where ``work`` tells the audit trail, by whom and when.

    What is ``heard`` may be work for other controllers: those that listen are told at the commit.
    What is ``requested`` carries the key of the request over HTTP that it is for; what hosts show
    is not.
    """

    @wraps(work)
    @retried
    def change(ledger: SqlLedger, /, *args: P.args, **named: P.kwargs) -> T:
        with ledger._database.write() as connection:
            if requested and current_request() is not None:
                api_requests_sql.bind_request(connection, ledger._now())
            done = work(connection, ledger.stamp(), *args, **named)
            if heard:
                ledger.tell(connection)
            return done

    return change


class SqlLedger(LeaseHolder):
    """The ledger over one database; safe to share between threads."""

    def __init__(
        self, database: Database, claims: ProcessLocks, now: Callable[[], float], own: Actor
    ) -> None:
        super().__init__(database, claims, now, own)
        self._writer: GroupWriter[AskedTransitions] = GroupWriter(self._commit)
        self._counter = ChangeCounter(database.engine, database.where)
        self._fleet = self._origin = ""

    # Hosts and GPUs
    hosts = reads(hosts_sql.list_hosts)
    host = reads(hosts_sql.get_host)
    namesakes = reads(hosts_sql.namesakes)
    add_host = changes(hosts_sql.add_host)
    update_host = changes(refusals_sql.change_host, heard=True)
    remove_host = changes(hosts_sql.remove_host)
    observation_failed = writes(hosts_sql.observation_failed)
    host_due = writes(looks_sql.host_due)
    hosts_due = writes(looks_sql.hosts_due)
    looked_again = writes(looks_sql.looked_again)
    looks_kept_up = reads(looks_sql.looks_kept_up)
    gpus = reads(gpus_sql.list_gpus)
    quarantine = changes(gpus_sql.quarantine, requested=False)
    lift = changes(refusals_sql.lift)
    end_quarantine = changes(gpus_sql.lift_quarantine)
    gpu_was_reset = changes(gpu_health_sql.was_reset)
    layouts = reads(gpus_sql.list_layouts)

    def observe(self, facts: HostFacts, units: Mapping[str, int], at: float) -> None:
        """Keep a probe made at ``at`` (Unix seconds); Conflict when a GPU's evidence disagrees."""
        self._observe(facts, units, at, self.fleet_id())

    _observe = changes(observations_sql.observe, requested=False)

    def take_hosts(self, now: float, until: float, limit: int) -> tuple[str, ...]:
        """At most ``limit`` such hosts, those first that are due longest."""
        return self._take_hosts(now, until, limit) if self._any_due(now) else ()

    _any_due = reads(looks_sql.any_due)
    _take_hosts = writes(looks_sql.take_hosts)

    def refusals(self, operation: str | None = None) -> tuple[Refusal, ...]:
        """What GPUs and hosts refused and no success has closed, the oldest first; all of an
        operation (its whole id) where it is named.
        """
        return self._refusals(self._now(), operation)

    _refusals = reads(refusals_sql.list_refusals)

    def hear(self, heard: Callable[[], None]) -> WorkListener:
        """Call ``heard``, in another thread, when another process may have made work: an operation
        ended, a VM waits, a host was changed by its operator. A hint that may fail to come.
        """
        return WorkListener(self._database, heard)

    # VMs and what they hold
    vms = reads(vms_sql.list_vms)
    vm = reads(vms_sql.get_vm)
    vms_ever = reads(vms_sql.vms_ever)
    deleted_vms = reads(vms_sql.deleted_vms)
    vms_with_guests = reads(guests_sql.vms_with_guests)
    note_guests = changes(guests_sql.note_guests, heard=True, requested=False)
    allocations = reads(allocations_sql.list_allocations)
    mark = changes(allocations_sql.mark_allocations, requested=False)
    refuse = writes(history_sql.refuse)
    requests = reads(history_sql.list_requests)
    holdings = reads(history_sql.list_holdings)

    # What was used, what it costs; what may be drawn, and who is held below what it may have
    usage_history = reads(usage_sql.usage_history)
    price_books = reads(prices_sql.list_books)
    set_price_book = changes(prices_sql.set_book)
    remove_price_book = changes(prices_sql.remove_book)
    power_budgets = reads(power_sql.list_budgets)
    set_power_budgets = changes(power_sql.set_budgets)
    remove_power_budget = changes(power_sql.remove_budget)
    power_caps = reads(power_sql.list_caps)
    set_power_cap = changes(power_sql.set_cap, requested=False)
    lift_power_cap = changes(power_sql.lift_cap, requested=False)

    # Queue, quotas, images, console tickets
    queue = reads(queue_sql.list_queue)
    enqueue = changes(queue_sql.enter_queue, heard=True)
    move_queue = changes(queue_sql.move_entries)
    cancel_queued = changes(queue_sql.cancel_entries)
    quotas = reads(quotas_sql.list_quotas)
    set_quota = changes(quotas_sql.set_quota)
    delete_quota = changes(quotas_sql.delete_quota)
    images = reads(images_sql.list_images)
    retire_image = changes(images_sql.retire_image)
    tickets = reads(tickets_sql.list_tickets)
    ticket_of = reads(tickets_sql.find_ticket)
    ask_ticket = changes(tickets_sql.ask_ticket, heard=True)
    move_tickets = changes(tickets_sql.move_tickets)

    # VDI pools and their desktops
    pools = reads(pools_sql.list_pools)
    pool = reads(pools_sql.get_pool)
    put_pool = changes(pools_sql.put_pool, heard=True)
    desktops = reads(pools_sql.list_desktops)
    take_desktops = changes(pools_sql.take_desktops, heard=True)
    profile_disks = reads(profile_disks_sql.list_profile_disks)
    put_profile_disk = changes(profile_disks_sql.put_profile_disk, requested=False)
    forget_profile_disk = changes(profile_disks_sql.forget_profile_disk, requested=False)
    pool_sessions = reads(pools_sql.list_sessions)
    pool_asks = reads(pools_sql.list_asks)
    ask_desktop = changes(pools_sql.enter_ask, heard=True)
    end_ask = changes(pools_sql.end_ask)
    bookings = reads(pools_sql.list_bookings)
    book = changes(pools_sql.book)
    cancel_booking = changes(pools_sql.unbook)
    logoff_moves = reads(logoff_moves_sql.list_logoff_moves)
    await_logoff = changes(logoff_moves_sql.await_logoff, heard=True)
    end_logoff_move = changes(logoff_moves_sql.end_logoff_move)
    flavours = reads(flavours_sql.list_flavours)
    set_flavour = changes(flavours_sql.set_flavour)
    delete_flavour = changes(flavours_sql.delete_flavour)

    # Backups of VMs
    backup_targets = reads(vm_backups_sql.list_targets)
    set_backup_target = changes(vm_backups_sql.set_target, heard=True)
    delete_backup_target = changes(vm_backups_sql.delete_target)
    vm_backups = reads(vm_backups_sql.list_backups)
    enter_backup = changes(vm_backups_sql.enter_backup)
    backup_verified = changes(vm_backups_sql.backup_verified)
    backup_lost = changes(vm_backups_sql.backup_lost)

    # Access: who holds which role, tokens, logins, secrets
    role_bindings = reads(access_sql.list_bindings)
    bind_role = changes(access_sql.bind_role)
    unbind_role = changes(access_sql.unbind_role)
    api_tokens = reads(access_sql.list_tokens)
    api_token = reads(access_sql.get_token)
    add_api_token = changes(access_sql.add_token)
    use_api_token = writes(access_sql.use_token)
    revoke_api_token = changes(access_sql.revoke_token)
    login_sessions = reads(access_sql.list_logins)
    login_session = reads(access_sql.get_login)
    last_login = reads(access_sql.last_login)
    begin_login = changes(access_sql.begin_login)
    see_login = writes(access_sql.see_login)
    end_login = changes(access_sql.end_login)
    secrets = reads(secrets_sql.list_secrets)
    secret_references = reads(secrets_sql.list_references)
    set_secret = changes(secrets_sql.set_secret)
    remove_secret = changes(secrets_sql.remove_secret)
    forget_logins = writes(purges.forget_logins)
    forget_tokens = writes(purges.forget_tokens)

    # Webhooks
    licences = reads(licences_sql.list_licences)
    set_licence = changes(licences_sql.set_licence)
    delete_licence = changes(licences_sql.delete_licence)
    notifications = reads(notifications_sql.list_notifications)
    set_notification = changes(notifications_sql.set_notification)
    remove_notification = changes(notifications_sql.remove_notification)
    notified = writes(notifications_sql.notified)
    notification_failed = writes(notifications_sql.notification_failed)
    tell_notices = changes(notifications_sql.tell_notices)
    calendars = reads(calendars_sql.list_calendars)
    set_calendar = changes(calendars_sql.set_calendar)
    remove_calendar = changes(calendars_sql.remove_calendar)
    webhooks = reads(webhooks_sql.list_webhooks)
    add_webhook = changes(webhooks_sql.add_webhook)
    remove_webhook = changes(webhooks_sql.remove_webhook)
    pause_webhook = changes(webhooks_sql.pause_webhook)
    resume_webhook = changes(webhooks_sql.resume_webhook)
    webhook_rotated = changes(webhooks_sql.webhook_rotated)
    webhook_delivered = writes(webhooks_sql.webhook_delivered)
    webhook_failed = writes(webhooks_sql.webhook_failed)

    # Operations
    operations = reads(operations_sql.list_operations)
    operation = reads(operations_sql.get_operation)
    tasks = reads(operations_sql.list_tasks)
    audit = reads(audit_trail.list_audit)
    audit_after = reads(audit_trail.audit_after)
    trail_since = reads(audit_trail.trail_since)
    supply_version = reads(hosts_sql.supply_version)
    record_access = changes(access_events_sql.record_access, requested=False)
    record_upload = changes(access_events_sql.record_upload)

    def version(self) -> Hashable:
        """Equal as long as nothing is committed, by any process."""
        return self._counter.version()

    # The seal of the trail
    newest_note = reads(seals_sql.newest_note)
    sealed_records = reads(seals_sql.sealed_records)
    check_trail = reads(seals_sql.check_trail)
    _has_unsealed = reads(seals_sql.has_unsealed)
    _trail_origin = reads(seals_sql.trail_origin)
    _seal = writes(seals_sql.seal_trail)

    def trail_origin(self) -> str:
        """The fleet, and the epoch since which its ledger is this one."""
        if not self._origin:  # nobody restores a ledger that a process works with
            self._origin = self._trail_origin()
        return self._origin

    def seal_trail(self, sign: SignHead, most: int = MOST_SEALED) -> TreeHead | None:
        """Seal the oldest ``most`` records that are not sealed; the new head, None where all are.
        Damaged where the newest checkpoint is not one to go on from.
        """
        if not self._has_unsealed():
            return None
        return self._seal(sign, self.trail_origin(), self._now(), most)

    @retried
    def reserve(self, reservation: Reservation) -> None:
        """Write an operation's start, and be its worker; StaleGeneration or Conflict: nothing."""
        with self.begun(reservation.operation.id) as connection:
            if current_request() is not None:
                id_ = reservation.operation.id
                api_requests_sql.bind_request(connection, self._now(), id_)
            reservations_sql.reserve(connection, self.stamp(), reservation)

    def record(self, *transitions: Transition) -> None:
        """Make transitions durable together; LedgerError when one of them is not legal."""
        if transitions:
            self._writer.submit((self.actor(), transitions))

    @retried
    def _commit(self, batch: Sequence[AskedTransitions]) -> None:
        of_each: dict[Actor, list[Transition]] = {}
        for actor, some in batch:
            of_each.setdefault(actor, []).extend(some)
        moves = list(chain.from_iterable(of_each.values()))
        with self.moved(moves) as connection:
            for actor, some in of_each.items():
                transitions_sql.apply_transitions(connection, self.stamp(actor), some)
            if any(isinstance(each, OperationMoved) for each in moves):
                self.tell(connection)

    def tell(self, connection: Connection) -> None:
        """Controllers that listen hear of the transaction at its commit; none does on SQLite."""
        if self._database.is_server:
            notify(connection)

    # Requests over HTTP
    api_request = reads(api_requests_sql.get_request)
    request_of = reads(api_requests_sql.request_of_operation)
    forget_requests = writes(purges.forget_requests)

    def end_request(self, key: RequestKey, end: Mapping[str, object]) -> None:
        """Keep the end of a request that changed something; nothing for one that did not."""
        self._end_request(self._now(), key, end)

    _end_request = writes(api_requests_sql.end_request)

    def within(self, scope: Scope) -> ScopedReads:
        """Reads for somebody who may see the things of these tenants alone."""
        from vgpumgr.store.ledger.scoped_reads import SqlScopedReads

        return SqlScopedReads(self._database, scope)

    # The ledger itself: its epoch, and its recovery after a rollback
    epoch = reads(epoch_sql.read_epoch)
    freeze = changes(epoch_sql.freeze, requested=False)
    frozen = reads(epoch_sql.frozen)
    remembered = reads(recovery_sql.remembered)
    take_in = changes(recovery_sql.take_in, requested=False)
    _raise_epoch = changes(epoch_sql.raise_epoch, requested=False)
    _thaw = changes(epoch_sql.thaw, requested=False)

    def fleet_id(self) -> str:
        """This fleet's id, made when the ledger was created; empty before that."""
        if not self._fleet:
            with self._database.read() as connection:
                self._fleet = str(connection.execute(select(meta.c.fleet_id)).scalar_one())
        return self._fleet

    def raise_epoch(self, at_least: int = 0) -> int:
        """The next epoch, or ``at_least`` where that is higher, which this process speaks from now
        on; returns the new one. ClaimLost where it lost what it had claimed.
        """
        raised = self._raise_epoch(at_least)
        self.fresh_epoch()
        return raised

    def thaw(self, epoch: int) -> None:
        """Allocate again, in an epoch above the store's and at least ``epoch``, which this process
        speaks from now on; ClaimLost where it lost what it had claimed.
        """
        self._thaw(epoch)
        self.fresh_epoch()

    def close(self) -> None:
        """Commit what waits, let go of claimed operations and of the database."""
        self._writer.close()
        self._counter.close()
        super().close()
        self._database.close()


def open_ledger(
    url: str | Path,
    *,
    create: bool = True,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    now: Callable[[], float] = time.time,
    migrated: Migrated = lambda _: None,
    by: str = "",
    method: LoginMethod = LoginMethod.SHELL,
) -> SqlLedger:
    """Open the ledger at a file path or an SQLAlchemy URL, making it where ``create`` says so.

    Without a file and with ``create=False`` it is empty, refuses writes and makes nothing. With
    ``create`` a file of an older vgpumgr is backed up and migrated, of which ``migrated`` is told.
    ``now`` stamps what the ledger closes (Unix seconds), ``by`` is who does what nobody else asks
    for (``user@controller``), and ``method`` says as what, for the trail. Raises LedgerError when
    the ledger cannot be made, is damaged, is not ours, or was created by a newer vgpumgr (by an
    older one, where it is not migrated).
    """
    database = open_database(url, create=create, busy_timeout_s=busy_timeout_s, migrated=migrated)
    return SqlLedger(database, claims_of(database, url), now, Actor(user=by, method=method))
