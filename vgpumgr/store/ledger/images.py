"""Disk images in the ledger: versions, and their copies on hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.codec import printable
from vgpumgr.model.errors import NotFound, StaleGeneration
from vgpumgr.model.image import CopyState, ImageCopy, ImageRecord
from vgpumgr.model.operation import Reservation
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import image, image_copy, task
from vgpumgr.store.schema.columns import decodes

Row = dict[str, Any]

_OPEN = image_copy.c.gone_at.is_(None)
_IMAGES = select(image).order_by(image.c.name, image.c.created_at, image.c.version)
_COPIES = select(image_copy).where(_OPEN).order_by(image_copy.c.host, image_copy.c.pool)
_OF_TASK = (
    select(image_copy, image.c.name, image.c.version, task.c.operation)
    .join(image, image.c.id == image_copy.c.image)
    .join(task, task.c.vm_id == image_copy.c.id)
    .where(_OPEN, task.c.id == bindparam("in_task"))
)


def list_images(connection: Connection) -> tuple[ImageRecord, ...]:
    """Every image by name and age, with the copies that are not gone."""
    copies: dict[str, list[ImageCopy]] = {}
    for row in connection.execute(_COPIES):
        copies.setdefault(row.image, []).append(copy_of(row))
    return tuple(image_of(row, copies.get(row.id, ())) for row in connection.execute(_IMAGES))


def retire_image(connection: Connection, stamp: Stamp, id_: str) -> None:
    """Use it for no new VM; NotFound for an id that no image has."""
    retired = update(image).where(image.c.id == id_, image.c.retired_at.is_(None))
    changed = connection.execute(
        retired.values(retired_at=stamp.at).returning(image.c.name, image.c.version)
    ).one_or_none()
    if changed is not None:
        told = {"event": "image.retired", "detail": f"{changed.name}@{changed.version}"}
        write(connection, stamp, [told])
    elif connection.execute(select(image.c.id).where(image.c.id == id_)).first() is None:
        raise NotFound(f"the ledger has no image {id_}", next="vgpumgr image list")


def begin_images(connection: Connection, stamp: Stamp, start: Reservation) -> None:
    """Write new images, and the copies that come or leave; StaleGeneration where another process
    was faster.
    """
    try:
        for each in start.images:
            connection.execute(insert(image).values(_row(each)))
        for copy in start.copies:
            if _moved_on(connection, copy):
                continue
            if copy.state is not CopyState.IMPORTING:
                raise _stale(f"the copy on {copy.host} is not there any more")
            connection.execute(insert(image_copy).values(_copy_row(copy)))
    except IntegrityError as error:
        raise _stale("an image of that version, or a copy of it, was started meanwhile") from error
    operation = start.operation.id
    told = (*_made(start), *_moved(connection, start.copies))
    write(connection, stamp, [{**row, "operation": operation} for row in told])


def end_copy(connection: Connection, stamp: Stamp, task_id: str, state: CopyState) -> None:
    """What the copy that a task is about has become; saying it twice is no error."""
    row = connection.execute(_OF_TASK, {"in_task": task_id}).one_or_none()
    if row is None or row.state == state.value:
        return
    values: Row = {"state": state.value}
    if state is CopyState.THERE and row.state == CopyState.IMPORTING.value:
        values["verified_at"] = stamp.at
    if state is CopyState.GONE:
        values["gone_at"] = stamp.at
    connection.execute(update(image_copy).where(image_copy.c.id == row.id).values(**values))
    told = _told(state, row.host, row.pool, row)
    write(connection, stamp, [{**told, "task": task_id, "operation": row.operation}])


def forget_host(connection: Connection, stamp: Stamp, name: str) -> None:
    """The copies on a host that has left the fleet are nobody's any more."""
    gone = update(image_copy).where(_OPEN, image_copy.c.host == name)
    connection.execute(gone.values(state=CopyState.GONE.value, gone_at=stamp.at))


def _made(start: Reservation) -> Iterator[Row]:
    for each in start.images:
        detail = f"{each.reference} {each.sha256} {each.source}"
        yield {"event": "image.imported", "detail": detail}


def _moved(connection: Connection, copies: Sequence[ImageCopy]) -> Iterator[Row]:
    of = select(image).where(image.c.id.in_(sorted({each.image for each in copies})))
    known = {row.id: row for row in connection.execute(of)} if copies else {}
    for each in copies:
        yield _told(each.state, each.host, each.pool, known[each.image])


def _moved_on(connection: Connection, copy: ImageCopy) -> bool:
    """A copy that is there leaves, or is sent anew; is it?"""
    there = image_copy.c.state == CopyState.THERE.value
    moved = update(image_copy).where(_OPEN, image_copy.c.id == copy.id, there)
    return connection.execute(moved.values(state=copy.state.value)).rowcount == 1


def _stale(message: str) -> StaleGeneration:
    return StaleGeneration(message, why="another process was faster", next="vgpumgr image list")


def _told(state: CopyState | str, host: str, pool: str, of: Any) -> Row:
    detail = f"{of.name}@{of.version} in pool {pool}"
    return {"event": f"image.copy-{CopyState(state)}", "host": host, "detail": detail}


@decodes(image)
def image_of(row: Any, copies: Iterable[ImageCopy]) -> ImageRecord:
    """The image of a whole row, with its copies."""
    return ImageRecord(**row._mapping, copies=tuple(copies))


@decodes(image_copy)
def copy_of(row: Any) -> ImageCopy:
    """The copy of a whole row."""
    return ImageCopy(
        id=row.id,
        image=row.image,
        host=row.host,
        pool=row.pool,
        state=CopyState(row.state),
        verified_at=row.verified_at,
    )


def _row(record: ImageRecord) -> Row:
    names = [column.name for column in image.columns]
    return {**{name: getattr(record, name) for name in names}, "source": printable(record.source)}


def _copy_row(copy: ImageCopy) -> Row:
    names = [column.name for column in image_copy.columns if column.name != "gone_at"]
    return {**{name: getattr(copy, name) for name in names}, "state": copy.state.value}
