"""What the rows of images say against the journal."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from vgpumgr.model.image import CopyState
from vgpumgr.model.journal import FINAL_TASKS
from vgpumgr.model.keeping import Problem
from vgpumgr.store.schema import image, image_copy, task

_ON_THE_WAY = (CopyState.IMPORTING.value, CopyState.LEAVING.value)
_ENDED = tuple(state.value for state in FINAL_TASKS)


def image_problems(connection: Connection) -> Iterator[Problem]:
    """Copies that come or leave, and no operation is about them."""
    working = select(task.c.vm_id).where(task.c.state.not_in(_ENDED), task.c.vm_id.is_not(None))
    found = (
        select(image_copy.c.host, image_copy.c.state, image.c.name, image.c.version)
        .join(image, image.c.id == image_copy.c.image)
        .where(
            image_copy.c.gone_at.is_(None),
            image_copy.c.state.in_(_ON_THE_WAY),
            image_copy.c.id.not_in(working),
        )
        .order_by(image.c.name, image.c.version, image_copy.c.host)
    )
    for row in connection.execute(found):
        yield Problem(
            what=f"image {row.name}@{row.version} on {row.host} is {row.state}",
            why="no operation is about it",
            next="vgpumgr store restore BACKUP",
        )
