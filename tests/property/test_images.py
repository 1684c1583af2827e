"""Whatever bytes an image is made of: a verdict, or our error; in bounded work."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.images.files import FIELDS, Bytes, qcow2
from vgpumgr.image_inspection import inspect
from vgpumgr.model.errors import BadImage

LARGEST = {">I": 32, ">Q": 64, ">B": 8}
NUMBERS = {name: LARGEST[form] for name, (_, form) in FIELDS.items() if form in LARGEST}


def number(bits: int) -> st.SearchStrategy[int]:
    """Any, and more often those near powers of two, which are offsets and feature bits."""
    power = st.integers(0, bits - 1).map(lambda each: 1 << each)
    near = st.builds(lambda p, n: max(0, p + n), power, st.integers(-1, 1))
    return st.one_of(st.integers(0, (1 << bits) - 1), near, st.integers(0, 8))


FIELD = st.sampled_from(sorted(NUMBERS)).flatmap(
    lambda name: st.tuples(st.just(name), number(NUMBERS[name]))
)


def judge(data: bytes, declared: str) -> None:
    read = 0

    def seen(count: int) -> None:
        nonlocal read
        read += count

    with suppress(BadImage):
        found = inspect(Bytes(data, seen), declared)
        assert 0 < found.virtual_bytes <= 2 << 40
        assert found.file_bytes == len(data)
    assert read <= 3 * len(data) + (2 << 20)


@given(changes=st.lists(FIELD, max_size=6))
def test_a_header_of_any_numbers_is_judged(changes: list[tuple[str, int]]) -> None:
    judge(qcow2(**dict(changes)), "qcow2")


@given(
    holes=st.lists(st.tuples(st.integers(0, 6 << 16), st.binary(max_size=64)), max_size=8),
    length=st.integers(0, 6 << 16),
    declared=st.sampled_from(["raw", "qcow2"]),
)
def test_a_file_with_any_bytes_in_it_is_judged(
    holes: list[tuple[int, bytes]], length: int, declared: str
) -> None:
    made = bytearray(qcow2())
    for at, data in holes:
        made[at : at + len(data)] = data
    judge(bytes(made[:length]), declared)


@given(data=st.binary(max_size=4096), declared=st.sampled_from(["raw", "qcow2"]))
def test_any_small_file_is_judged(data: bytes, declared: str) -> None:
    judge(data, declared)
