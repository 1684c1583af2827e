"""Requests over HTTP: their keys, written with their first change, and their ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.api_request import ApiRequest, RequestKey, current_request
from vgpumgr.model.codec import dump, load_mapping, printable
from vgpumgr.model.errors import RequestRepeated
from vgpumgr.store.schema import api_request
from vgpumgr.store.schema.columns import decodes

_MOST = 1 << 20
"""The longest end that is kept, in bytes; of a longer one only the operation is."""


def bind_request(connection: Connection, now: float, operation: str = "") -> None:
    """Write the key of the request that this thread works for, in the transaction of its change;
    RequestRepeated where another attempt has changed something under it.
    """
    key = current_request()
    if key is None:
        return
    query = select(api_request.c.attempt, api_request.c.operation).where(*_under(key.user, key.key))
    found = connection.execute(query).one_or_none()
    if found is None:
        _insert(connection, key, now, operation)
    elif found.attempt != key.attempt:
        raise RequestRepeated(f"the request {key.key} is carried out already")
    elif operation and not found.operation:
        connection.execute(
            update(api_request).where(*_under(key.user, key.key)).values(operation=operation)
        )


def _insert(connection: Connection, key: RequestKey, now: float, operation: str) -> None:
    row = {
        "user_name": printable(key.user),
        "key": printable(key.key),
        "digest": key.digest,
        "endpoint": key.endpoint,
        "attempt": key.attempt,
        "operation": operation,
        "begun_at": now,
    }
    try:
        connection.execute(insert(api_request), row)
    except IntegrityError as error:
        raise RequestRepeated(f"the request {key.key} is carried out already") from error


def _under(user: str, key: str) -> tuple[Any, ...]:
    return (api_request.c.user_name == printable(user), api_request.c.key == printable(key))


def get_request(connection: Connection, user: str, key: str) -> ApiRequest | None:
    """The request under a user's key."""
    row = connection.execute(select(api_request).where(*_under(user, key))).one_or_none()
    return None if row is None else request_of_row(row)


def request_of_operation(connection: Connection, operation: str) -> ApiRequest | None:
    """The request that began an operation."""
    query = select(api_request).where(api_request.c.operation == operation).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else request_of_row(row)


@decodes(api_request)
def request_of_row(row: Any) -> ApiRequest:
    """The record of a whole row."""
    return ApiRequest(
        user=row.user_name,
        key=row.key,
        digest=row.digest,
        endpoint=row.endpoint,
        attempt=row.attempt,
        operation=row.operation,
        begun_at=row.begun_at,
        ended_at=row.ended_at,
        end=load_mapping(row.answer),
    )


def end_request(
    connection: Connection, now: float, key: RequestKey, end: Mapping[str, object]
) -> None:
    """Keep the end of an attempt that changed something."""
    text = dump(end)
    values = {"ended_at": now, "answer": text if len(text) <= _MOST else "{}"}
    where = (*_under(key.user, key.key), api_request.c.attempt == key.attempt)
    connection.execute(update(api_request).where(*where).values(values))
