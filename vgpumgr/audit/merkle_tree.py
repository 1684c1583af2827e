"""The Merkle tree hash of RFC 6962 (§2.1; RFC 9162 has the same), grown leaf by leaf.

Of a tree that only grows the hashes of its complete subtrees suffice, one for each bit of its
size: the edge. An append costs two hashes on average, a root as many as the size has bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

EMPTY_ROOT = hashlib.sha256().digest()
_HEX = 2 * hashlib.sha256().digest_size


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees under one node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class TreeEdge:
    """A tree of ``size`` leaves by the roots of its complete subtrees, the largest first."""

    __slots__ = ("_roots", "size")

    def __init__(self, size: int = 0, roots: Iterable[bytes] = ()) -> None:
        self.size = size
        self._roots = list(roots)
        if size < 0 or len(self._roots) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves has another edge")

    def append(self, leaf: bytes) -> None:
        """Grow by the hash of a leaf."""
        merged, size = leaf, self.size
        while size & 1:
            merged = node_hash(self._roots.pop(), merged)
            size >>= 1
        self._roots.append(merged)
        self.size += 1

    def root(self) -> bytes:
        """The hash of the whole tree."""
        if not self._roots:
            return EMPTY_ROOT
        *left, root = self._roots
        for each in reversed(left):
            root = node_hash(each, root)
        return root

    def text(self) -> str:
        """The roots in hex, one after the other."""
        return b"".join(self._roots).hex()

    @classmethod
    def of_text(cls, size: int, text: str) -> TreeEdge:
        """The reverse of :meth:`text`; ValueError for what is none."""
        parts = (text[first : first + _HEX] for first in range(0, len(text), _HEX))
        return cls(size, map(bytes.fromhex, parts))
