"""Which images a pool may be given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.pool.changing import refuse_image
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.image import ImageRecord
from vgpumgr.model.size import size_words


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
    session = cast(Session, SimpleNamespace(ledger=SimpleNamespace(images=lambda: images)))
    refuse_image(session, "cad@2")
    refuse_image(session, "cad2@7")  # a volume on the hosts
    with pytest.raises(NotFound, match="no image cad@77"):
        refuse_image(session, "cad@77")
    with pytest.raises(Conflict, match="retired"):
        refuse_image(session, "cad@1")


def test_a_large_disk_is_said_in_tib() -> None:
    assert size_words(10 << 40) == "10 TiB"
    assert size_words(2 << 40) == "2048 GiB"
