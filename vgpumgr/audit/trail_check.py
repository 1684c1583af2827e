"""The check of a sealed trail: its records against their hashes, the tree against signed heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from vgpumgr.audit.merkle_tree import TreeEdge, leaf_hash
from vgpumgr.model.errors import TrailTampered
from vgpumgr.model.sealed_trail import BEGINNING, KeptNote, OpenNote, TrailPlace, TreeHead

# More of the same says nothing new.
_TOLD = 20


class SealedLeaf(NamedTuple):
    """A leaf as the ledger keeps it: its number, its record's ``seq``, its hash in hex, and the
    record's text as it is now; None where there is no such record any more.
    """

    leaf: int
    seq: int
    hash: str
    text: str | None


class TrailCheck:
    """One check: notes are opened first, then :meth:`walk` takes every leaf in its order, and
    :meth:`end` looks at what is beyond them. A check in pieces goes on at its ``place``.
    """

    def __init__(self, open_note: OpenNote) -> None:
        self.place = BEGINNING
        self.compared = 0
        self.wrong: list[str] = []
        self._open = open_note
        self._heads: dict[int, list[tuple[str, TreeHead]]] = {}
        self._origin = ""
        self._newest = 0
        self._agreed = 0
        self._forked = False

    def take_checkpoint(self, size: int, note: str) -> None:
        """A checkpoint of the ledger's own, by the size that its row says; the smallest first."""
        head = self._opened(f"the checkpoint of {size} records", note)
        if head is not None and head.size != size:
            self._tell(f"the checkpoint of {size} records was signed for {head.size}")
        if head is not None:
            self._origin, self._newest = head.origin, max(self._newest, head.size)

    def take_kept(self, kept: Iterable[KeptNote]) -> None:
        """Checkpoints that were kept outside of the ledger."""
        for each in kept:
            self._opened(each.where, each.note)

    def walk(self, leaves: Iterable[SealedLeaf], begin: TrailPlace = BEGINNING) -> None:
        """Compare the records, and the tree at the size of each head; ValueError where there is no
        such place to go on.
        """
        edge, last, leaf = TreeEdge.of_text(begin.size, begin.edge), begin.seq, begin.leaf
        if not begin.size:
            self._compare(edge)
        for each in leaves:
            self._leaf(each, edge.size, last)
            edge.append(bytes.fromhex("00") if each.text is None else leaf_hash(each.text.encode()))
            last, leaf = each.seq, each.leaf
            if edge.size in self._heads:
                self._compare(edge)
        self.place = TrailPlace(
            size=edge.size, edge=edge.text(), seq=last, leaf=leaf, most=begin.most
        )

    def end(self) -> None:
        """All leaves were walked: compare their number with the signed heads."""
        size = self.place.size
        if self._newest < size:
            self._tell(
                f"{size} records are sealed, but the newest signed checkpoint is of {self._newest}"
            )
        for where, head in self._beyond(size):
            self._tell(self._cut(where, head, size))

    def take_inserted(self, seqs: Sequence[int]) -> None:
        """Records that are older than sealed ones, and not sealed."""
        for seq in seqs:
            self._tell(f"record {seq} was inserted among sealed ones")

    def _opened(self, where: str, note: str) -> TreeHead | None:
        try:
            head = self._open(note)
        except TrailTampered as error:
            self._tell(f"{where} cannot be trusted: {error.why}")
            return None
        self._heads.setdefault(head.size, []).append((where, head))
        return head

    def _leaf(self, found: SealedLeaf, leaf: int, last: int) -> None:
        if found.leaf != leaf:
            self._tell(f"the seal of record number {leaf} is missing")
        if found.seq <= last:
            self._tell(f"record {found.seq} is out of its order")
        if found.text is None:
            self._tell(f"record {found.seq} is missing")
        elif leaf_hash(found.text.encode()).hex() != found.hash:
            self._tell(f"record {found.seq} is not what was sealed")

    def _compare(self, edge: TreeEdge) -> None:
        for where, head in self._heads.get(edge.size, ()):
            self.compared += 1
            if head.root == edge.root():
                self._agreed = edge.size
            elif not self._forked:
                self._forked = True  # every later root differs, too
                self._tell(
                    f"{where} was signed for other records: of the first {edge.size} one after "
                    f"the first {self._agreed} is another"
                )

    def _beyond(self, size: int) -> Iterator[tuple[str, TreeHead]]:
        return (each for more in sorted(self._heads) if more > size for each in self._heads[more])

    def _cut(self, where: str, head: TreeHead, size: int) -> str:
        told = f"{where} is of {head.size} records, and the ledger has {size} that are sealed: "
        if self._origin and head.origin != self._origin:
            return f"{told}the ledger was put back to a backup since ({self._origin})"
        return f"{told}the trail was cut off, or the ledger put back"

    def _tell(self, what: str) -> None:
        if len(self.wrong) < _TOLD:
            self.wrong.append(what)
