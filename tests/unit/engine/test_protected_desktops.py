"""What a command says that is asked to do to a desktop what its pool alone does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.pools.protected_desktops import refuse_backup
from vgpumgr.model.errors import Conflict


class Ledger:
    """A pool with one desktop."""

    def desktops(self, names: list[str]) -> tuple[Any, ...]:
        return tuple(SimpleNamespace(pool="p", name=name) for name in names if name == "cad-1")

    def pools(self) -> tuple[Any, ...]:
        return (SimpleNamespace(id="p", name="cad"),)


def test_a_desktop_is_not_backed_up() -> None:
    context = cast("EngineContext", SimpleNamespace(ledger=Ledger()))
    with pytest.raises(Conflict, match="cad-1 is a desktop of pool cad") as refused:
        refuse_backup(context, "cad-1")
    assert refused.value.next.startswith("vgpumgr pool show cad")
    refuse_backup(context, "db")
