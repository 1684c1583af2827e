"""Which images a pool may be given."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.poolsim import spec
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.pools.pool_apply import _nowhere
from vgpumgr.engine.pools.pool_changes import refuse_image
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.formats import size_words
from vgpumgr.model.image import CopyState, ImageCopy, ImageRecord


def image(version: str, retired_at: float | None = None) -> ImageRecord:
    return ImageRecord(
        id=version,
        name="cad",
        version=version,
        format="qcow2",
        virtual_bytes=1,
        file_bytes=1,
        sha256="0" * 64,
        source="cad.qcow2",
        created_at=0.0,
        retired_at=retired_at,
    )


def test_a_version_that_its_image_does_not_have_is_refused() -> None:
    images = (image("1", retired_at=1.0), image("2"))
    context = cast("EngineContext", SimpleNamespace(ledger=SimpleNamespace(images=lambda: images)))
    refuse_image(context, "cad@2")
    refuse_image(context, "cad2@7")  # a volume on the hosts
    with pytest.raises(NotFound, match="no image cad@77"):
        refuse_image(context, "cad@77")
    with pytest.raises(Conflict, match="retired"):
        refuse_image(context, "cad@1")


def test_an_image_that_lies_nowhere_is_warned_of() -> None:
    there = ImageCopy(id="c", image="2", host="h1", pool="default", state=CopyState.THERE)
    images = (image("1"), replace(image("2"), copies=(there,)))
    view = cast("LedgerView", SimpleNamespace(images=images, hosts=[SimpleNamespace(name="h1")]))
    [warning] = _nowhere(view, spec(image="cad@1"))
    assert "vgpumgr image import cad.qcow2 --name cad --version 1" in warning
    assert _nowhere(view, spec(image="cad@2")) == []
    assert _nowhere(view, spec(image="volume@2")) == []


def test_a_large_disk_is_said_in_tib() -> None:
    assert size_words(10 << 40) == "10 TiB"
    assert size_words(2 << 40) == "2048 GiB"
