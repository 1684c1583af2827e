"""The ledger's claims: the lock says who lives, the operation's row whose it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, select

from vgpumgr.model.errors import LedgerError
from vgpumgr.model.journal import Transition
from vgpumgr.store import freeze, workers
from vgpumgr.store.audit import Stamp
from vgpumgr.store.claims import Claims, operation_ids, operation_name
from vgpumgr.store.database import Database
from vgpumgr.store.retry import retried
from vgpumgr.store.schema import meta


class Claiming:
    """What this process works on, in one ledger. ``stamp`` says who writes, and when."""

    def __init__(self, database: Database, claims: Claims, stamp: Callable[[], Stamp]) -> None:
        self._database = database
        self._claims = claims
        self._stamp = stamp
        self._epoch: int | None = None

    def operation(self, operation_id: str) -> bool:
        """Become the only worker of an operation (by its whole id) until it ends or waits, or
        :meth:`close`; False while another live process is.

        Taking one over from a process that may still run raises the epoch.
        """
        if operation_id in operation_ids(self._claims.held()):
            self._claims.require()
            return True
        self.spoken_epoch()
        with self._kept(operation_id):
            claimed = self._claims.claim(operation_name(operation_id))
            if claimed:
                self._take_over(operation_id)
        return claimed

    def leave(self, until: float) -> None:
        """Write down that a person interrupted what this process works on."""
        held = operation_ids(self._claims.held())
        if held:
            with self._database.write() as connection:
                workers.leave(connection, held, until)

    def is_worked_on(self, operation_id: str) -> bool:
        """Does a live process work on it? Nothing is claimed."""
        return self._claims.is_held(operation_name(operation_id))

    def name(self, name: str) -> bool:
        """Hold any other name; False while another live process does."""
        self.spoken_epoch()
        return self._claims.claim(name)

    def is_named(self, name: str) -> bool:
        """Does a live process hold that name? Nothing is claimed."""
        return self._claims.is_held(name)

    def release(self, name: str) -> None:
        """Let go of a name; one that is not held is no error."""
        self._claims.release(name)

    @contextmanager
    def begun(self, operation_id: str) -> Iterator[Connection]:
        """The transaction that writes the start of an operation, which is ours from then on."""
        self.spoken_epoch()
        with self._kept(operation_id), self._database.write() as connection:
            yield connection
            self._claims.claim(operation_name(operation_id))
            workers.take(connection, operation_id, self._claims)
            self._claims.require()

    @contextmanager
    def moved(self, transitions: Sequence[Transition]) -> Iterator[Connection]:
        """A transaction that moves operations which are ours; ClaimLost for another's.

        Those that end or wait are anybody's when it has ended.
        """
        ended = workers.ended(transitions)
        with self._database.write() as connection:
            if self._claims.may_outlive:
                workers.require(connection, transitions, self._claims.worker)
            yield connection
            workers.let_go(connection, ended, self._claims.worker)
            self._claims.require()
        for operation_id in ended:
            self._claims.release(operation_name(operation_id))

    def fresh_epoch(self) -> int:
        """The epoch now, for who still holds all it claimed; ClaimLost otherwise."""
        held = operation_ids(self._claims.held())
        with self._database.read() as connection:
            workers.require_own(connection, held, self._claims.worker)
            epoch = _epoch(connection)
        self._claims.require()
        self._epoch = epoch
        return epoch

    def spoken_epoch(self) -> int:
        """The epoch this process speaks to hosts in: what it read before its first claim, until
        it takes over itself or asks for a fresh one. Another's take-over never renews it unasked.
        """
        if self._epoch is None:
            with self._database.read() as connection:
                self._epoch = _epoch(connection)
        return self._epoch

    def close(self) -> None:
        """Let go of all: whoever goes on with what is open need not fear that we still run."""
        held = operation_ids(self._claims.held())
        with suppress(LedgerError):
            if held:
                with self._database.write() as connection:
                    workers.let_go(connection, held, self._claims.worker)
        self._claims.close()

    @retried
    def _take_over(self, operation_id: str) -> None:
        with self._database.write() as connection:
            taken_over = workers.take(connection, operation_id, self._claims)
            raised = freeze.raise_epoch(connection, 0, self._stamp()) if taken_over else None
        if raised is not None:
            self._epoch = raised

    @contextmanager
    def _kept(self, operation_id: str) -> Iterator[None]:
        """What is claimed meanwhile is let go when the block fails."""
        before = self._claims.held()
        try:
            yield
        except BaseException:
            if operation_name(operation_id) not in before:
                self._claims.release(operation_name(operation_id))
            raise


def _epoch(connection: Connection) -> int:
    return int(connection.execute(select(meta.c.epoch)).scalar_one())
