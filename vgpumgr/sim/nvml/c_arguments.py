"""C arguments as pynvml passes them: numbers, places to fill in, texts, arrays, handles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pynvml


class Failed(Exception):
    """A function's return code other than success."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def number(given: Any) -> int:
    """An int, a ctypes integer, or a pointer (a handle is opaque: its number)."""
    if isinstance(given, int):
        return given
    value = given.value if hasattr(given, "value") else None
    if isinstance(value, int):
        return value
    return int(pynvml.cast(given, pynvml.c_void_p).value or 0)


def place(reference: Any) -> Any:
    """What ``byref(x)`` or ``pointer(x)`` refers to."""
    return reference._obj if hasattr(reference, "_obj") else reference.contents


def put(reference: Any, value: int) -> None:
    """``*reference = value``."""
    place(reference).value = value


def put_handle(reference: Any, handle: int) -> None:
    """``*reference = handle``, whatever kind of handle it is."""
    pointer = pynvml.cast(handle, type(place(reference)))
    pynvml.memmove(reference, pynvml.byref(pointer), pynvml.sizeof(pointer))


def put_text(buffer: Any, length: Any, text: str) -> None:
    """Fill a buffer of ``length`` bytes; INSUFFICIENT_SIZE where it is too small."""
    room = number(place(length) if hasattr(length, "_obj") else length)
    if len(text) >= room:
        raise Failed(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    target = buffer if hasattr(buffer, "raw") else place(buffer)
    target.value = text.encode()


def put_list(count: Any, array: Any, values: Sequence[int]) -> None:
    """NVML's two calls: without room the count and INSUFFICIENT_SIZE, then the values."""
    room = number(place(count)) if array is not None else 0
    put(count, len(values))
    if len(values) > room:
        raise Failed(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    for index, value in enumerate(values):
        array[index] = value


def put_placements(count: Any, array: Any, values: Sequence[tuple[int, int]]) -> None:
    """As ``put_list`` for places (start, size); without an array the count is the answer."""
    room = number(place(count))
    put(count, len(values))
    if array is None:
        return
    if len(values) > room:
        raise Failed(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    for index, (start, size) in enumerate(values):
        array[index].start, array[index].size = start, size


def put_handles(count: Any, array: Any, handles: Sequence[int], kind: Any) -> None:
    """Handles into an array that the caller made large enough."""
    put(count, len(handles))
    for index, handle in enumerate(handles):
        array[index] = pynvml.cast(handle, kind)


def check_version(struct: Any, *known: int) -> None:
    """ARGUMENT_VERSION_MISMATCH for a struct of another version."""
    if struct.version not in known:
        raise Failed(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
