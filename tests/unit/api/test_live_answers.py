"""Kept answers: good while the ledger is as it was, never without a change that was made here."""

from __future__ import annotations

import gzip

import pytest

from vgpumgr.api.live_answers import OLDEST_S, LiveAnswers


class World:
    """A ledger's version, a clock, and a slow answer that tells how often it was made."""

    def __init__(self) -> None:
        self.version, self.now, self.made, self.takes_s = 0, 0.0, 0, 0.1
        self.answers = LiveAnswers(lambda: self.version, lambda: self.now)

    def make(self) -> bytes:
        self.made += 1
        self.now += self.takes_s
        return str(self.made).encode()

    def ask(self, key: str = "map") -> int:
        return int(self.answers.answer(key, self.make).data)


def test_an_answer_is_made_once_while_nothing_changes() -> None:
    world = World()
    assert [world.ask() for _ in range(5)] == [1] * 5
    assert world.ask("another") == 2
    world.now += OLDEST_S
    assert world.ask() == 3


def test_changes_of_others_are_seen_soon_and_cost_a_share_of_the_time() -> None:
    world = World()
    world.ask()
    seen = set()
    for _ in range(100):
        world.version += 1
        world.now += 0.01
        seen.add(world.ask())
    assert 2 <= len(seen) <= 4  # a second of changes, 0.1 s an answer


def test_a_change_made_here_is_in_every_answer_after_it() -> None:
    world = World()
    assert world.ask() == 1
    world.version += 1
    world.answers.changed()
    assert world.ask() == 2


def test_an_error_is_raised_and_not_kept() -> None:
    world = World()

    def fail() -> bytes:
        raise ValueError

    with pytest.raises(ValueError):
        world.answers.answer("map", fail)
    assert world.ask() == 1


def test_long_answers_are_packed_once() -> None:
    answers = LiveAnswers(lambda: 0)
    long = answers.answer("long", lambda: b"x" * 50_000)
    assert gzip.decompress(long.packed()) == long.data
    assert long.packed() is long.packed()
    assert answers.answer("short", lambda: b"x").packed() == b""
