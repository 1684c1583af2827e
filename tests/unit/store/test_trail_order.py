"""The trail's numbers become visible in their order, so that who follows it misses no record."""

from __future__ import annotations

import threading
import time

from vgpumgr.model.history import AccessEvent
from vgpumgr.store import open_ledger
from vgpumgr.store.ledger import audit_trail
from vgpumgr.store.sql_ledger import SqlLedger

SLOW_S = 0.5


def slow_write(ledger: SqlLedger, written: threading.Event) -> None:
    """A transaction that has its record's number long before it commits."""
    with ledger._database.write() as connection:
        audit_trail.write(connection, ledger.stamp(), [{"event": "access.login", "detail": "slow"}])
        written.set()
        time.sleep(SLOW_S)


def test_a_later_number_is_never_seen_before_an_earlier_one(url: str) -> None:
    """Two connections: the second asks for a number while the first has one, uncommitted."""
    first, second, reader = (open_ledger(url) for _ in range(3))
    try:
        written = threading.Event()
        thread = threading.Thread(target=slow_write, args=(first, written))
        thread.start()
        written.wait(10)
        quick = threading.Thread(target=second.record_access, args=(AccessEvent.LOGIN, "quick"))
        quick.start()
        seen: list[str] = []
        after = 0
        while len(seen) < 2:
            for each in reader.audit_after(after, 100):
                after = each.seq
                if each.event == AccessEvent.LOGIN:
                    seen.append(each.detail)
            time.sleep(0.01)
        thread.join()
        quick.join()
        assert seen == ["slow", "quick"]
    finally:
        for ledger in (first, second, reader):
            ledger.close()


def test_many_writers_are_followed_without_a_gap(url: str) -> None:
    ledgers = [open_ledger(url) for _ in range(4)]
    reader = open_ledger(url)
    try:

        def write(ledger: SqlLedger) -> None:
            for _ in range(25):
                ledger.record_access(AccessEvent.LOGIN, "")

        threads = [threading.Thread(target=write, args=(each,)) for each in ledgers]
        for each in threads:
            each.start()
        seen: list[int] = []
        while any(each.is_alive() for each in threads) or reader.audit_after(seen[-1], 1):
            seen += [each.seq for each in reader.audit_after(seen[-1] if seen else 0, 7)]
        assert seen == [each.seq for each in reader.audit_after(0, 1000)]
    finally:
        for ledger in (*ledgers, reader):
            ledger.close()
