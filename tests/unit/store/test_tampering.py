"""Random tampering with a sealed trail, by somebody who writes the database and lacks the key."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection, text

from tests.unit.store import values
from tests.unit.store.test_actors import life
from tests.unit.store.test_seals import opened, sign
from vgpumgr.audit.merkle_tree import TreeEdge, leaf_hash
from vgpumgr.audit.signed_note import sign_note
from vgpumgr.model.sealed_trail import KeptNote, OpenNote, TrailPlace, TreeHead
from vgpumgr.store import SqlLedger
from vgpumgr.store.ledger import seals
from vgpumgr.store.schema import audit

FORGER = Ed25519PrivateKey.from_private_bytes(bytes(32))
TEXTS = sorted({c.name for c in audit.columns} - {"seq", "at", "before", "after"})
MOST_TAMPERINGS = 10_000


class Forged(Exception):
    """Takes a tampering back."""


class Tamperer:
    """Changes sealed rows at random; ``last`` is the number of the last sealed record."""

    def __init__(self, connection: Connection, chance: random.Random) -> None:
        self._connection = connection
        self._chance = chance
        rows = self.run("SELECT seq FROM seal ORDER BY leaf")
        self.seqs = [int(str(row[0])) for row in rows]

    def run(self, statement: str, **values: object) -> list[tuple[object, ...]]:
        """Run raw SQL; its rows."""
        found = self._connection.execute(text(statement), values)
        return [tuple(row) for row in found] if found.returns_rows else []

    def edit(self, seq: int = 0) -> None:
        """Another value in one column of one record."""
        seq = seq or self._chance.choice(self.seqs)
        column = self._chance.choice([*TEXTS, "at", "before", "after"])
        value: object = f"forged {self._chance.random()}"
        if column in {"at", "before", "after"}:
            value = self._chance.randrange(10**6, 10**9)
        self.run(f'UPDATE audit SET "{column}" = :value WHERE seq = :seq', value=value, seq=seq)

    def empty(self) -> None:
        """Wipe the event, or who did it."""
        column = self._chance.choice(["event", "method"])
        seq = self._chance.choice(self.seqs)
        self.run(f"UPDATE audit SET {column} = '' WHERE seq = :seq", seq=seq)

    def retype(self) -> None:
        """A time that is a text, or bytes where a text was."""
        seq = self._chance.choice(self.seqs)
        column, value = self._chance.choice([("at", "noon"), ("detail", b"x"), ("before", "y")])
        self.run(f"UPDATE audit SET {column} = :value WHERE seq = :seq", value=value, seq=seq)

    def delete(self) -> None:
        """One record."""
        self.run("DELETE FROM audit WHERE seq = :seq", seq=self._chance.choice(self.seqs))

    def delete_sealed(self) -> None:
        """One record with its leaf, the later leaves moved up."""
        seq = self._chance.choice(self.seqs[:-1])
        leaf = self.seqs.index(seq)
        self.run("DELETE FROM audit WHERE seq = :seq", seq=seq)
        self.run("DELETE FROM seal WHERE seq = :seq", seq=seq)
        if self._chance.random() < 0.7:
            for later in range(leaf + 1, len(self.seqs)):
                self.run("UPDATE seal SET leaf = :to WHERE leaf = :leaf", to=later - 1, leaf=later)

    def insert(self) -> None:
        """A record among the sealed ones."""
        at = self._chance.randrange(1, len(self.seqs))
        low, high = self.seqs[at - 1 : at + 1]
        seq = self._chance.randrange(low + 1, high) if high > low + 1 else 1 - len(self.seqs)
        names = ", ".join(f'"{c.name}"' for c in audit.columns if c.name != "seq")
        self.run(
            f"INSERT INTO audit (seq, {names}) SELECT :seq, {names} FROM audit WHERE seq = :low",
            seq=seq,
            low=low,
        )

    def swap(self) -> None:
        """Two records change their numbers, or all but those."""
        one, two = self._chance.sample(self.seqs, 2)
        for was, now in ((one, -1), (two, one), (-1, two)):
            self.run("UPDATE audit SET seq = :now WHERE seq = :was", was=was, now=now)

    def reorder(self) -> None:
        """Two leaves change places."""
        one, two = self._chance.sample(range(len(self.seqs)), 2)
        for was, now in ((one, -1), (two, one), (-1, two)):
            self.run("UPDATE seal SET leaf = :now WHERE leaf = :was", was=was, now=now)

    def truncate(self) -> None:
        """The end of the sealed records, without or with their leaves."""
        seq = self._chance.choice(self.seqs)
        self.run("DELETE FROM audit WHERE seq >= :seq", seq=seq)
        if self._chance.random() < 0.5:
            self.run("DELETE FROM seal WHERE seq >= :seq", seq=seq)

    def roll_back(self) -> None:
        """To an earlier checkpoint, as if nothing had ever followed: only a witness knows."""
        sizes = [int(str(row[0])) for row in self.run("SELECT size FROM checkpoint ORDER BY size")]
        size = self._chance.choice(sizes[:-1])
        self.run("DELETE FROM audit WHERE seq >= :seq", seq=self.seqs[size])
        self.run("DELETE FROM seal WHERE leaf >= :size", size=size)
        self.run("DELETE FROM checkpoint WHERE size > :size", size=size)

    def drop_checkpoints(self) -> None:
        """Some or all of the signatures."""
        size = self._chance.randrange(len(self.seqs))
        self.run("DELETE FROM checkpoint WHERE size > :size", size=size)

    def rehash(self, key: Ed25519PrivateKey | None = None) -> None:
        """Edit a record, and make every hash above it right again; the signatures cannot be."""
        seq = self._chance.choice(self.seqs)
        self.edit(seq)
        edge = TreeEdge()
        for leaf in list(seals._leaves(self._connection)):
            hashed = leaf_hash(str(leaf.text).encode())
            self.run(
                "UPDATE seal SET hash = :hash WHERE leaf = :leaf",
                hash=hashed.hex(),
                leaf=leaf.leaf,
            )
            edge.append(hashed)
            new = {"size": edge.size, "root": edge.root().hex(), "edge": edge.text()}
            self.run("UPDATE checkpoint SET root = :root, edge = :edge WHERE size = :size", **new)
            if key is not None:
                note = sign_note(TreeHead(origin="x", size=edge.size, root=edge.root()), key)
                self.run("UPDATE checkpoint SET note = :n WHERE size = :s", n=note, s=edge.size)

    def rekey(self) -> None:
        """The same, with every checkpoint signed by another key."""
        self.rehash(FORGER)


KINDS: tuple[Callable[[Tamperer], None], ...] = (
    Tamperer.edit,
    Tamperer.empty,
    Tamperer.retype,
    Tamperer.delete,
    Tamperer.delete_sealed,
    Tamperer.insert,
    Tamperer.swap,
    Tamperer.reorder,
    Tamperer.truncate,
    Tamperer.roll_back,
    Tamperer.drop_checkpoints,
    Tamperer.rehash,
    Tamperer.rekey,
)


def sealed_ledger(path: Path) -> SqlLedger:
    """A small sealed trail with gaps in its numbers."""
    ledger = values.fleet(path)
    with ledger._database.write() as connection:
        connection.execute(text("UPDATE audit SET seq = seq * 5"))
    for number in range(3):
        life(ledger, f"v{number}")
        while ledger.seal_trail(sign, most=9) is not None:
            pass
    return ledger


def in_pieces(
    connection: Connection, open_note: OpenNote, kept: Sequence[KeptNote], most: int
) -> list[str]:
    """What a check finds that compares so many records at a time."""
    found: list[str] = []
    place: TrailPlace | None = TrailPlace(most=most)
    while place is not None:
        verdict = seals.check_trail(connection, open_note, kept, place)
        found += verdict.wrong
        place = verdict.place
    return found


def missed(ledger: SqlLedger, times: int, seed: int) -> list[str]:
    """The tamperings that the check did not find; each is taken back afterwards."""
    chance = random.Random(seed)
    open_note = cache(opened)
    kept = [KeptNote("the witness", ledger.newest_note())]
    not_found: list[str] = []
    for number in range(times):
        kind = KINDS[number % len(KINDS)]
        with suppress(Forged), ledger._database.write() as connection:
            kind(Tamperer(connection, chance))
            if not seals.check_trail(connection, open_note, kept).wrong:
                not_found.append(f"{kind.__name__} {number}")
            if not in_pieces(connection, open_note, kept, chance.randrange(1, 20)):
                not_found.append(f"{kind.__name__} {number}, in pieces")
            raise Forged
    assert ledger.check_trail(opened, kept).wrong == ()
    return not_found


def test_every_tampering_is_found(tmp_path: Path) -> None:
    ledger = sealed_ledger(tmp_path / "ledger.db")
    assert missed(ledger, 390, seed=1) == []
    values.close_all()


@pytest.mark.release
def test_each_of_ten_thousand_tamperings_is_found(tmp_path: Path) -> None:
    ledger = sealed_ledger(tmp_path / "ledger.db")
    assert missed(ledger, MOST_TAMPERINGS, seed=2) == []
    values.close_all()


def test_a_roll_back_is_found_by_what_was_kept_outside_alone(tmp_path: Path) -> None:
    """What the documentation says cannot be found without a witness."""
    ledger = sealed_ledger(tmp_path / "ledger.db")
    witness = [KeptNote("the witness", ledger.newest_note())]
    with ledger._database.write() as connection:
        Tamperer(connection, random.Random(3)).roll_back()
    assert ledger.check_trail(opened).wrong == ()
    [told] = ledger.check_trail(opened, witness).wrong
    assert "the trail was cut off, or the ledger put back" in told
    values.close_all()


def test_the_first_wrong_record_is_named(tmp_path: Path) -> None:
    ledger = sealed_ledger(tmp_path / "ledger.db")
    seq = ledger.sealed_records(0, 8)[-1].record.seq
    with ledger._database.write() as connection:
        Tamperer(connection, random.Random(3)).edit(seq)
    first, second = ledger.check_trail(opened).wrong
    assert first == f"record {seq} is not what was sealed"
    assert "was signed for other records: of the first 12 one after the first 7" in second
    values.close_all()
