"""The seal of the audit trail: records become leaves of a hash tree, its heads are signed.

A seal is made in a write transaction. Whoever writes the trail holds the database's one write
lock from before its first record until its commit, so that a seal sees every record that will
ever have a number below those it sees; numbers that are missing are of transactions that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy import Connection, bindparam, func, insert, select
from sqlalchemy import type_coerce as coerced
from sqlalchemy.types import NullType

from vgpumgr.audit.canonical_record import canonical_form
from vgpumgr.audit.merkle_tree import TreeEdge, leaf_hash
from vgpumgr.audit.trail_check import SealedLeaf, TrailCheck
from vgpumgr.model.codec import load_mapping
from vgpumgr.model.errors import Damaged
from vgpumgr.model.history import AuditRecord
from vgpumgr.model.sealed_trail import (
    BEGINNING,
    KeptNote,
    OpenNote,
    SealedRecord,
    SignHead,
    TrailPlace,
    TrailVerdict,
    TreeHead,
)
from vgpumgr.store.ledger.audit_trail import EMPTY, RECORDS, record_of
from vgpumgr.store.schema import audit, checkpoint, meta, seal

# As they are stored, whatever that is: a value that does not belong there is not what was sealed.
_RAW = [coerced(each, NullType).label(each.name) for each in audit.columns]
_NAMES = tuple(each.name for each in audit.columns)
_SEQ = _NAMES.index("seq")
_CANONICAL = canonical_form({name: EMPTY.get(name) for name in _NAMES})
_AT_ONCE = 5000

_LAST = select(func.coalesce(func.max(seal.c.seq), 0))
_NEWEST = select(checkpoint).order_by(checkpoint.c.size.desc()).limit(1)
_NEXT = (
    select(*_RAW)
    .where(audit.c.seq > bindparam("in_seq"))
    .order_by(audit.c.seq)
    .limit(bindparam("in_most"))
)
_FORKS = select(func.max(audit.c.after)).where(audit.c.event.in_(["store.restored", "store.moved"]))


def trail_origin(connection: Connection) -> str:
    """The fleet, and the epoch since which its ledger is this one: a ledger that was restored, or
    moved, goes on as a fork.
    """
    fleet = connection.execute(select(meta.c.fleet_id)).scalar_one()
    return f"vgpumgr/{fleet}/{connection.execute(_FORKS).scalar() or 1}"


def has_unsealed(connection: Connection) -> bool:
    """Is there a record that is not sealed?"""
    newest = connection.execute(select(func.coalesce(func.max(audit.c.seq), 0))).scalar_one()
    return bool(newest > connection.execute(_LAST).scalar_one())


def seal_trail(
    connection: Connection, sign: SignHead, origin: str, at: float, most: int
) -> TreeHead | None:
    """Seal the oldest ``most`` records that are not sealed; the new head, None where there are
    none. Damaged where the newest checkpoint is not one to go on from.
    """
    edge = _edge(connection)
    last = connection.execute(_LAST).scalar_one()
    rows = connection.execute(_NEXT, {"in_seq": last, "in_most": most}).all()
    if not rows:
        return None
    leaves = [(row[_SEQ], leaf_hash(_CANONICAL(row).encode())) for row in rows]
    first = edge.size
    for _, leaf in leaves:
        edge.append(leaf)
    connection.execute(
        insert(seal),
        [
            {"leaf": first + number, "seq": seq, "hash": leaf.hex()}
            for number, (seq, leaf) in enumerate(leaves)
        ],
    )
    head = TreeHead(origin=origin, size=edge.size, root=edge.root())
    row = {"size": head.size, "at": at, "root": head.root.hex(), "edge": edge.text()}
    connection.execute(insert(checkpoint), row | {"note": sign(head)})
    return head


def _edge(connection: Connection) -> TreeEdge:
    row = connection.execute(_NEWEST).one_or_none()
    sealed = connection.execute(select(func.max(seal.c.leaf))).scalar()
    try:
        edge = TreeEdge.of_text(row.size, row.edge) if row else TreeEdge()
    except ValueError:
        edge = TreeEdge()
    sound = row is None or edge.root().hex() == row.root
    if not sound or edge.size != (0 if sealed is None else sealed + 1):
        raise Damaged(
            "the audit trail cannot be sealed further",
            why="its newest checkpoint does not go with what is sealed",
            next="vgpumgr audit verify",
        )
    return edge


def newest_note(connection: Connection) -> str:
    """The newest signed checkpoint; empty where there is none."""
    row = connection.execute(_NEWEST).one_or_none()
    return row.note if row else ""


_SEALED = (
    select(seal.c.leaf, seal.c.hash, *_RAW)
    .join(audit, seal.c.seq == audit.c.seq)
    .where(seal.c.seq > bindparam("in_seq"))
    .order_by(seal.c.seq)
    .limit(bindparam("in_most"))
)
_BETWEEN = RECORDS.where(audit.c.seq.between(bindparam("in_first"), bindparam("in_last")))
_TAKEN = select(audit.c.allocation, audit.c.at, audit.c.consumption).where(
    audit.c.event == "allocation.reserved",
    audit.c.vm.in_(bindparam("in_vms", expanding=True)),
    audit.c.allocation.in_(bindparam("in_allocations", expanding=True)),
)


def sealed_records(connection: Connection, after: int, most: int) -> tuple[SealedRecord, ...]:
    """The next ``most`` sealed records after that ``seq``, the oldest first."""
    rows = connection.execute(_SEALED, {"in_seq": after, "in_most": most}).all()
    if not rows:
        return ()
    between = {"in_first": rows[0].seq, "in_last": rows[-1].seq}
    records = {row.seq: record_of(row) for row in connection.execute(_BETWEEN, between)}
    taken = _consumption(connection, records.values())
    return tuple(
        SealedRecord(
            record=records[row.seq],
            leaf=row.leaf,
            hash=row.hash,
            original=_CANONICAL(row[_LEAF_CELLS:]),
            consumption=taken[row.seq],
        )
        for row in rows
    )


_LEAF_CELLS = 2


def _consumption(
    connection: Connection, records: Iterable[AuditRecord]
) -> Mapping[int, Mapping[str, float]]:
    """What each record, by its number, says that is taken; of what is given back, for how long."""
    released = [each for each in records if each.event == "allocation.released"]
    wanted = {
        "in_vms": sorted({each.vm for each in released}),
        "in_allocations": sorted({each.allocation for each in released}),
    }
    taken = {row.allocation: row for row in connection.execute(_TAKEN, wanted)} if released else {}
    found: dict[int, Mapping[str, float]] = {each.seq: each.consumption for each in records}
    for each in released:
        if row := taken.get(each.allocation):
            seconds = round(max(0.0, each.at - row.at), 3)
            found[each.seq] = {**load_mapping(row.consumption), "gpu.seconds": seconds}  # type: ignore[dict-item]
    return found


_EVERY = (
    select(seal.c.leaf, seal.c.seq.label("seal_seq"), seal.c.hash, *_RAW)
    .select_from(seal.outerjoin(audit, seal.c.seq == audit.c.seq))
    .where(seal.c.leaf > bindparam("in_leaf"))
    .order_by(seal.c.leaf)
)
_NOTES = (
    select(checkpoint.c.size, checkpoint.c.note)
    .where(checkpoint.c.size > bindparam("in_after"), checkpoint.c.size <= bindparam("in_until"))
    .order_by(checkpoint.c.size)
)
_MOST = (1 << 31) - 1
_INSERTED = (
    select(audit.c.seq)
    .select_from(audit.outerjoin(seal, seal.c.seq == audit.c.seq))
    .where(seal.c.seq.is_(None), audit.c.seq <= _LAST.scalar_subquery())
    .order_by(audit.c.seq)
    .limit(20)
)
_UNSEALED = select(func.count(), func.min(audit.c.at)).where(audit.c.seq > _LAST.scalar_subquery())


def check_trail(
    connection: Connection,
    open_note: OpenNote,
    kept: Sequence[KeptNote] = (),
    begin: TrailPlace = BEGINNING,
) -> TrailVerdict:
    """Compare every sealed record with its hash, and the tree with every signed checkpoint, also
    with what was ``kept`` outside; from a place on only as many as that says.
    """
    most = begin.most
    check, until = TrailCheck(open_note), _MOST if most is None else min(begin.size + most, _MOST)
    known = _take_notes(connection, check, kept, begin.size, until)
    check.walk(_leaves(connection, begin.leaf, most), begin)
    found = check.place
    if most is not None and found.size - begin.size >= most:
        return TrailVerdict(
            sealed=found.size,
            checkpoints=check.compared,
            unsealed=0,
            unsealed_since=None,
            wrong=tuple(check.wrong[known:]),
            place=found,
        )
    _take_checkpoints(connection, check, until, _MOST)
    check.end()
    check.take_inserted(connection.execute(_INSERTED).scalars().all())
    unsealed, since = connection.execute(_UNSEALED).one()
    return TrailVerdict(
        sealed=found.size,
        checkpoints=check.compared,
        unsealed=unsealed,
        unsealed_since=since,
        wrong=tuple(check.wrong[known:]),
    )


def _take_notes(
    connection: Connection, check: TrailCheck, kept: Sequence[KeptNote], begin: int, until: int
) -> int:
    """Open the checkpoints of a piece, and the kept ones; how many findings are of notes
    that the piece before it has told of.
    """
    if not begin:
        _take_checkpoints(connection, check, -_MOST, until)
        check.take_kept(kept)
        return 0
    _take_checkpoints(connection, check, begin - 1, begin)
    check.take_kept(kept)
    known = len(check.wrong)
    _take_checkpoints(connection, check, begin, until)
    return known


def _take_checkpoints(connection: Connection, check: TrailCheck, after: int, until: int) -> None:
    for size, note in connection.execute(_NOTES, {"in_after": after, "in_until": until}):
        check.take_checkpoint(size, note)


def _leaves(
    connection: Connection, after: int = -1, most: int | None = None
) -> Iterator[SealedLeaf]:
    at, cells = 3 + _SEQ, 3
    some = _EVERY.limit(most)
    options = {"yield_per": _AT_ONCE}
    for row in connection.execute(some, {"in_leaf": after}, execution_options=options):
        text = None if row[at] is None else _CANONICAL(row[cells:])
        yield SealedLeaf(row[0], row[1], row[2], text)
