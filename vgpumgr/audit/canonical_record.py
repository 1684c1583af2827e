"""The one text of a record that is hashed: JSON in ASCII, keys sorted, without what is empty.

A column that is added later is empty in older records, so that their text stays what it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

# What no JSON can hold is no value of ours: its text differs from every sealed one.
_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=repr).encode


def canonical_form(columns: Mapping[str, object]) -> Callable[[Sequence[object]], str]:
    """What makes the text of a record from the values of these columns, in their order; each is
    given with the value that says nothing.
    """
    order = sorted((name, at) for at, name in enumerate(columns))
    cells = [(name, at, columns[name]) for name, at in order]

    def canonical(values: Sequence[object]) -> str:
        return _ENCODE({name: value for name, at, no in cells if (value := values[at]) != no})

    return canonical
