"""What has ended is forgotten after a while: requests over HTTP, login sessions, API tokens.

The trail keeps who came in, and what was granted. Each call forgets a limited number, the oldest.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select, tuple_

from vgpumgr.store.schema import api_request, api_token, login_session

_LONGEST_S = 30 * 86_400.0
"""A request without an end: its operation goes on, or its process has died."""


def forget_requests(connection: Connection, before: float, most: int) -> int:
    """Forget requests that were begun before a time, and have ended."""
    it = api_request.c
    ended = it.ended_at.is_not(None) | (it.begun_at < before - _LONGEST_S)
    some = select(it.user_name, it.key).where(it.begun_at < before, ended)
    oldest = some.order_by(it.begun_at).limit(most)
    gone = delete(api_request).where(tuple_(it.user_name, it.key).in_(oldest))
    return connection.execute(gone).rowcount


def forget_logins(connection: Connection, before: float, most: int) -> int:
    """Forget sessions that ended, or expired, before a time. The newest of each user stays: tokens
    of the user count for the groups that it names.
    """
    it, newer = login_session.c, login_session.alias()
    ended = func.coalesce(it.ended_at, it.expires_at)
    later = select(newer.c.id).where(
        newer.c.user_name == it.user_name, newer.c.created_at > it.created_at
    )
    some = select(it.id).where(ended < before, later.exists()).order_by(ended).limit(most)
    return connection.execute(delete(login_session).where(it.id.in_(some))).rowcount


def forget_tokens(connection: Connection, before: float, most: int) -> int:
    """Forget tokens that were revoked, or expired, before a time."""
    it = api_token.c
    ended = func.coalesce(it.revoked_at, it.expires_at)
    some = select(it.id).where(ended < before).order_by(ended).limit(most)
    return connection.execute(delete(api_token).where(it.id.in_(some))).rowcount
