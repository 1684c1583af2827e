"""Cycles among VMs that are after each other."""

from __future__ import annotations

import pytest

from vgpumgr.placement.queue.waiting_order import cycle


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({}, ()),
        ({"a": ["b"], "b": ["c"], "c": []}, ()),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["elsewhere"]}, ()),
        ({"a": ["a"]}, ("a",)),
        ({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]}, ("a", "b", "c")),
    ],
)
def test_a_cycle_is_named(after: dict[str, list[str]], found: tuple[str, ...]) -> None:
    assert cycle(after) == found


def test_a_long_chain_is_no_matter() -> None:
    chain = {str(n): [str(n + 1)] for n in range(20_000)}
    assert cycle(chain) == ()
