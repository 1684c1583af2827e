"""Pages of a list: together the whole, each item once, whatever comes and goes between them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.api.pages import page
from vgpumgr.model.errors import UsageError


def listed(names: list[str]) -> dict[str, Any]:
    return {"kind": "VMList", "items": [{"name": name, "id": f"i-{name}"} for name in names]}


def walked(names: list[str], size: int) -> list[str]:
    found, after = [], ""
    while True:
        got = page(listed(names), size, after)
        found += [each["name"] for each in got["items"]]
        if "next_page" not in got:
            return found
        assert len(got["items"]) == size
        after = got["next_page"]


@given(st.lists(st.text(), unique=True), st.integers(1, 7))
def test_pages_are_the_whole_list(names: list[str], size: int) -> None:
    assert walked(names, size) == sorted(names)


def test_what_goes_between_pages_hides_nothing() -> None:
    first = page(listed(["a", "b", "c", "d"]), 2)
    second = page(listed(["a", "c", "d"]), 2, first["next_page"])
    assert [each["name"] for each in second["items"]] == ["c", "d"]
    assert "next_page" not in second


@pytest.mark.parametrize(
    "token", ["x", "e30", "WzFd", "\u00fc", "W1sxXSwyXQ", "=" * 9, "W1tb" * 1000]
)
def test_a_token_that_is_none(token: str) -> None:
    with pytest.raises(UsageError, match="no page"):
        page(listed(["a"]), 1, token)
