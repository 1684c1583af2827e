"""The seal of the trail: every record once, in order, whoever writes meanwhile; forks say so."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import text

from tests.pgserver import PgServer
from tests.unit.audit.test_merkle_tree import defined
from tests.unit.store import values
from tests.unit.store.test_actors import life
from vgpumgr.audit.signed_note import open_note, sign_note
from vgpumgr.model.errors import Damaged, StaleGeneration
from vgpumgr.model.quota import Quota
from vgpumgr.model.sealed_trail import KeptNote, TrailPlace, TrailVerdict, TreeHead
from vgpumgr.store import SqlLedger
from vgpumgr.store.admin import maintenance

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()


def sign(head: TreeHead) -> str:
    """The note of a head, by the key of these tests."""
    return sign_note(head, KEY)


def opened(note: str) -> TreeHead:
    """The head of a note, if that key signed it."""
    return open_note(note, [PUBLIC])


def checked(ledger: SqlLedger, *kept: str) -> TrailVerdict:
    """The verdict, with checkpoints that were kept outside."""
    notes = [KeptNote(f"kept {number}", note) for number, note in enumerate(kept)]
    return ledger.check_trail(opened, notes)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger's address, on either store."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    server: PgServer = request.getfixturevalue("pg")
    return server.database()


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    yield values.fleet(url)
    values.close_all()


def test_what_is_sealed_is_the_tree_of_the_rfc(ledger: SqlLedger, url: str) -> None:
    """By the definition alone: leaves from the exported texts, roots from signed notes."""
    roots: dict[int, bytes] = {}
    for number in range(5):
        life(ledger, f"v{number}")
        while (head := ledger.seal_trail(sign, most=3)) is not None:
            roots[head.size] = head.root
            assert opened(ledger.newest_note()) == head
    other = values.open_ledger(url)
    sealed = other.sealed_records(0, 1000)
    leaves = [each.original.encode() for each in sealed]
    assert [each.leaf for each in sealed] == list(range(len(leaves)))
    assert [each.record for each in sealed] == list(reversed(ledger.audit()))
    assert len(roots) > 5
    for size, root in roots.items():
        assert root == defined(leaves[:size])
    for each in sealed:
        assert each.hash == hashlib.sha256(b"\0" + each.original.encode()).hexdigest()
    assert checked(other) == TrailVerdict(
        sealed=len(leaves), checkpoints=len(roots), unsealed=0, unsealed_since=None
    )


def test_what_is_not_sealed_is_counted(ledger: SqlLedger) -> None:
    assert checked(ledger).sealed == 0
    assert ledger.newest_note() == ""
    before = ledger.audit()[-1].at
    found = checked(ledger)
    assert (found.unsealed, found.unsealed_since, found.wrong) == (len(ledger.audit()), before, ())
    assert ledger.seal_trail(sign) is not None
    assert ledger.seal_trail(sign) is None
    life(ledger, "desk")
    found = checked(ledger)
    assert found.unsealed == len(ledger.audit()) - found.sealed > 0


def test_records_are_exported_from_a_cursor(ledger: SqlLedger) -> None:
    life(ledger, "desk")
    ledger.seal_trail(sign)
    whole, part, after = ledger.sealed_records(0, 1000), [], 0
    while some := ledger.sealed_records(after, 3):
        part, after = [*part, *some], some[-1].record.seq
    assert tuple(part) == whole
    life(ledger, "unsealed")
    assert ledger.sealed_records(after, 3) == ()


def test_a_release_says_what_was_held_and_how_long(url: str) -> None:
    times = iter(range(100, 1000, 10))
    values.fleet(url)
    ledger = values.open_ledger(url, now=lambda: float(next(times)))
    owner = values.vm("desk")
    begun = values.start(values.allocation(owner, ledger.gpus()[0], [2, 3]), vms=[owner])
    ledger.reserve(begun)
    values.end(ledger, begun)
    ledger.seal_trail(sign)
    [released] = [
        each for each in ledger.sealed_records(0, 100) if each.record.event == "allocation.released"
    ]
    seconds = released.consumption["gpu.seconds"]
    assert released.consumption == {"gpu.units": 2, "gpu.seconds": seconds}
    assert seconds >= 10
    values.close_all()


# -- writers and the sealer side by side ---------------------------------------------------------


@pytest.mark.thorough
def test_every_record_of_many_writers_is_sealed_once(ledger: SqlLedger, url: str) -> None:
    """Some transactions fail after they wrote records: their numbers are gaps, not deletions."""
    sealer = values.open_ledger(url)
    over = threading.Event()

    def seal() -> None:
        while not over.is_set():
            sealer.seal_trail(sign, most=50)

    def write(number: int) -> None:
        mine = values.open_ledger(url) if number % 2 else ledger
        for turn in range(4):
            life(mine, f"v{number}-{turn}")
            owner = values.vm(f"w{number}-{turn}")
            taken = values.allocation(owner, mine.gpus()[0], [number % 8], device=str(turn))
            with_luck = values.start(taken, vms=[owner])
            try:
                mine.reserve(with_luck)
            except StaleGeneration:
                continue

    with ThreadPoolExecutor(9) as pool:
        sealing = pool.submit(seal)
        list(pool.map(write, range(8)))
        over.set()
        sealing.result()
    while ledger.seal_trail(sign) is not None:
        pass
    found = checked(ledger)
    assert (found.wrong, found.unsealed, found.sealed) == ((), 0, len(ledger.audit()))


def test_a_seal_waits_for_a_transaction_with_an_earlier_number(pg: PgServer) -> None:
    """Two connections: what begins first and commits last is neither lost nor out of order."""
    url = pg.database()
    writer, sealer = values.fleet(url), values.open_ledger(url)
    held, go = threading.Event(), threading.Event()

    def slow() -> None:
        with writer._database.write() as connection:
            connection.exec_driver_sql("SELECT nextval('audit_seq_seq')")
            audit_write(connection, writer)
            held.set()
            go.wait(10)

    with ThreadPoolExecutor(3) as pool:
        late = pool.submit(slow)
        assert held.wait(10)
        sealing = pool.submit(sealer.seal_trail, sign)
        quick = pool.submit(sealer.set_quota, Quota(tenant="quick"))
        threading.Event().wait(0.3)
        assert not sealing.done()
        go.set()
        late.result()
        sealing.result()
        quick.result()
    sealer.seal_trail(sign)
    found = checked(sealer)
    assert (found.wrong, found.unsealed, found.sealed) == ((), 0, len(sealer.audit()))
    values.close_all()


def audit_write(connection: object, ledger: SqlLedger) -> None:
    """A record in a transaction that is still open."""
    from vgpumgr.store.ledger import audit_trail

    record = [{"event": "quota.set", "detail": "slow"}]
    audit_trail.write(connection, ledger.stamp(), record)  # type: ignore[arg-type]


# -- a ledger that goes back in time, or moves ---------------------------------------------------


def test_a_restored_ledger_is_a_fork_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = values.fleet(path)
    life(ledger, "a")
    ledger.seal_trail(sign)
    first = ledger.newest_note()
    maintenance.back_up(path, tmp_path / "backup")
    life(ledger, "b")
    ledger.seal_trail(sign)
    lost = ledger.newest_note()
    assert opened(lost).origin == opened(first).origin
    ledger.close()
    maintenance.restore_ledger(path, tmp_path / "backup", by="eva", confirm=lambda _: None)
    again = values.open_ledger(path)
    again.set_quota(Quota(tenant="c"))
    again.seal_trail(sign)
    now = opened(again.newest_note())
    assert now.origin != opened(first).origin
    assert now.origin.startswith(f"vgpumgr/{again.fleet_id()}/")
    assert checked(again, first).wrong == ()
    [told] = checked(again, lost).wrong
    assert "put back to a backup" in told or "was signed for other records" in told
    values.close_all()


def test_a_moved_ledger_keeps_its_seal(tmp_path: Path, pg: PgServer) -> None:
    path, target = tmp_path / "ledger.db", pg.database()
    ledger = values.fleet(path)
    life(ledger, "a")
    ledger.seal_trail(sign)
    note = ledger.newest_note()
    ledger.close()
    maintenance.move_ledger(path, target, by="eva")
    moved = values.open_ledger(target)
    moved.seal_trail(sign)
    found = checked(moved, note)
    assert (found.wrong, found.checkpoints) == ((), 3)
    values.close_all()


def test_what_does_not_go_with_its_checkpoint_is_not_sealed_further(ledger: SqlLedger) -> None:
    ledger.seal_trail(sign)
    with ledger._database.write() as connection:
        connection.exec_driver_sql("UPDATE checkpoint SET edge = ''")
    life(ledger, "desk")
    with pytest.raises(Damaged, match="cannot be sealed further"):
        ledger.seal_trail(sign)
    assert checked(ledger).unsealed > 0


def test_a_check_in_pieces_finds_what_a_whole_one_finds(ledger: SqlLedger, url: str) -> None:
    for number in range(6):
        life(ledger, f"v{number}")
        ledger.seal_trail(sign, most=7)
    while ledger.seal_trail(sign, most=7):
        pass

    def pieces(most: int) -> tuple[list[str], TrailVerdict, int]:
        begin, wrong, compared = TrailPlace(most=most), [], 0
        while True:
            found = ledger.check_trail(opened, (), begin)
            wrong += found.wrong
            compared += found.checkpoints
            assert found.sealed - begin.size <= most
            if found.place is None:
                return wrong, found, compared
            begin = found.place

    whole = checked(ledger)
    for most in (1, 4, whole.sealed, 1000):
        wrong, last, compared = pieces(most)
        assert (wrong, last.sealed, last.unsealed) == ([], whole.sealed, whole.unsealed)
        assert compared == whole.checkpoints
    seq = ledger.audit(limit=1)[0].seq
    with ledger._database.write() as connection:
        connection.execute(text(f"UPDATE audit SET detail = 'edited' WHERE seq = {seq}"))
    wrong, _, _ = pieces(4)
    assert f"record {seq} is not what was sealed" in wrong
    with pytest.raises(ValueError, match="another edge"):
        ledger.check_trail(opened, (), TrailPlace(size=3, edge="00", seq=3, leaf=2))
