"""The tree hash against the vectors of Certificate Transparency and the RFC's own definition."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.audit.merkle_tree import TreeEdge, leaf_hash

# The leaves and roots that implementations of RFC 6962 test themselves with.
LEAVES = (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
)  # fmt: skip
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


def defined(leaves: list[bytes]) -> bytes:
    """MTH as RFC 6962 §2.1 defines it."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    halves = defined(leaves[:split]) + defined(leaves[split:])
    return hashlib.sha256(b"\x01" + halves).digest()


def test_the_known_roots() -> None:
    edge = TreeEdge()
    assert edge.root().hex() == hashlib.sha256().hexdigest()
    for leaf, root in zip(LEAVES, ROOTS, strict=True):
        edge.append(leaf_hash(bytes.fromhex(leaf)))
        assert edge.root().hex() == root


@given(st.lists(st.binary(max_size=8), max_size=70), st.integers(0, 70))
def test_the_root_is_the_defined_one_however_often_the_edge_was_put_down(
    leaves: list[bytes], down: int
) -> None:
    edge = TreeEdge()
    for number, leaf in enumerate(leaves):
        if number == down:
            edge = TreeEdge.of_text(edge.size, edge.text())
        edge.append(leaf_hash(leaf))
        assert edge.root() == defined(leaves[: number + 1])


def test_every_size_up_to_a_few_hundred() -> None:
    leaves = [bytes([number % 251, number // 251]) for number in range(300)]
    edge = TreeEdge()
    for number, leaf in enumerate(leaves):
        edge.append(leaf_hash(leaf))
        if number % 7 == 0:
            assert edge.root() == defined(leaves[: number + 1])


@pytest.mark.parametrize(("size", "text"), [(1, ""), (3, "00" * 32), (-1, ""), (1, "zz" * 32)])
def test_what_is_no_edge_is_refused(size: int, text: str) -> None:
    with pytest.raises(ValueError):
        TreeEdge.of_text(size, text)
