"""What a field of an answer is replaced by, and which fields an answer has."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

ABSENT = "absent"
DEEP = 200
# Within what is read of an answer at all.
_MOST_TEXT = 1 << 20
_OTHER_DIGITS = {ord("0"): "1", ord("1"): "0", ord("4"): "8"}

# JSON texts that any field is tried with.
_FIXED = (
    ABSENT, "null", "true", "false", "[]", "{}", '""', "0", "1", "-1", "-5", "7", "64", "65",
    "1025", str(2**31), str(2**53 - 1), str(2**53), str(2**63 - 1), str(2**63), str(2**64),
    str(2**70), str(10**4000), str(-(2**63)), "0.5", "1e308", "NaN", "Infinity",
    '" "', '"x"', '"ok"', '"-1"', '"\\u001b[31mred\\u001b[0m"', '"\\u001b]0;title\\u0007"',
    '"\\u0000"', '"a\\nb"', '"a\\r\\tb"', '"\\ud800"', '"\\udfff\\ud800"', '"\\u202egnp.exe"',
    '"\\u2066\\u2069\\u061c\\u200f"', '"\\u2028\\u2029"', '"\\u009b31m\\u007f"',
    '"../../etc/passwd"',
    '"0000:99:00.0"', '"0000:01:00.0"', '"nvidia-99999"', '"GPU-0"', '"%s{}{0}"', '"$(id)"',
    '"passthrough"', '"H100-SXM5-80GB"', '"GRID X9-999999999Q"', '"best"', "[null]", "[[]]", "[{}]",
    '{"a": {"b": [1]}}', '{"": ""}',
)  # fmt: skip
_LARGE = (
    json.dumps("x" * 5000),
    json.dumps("\x1b[2J" * 50_000),
    "[" * DEEP + "]" * DEEP,
    '{"a":' * DEEP + "1" + "}" * DEEP,
    json.dumps(list(range(10_000))),
    json.dumps({str(number): number for number in range(10_000)}),
)


def texts(field: Any, rng: random.Random) -> Iterator[str]:
    """At least fifty JSON texts in the place of ``field``."""
    yield from _FIXED
    yield from _LARGE
    if isinstance(field, list) and field:
        yield json.dumps(field * 2)
        yield json.dumps(field[:1] * 300)
        yield json.dumps(field[:1] * (_MOST_TEXT // (len(json.dumps(field[0])) + 2)))
        yield json.dumps([*field, field[0], {}])
    if isinstance(field, dict):
        yield json.dumps({**field, "more": field})
        yield json.dumps({**field, **{f"more{number}": field for number in range(50)}})
    if isinstance(field, str):
        yield json.dumps(field + "\x1b[8m")
        yield json.dumps("".join(chr(rng.randrange(1, 0xD7FF)) for _ in range(12)))
    yield from _near(field)
    for _ in range(3):
        yield str(rng.choice((1, -1)) * rng.randrange(2 ** rng.choice((4, 8, 16, 33, 52, 66))))


def _near(field: Any) -> Iterator[str]:
    """Almost the truth: what is of the right shape is believed more often."""
    yield json.dumps([field])
    yield json.dumps({"": field})
    if isinstance(field, bool):
        yield json.dumps(not field)
        yield json.dumps(str(field))
    elif isinstance(field, int | float):
        for found in (field + 1, field - 1, field * 2, field // 2, field * 1024, -field):
            yield json.dumps(found)
        yield json.dumps(str(field))
        yield json.dumps(float(field))
    elif isinstance(field, str):
        for text in (field.upper(), f" {field}", f"{field}\n", field[:-1], field[::-1], field * 40):
            yield json.dumps(text)
        yield json.dumps(field.translate(_OTHER_DIGITS))
    elif isinstance(field, list):
        for found in (field[::-1], field[1:], field[:-1], [*field, None], [*field, *field[:1]]):
            yield json.dumps(found)
    elif isinstance(field, dict):
        for name in list(field)[:4]:
            yield json.dumps({key: item for key, item in field.items() if key != name})
            yield json.dumps({**field, name.upper(): field[name]})
            yield json.dumps({**field, name: None})


def fields(answer: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every part of an answer by its path; of a list its first object of each shape."""
    yield path, answer
    seen: set[tuple[str, ...]] = set()
    if isinstance(answer, dict):
        for name, item in answer.items():
            if "." not in name:
                yield from fields(item, f"{path}.{name}" if path else name)
    elif isinstance(answer, list):
        for number, item in enumerate(answer):
            shape = tuple(sorted(_shape(item)))
            if shape not in seen:
                seen.add(shape)
                yield from fields(item, f"{path}.{number}" if path else str(number))


def _shape(item: Any, depth: int = 3) -> Iterator[str]:
    """What tells two objects of a list apart: which of their parts are there at all."""
    yield type(item).__name__
    if isinstance(item, dict) and depth:
        for name, part in item.items():
            if part not in (None, [], {}):
                yield name
            if isinstance(part, dict):
                yield from (f"{name}.{each}" for each in _shape(part, depth - 1))
