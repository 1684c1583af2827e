"""Role bindings, API tokens and login sessions in the ledger. The trail tells of each, and no
secret or digest of one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.codec import dump, load_list, printable
from vgpumgr.model.credential import ApiToken, LoginSession
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.role_binding import Role, RoleBinding
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import api_token, login_session, role_binding
from vgpumgr.store.schema.columns import decodes

Row = dict[str, Any]

_BINDINGS = select(role_binding).order_by(
    role_binding.c.subject, role_binding.c.tenant, role_binding.c.role
)
_SEEN_EVERY_S = 60.0


def list_bindings(
    connection: Connection, subjects: Collection[str] | None = None
) -> tuple[RoleBinding, ...]:
    """Every binding, or those of these subjects, by subject, tenant and role."""
    query = _BINDINGS
    if subjects is not None:
        query = query.where(role_binding.c.subject.in_(sorted(subjects)))
    return tuple(binding_of(row) for row in connection.execute(query))


@decodes(role_binding)
def binding_of(row: Any) -> RoleBinding:
    """The binding of a whole row."""
    return RoleBinding(
        subject=row.subject,
        role=Role(row.role),
        tenant=row.tenant,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def bind_role(connection: Connection, stamp: Stamp, binding: RoleBinding) -> bool:
    """Enter a binding; False where it was there already."""
    if connection.execute(select(role_binding.c.subject).where(_is(binding))).first():
        return False
    values = {
        "subject": printable(binding.subject),
        "role": binding.role.value,
        "tenant": binding.tenant,
        "created_at": stamp.at,
        "created_by": printable(stamp.by),
    }
    try:
        connection.execute(insert(role_binding), values)
    except IntegrityError as error:
        raise Conflict("another process granted the same role just now") from error
    _tell(connection, stamp, "bound", _binding_text(binding))
    return True


def unbind_role(
    connection: Connection, stamp: Stamp, subject: str, role: Role, tenant: str
) -> None:
    """Remove a binding; NotFound where there is none."""
    binding = RoleBinding(subject=subject, role=role, tenant=tenant)
    if not connection.execute(delete(role_binding).where(_is(binding))).rowcount:
        raise NotFound(
            f"{subject} does not have {role}", why=f"tenant: {tenant}", next="vgpumgr role list"
        )
    _tell(connection, stamp, "unbound", _binding_text(binding))


def _is(binding: RoleBinding) -> Any:
    it = role_binding.c
    same = (it.subject == binding.subject) & (it.role == binding.role.value)
    return same & (it.tenant == binding.tenant)


def _binding_text(binding: RoleBinding) -> str:
    return f"{binding.subject}: {binding.role} in {binding.tenant}"


def list_tokens(connection: Connection, owner: str | None = None) -> tuple[ApiToken, ...]:
    """Tokens that were not revoked (of one owner), the oldest first, expired ones too."""
    query = select(api_token).where(api_token.c.revoked_at.is_(None))
    if owner is not None:
        query = query.where(api_token.c.owner == owner)
    rows = connection.execute(query.order_by(api_token.c.created_at, api_token.c.id))
    return tuple(token_of(row) for row in rows)


def get_token(connection: Connection, secret_hash: str) -> ApiToken | None:
    """The token of that secret, revoked and expired ones too."""
    row = _by_secret(connection, api_token, secret_hash)
    return token_of(row) if row is not None else None


@decodes(api_token)
def token_of(row: Any) -> ApiToken:
    """The token of a whole row."""
    return ApiToken(
        id=row.id,
        name=row.name,
        owner=row.owner,
        role=Role(row.role),
        tenant=row.tenant,
        owner_groups=frozenset(load_list(row.owner_groups)),
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )


def add_token(connection: Connection, stamp: Stamp, token: ApiToken, secret_hash: str) -> None:
    """Enter a token; Conflict where its owner has one of that name."""
    values = {
        "id": token.id,
        "name": printable(token.name),
        "owner": printable(token.owner),
        "owner_groups": dump(token.owner_groups),
        "secret_hash": secret_hash,
        "role": token.role.value,
        "tenant": token.tenant,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
    }
    try:
        connection.execute(insert(api_token), values)
    except IntegrityError as error:
        raise Conflict(
            f"{token.owner} has a token {token.name} already",
            next="another name, or first vgpumgr token revoke; vgpumgr token list",
        ) from error
    _tell(connection, stamp, "token-created", _token_text(token))


def use_token(connection: Connection, token_id: str, at: float) -> None:
    """Remember that it was used, to the minute."""
    used = api_token.c.last_used_at
    late = or_(used.is_(None), used <= at - _SEEN_EVERY_S)
    connection.execute(
        update(api_token).where(api_token.c.id == token_id, late).values(last_used_at=at)
    )


def revoke_token(connection: Connection, stamp: Stamp, token_id: str) -> ApiToken:
    """Revoke a token by its id or a unique prefix of it; NotFound where there is none."""
    open_ = select(api_token).where(api_token.c.revoked_at.is_(None))
    row = _by_prefix(connection, open_, api_token, token_id, "token", "vgpumgr token list")
    revoked = update(api_token).where(api_token.c.id == row.id)
    connection.execute(revoked.values(revoked_at=stamp.at))
    token = token_of(row)
    _tell(connection, stamp, "token-revoked", _token_text(token))
    return token


def _token_text(token: ApiToken) -> str:
    return f"{token.name} of {token.owner}: {token.role} in {token.tenant}"


def list_logins(connection: Connection, user: str | None = None) -> tuple[LoginSession, ...]:
    """Sessions that were not ended (of one user), the newest first."""
    query = select(login_session).where(login_session.c.ended_at.is_(None))
    if user is not None:
        query = query.where(login_session.c.user_name == user)
    rows = connection.execute(query.order_by(login_session.c.created_at.desc(), login_session.c.id))
    return tuple(login_of(row) for row in rows)


def get_login(connection: Connection, secret_hash: str) -> LoginSession | None:
    """The session of that secret, ended ones too."""
    row = _by_secret(connection, login_session, secret_hash)
    return login_of(row) if row is not None else None


def last_login(connection: Connection, user: str) -> LoginSession | None:
    """A user's newest session, whatever became of it."""
    query = select(login_session).where(login_session.c.user_name == user)
    newest = query.order_by(login_session.c.created_at.desc(), login_session.c.id).limit(1)
    row = connection.execute(newest).one_or_none()
    return login_of(row) if row is not None else None


@decodes(login_session)
def login_of(row: Any) -> LoginSession:
    """The session of a whole row."""
    return LoginSession(
        id=row.id,
        user=row.user_name,
        groups=frozenset(load_list(row.user_groups)),
        method=LoginMethod(row.method),
        address=row.address,
        created_at=row.created_at,
        seen_at=row.seen_at,
        expires_at=row.expires_at,
        ended_at=row.ended_at,
        why=row.why,
    )


def begin_login(
    connection: Connection, stamp: Stamp, session: LoginSession, secret_hash: str
) -> None:
    """Enter a session."""
    values = {
        "id": session.id,
        "secret_hash": secret_hash,
        "user_name": printable(session.user),
        "user_groups": dump(session.groups),
        "method": session.method.value,
        "address": printable(session.address),
        "created_at": session.created_at,
        "seen_at": session.seen_at,
        "expires_at": session.expires_at,
        "why": "",
    }
    connection.execute(insert(login_session), values)
    _tell(connection, stamp, "login", _login_text(session))


def see_login(connection: Connection, session_id: str, at: float) -> None:
    """Remember that it was used, to the minute."""
    late = login_session.c.seen_at <= at - _SEEN_EVERY_S
    connection.execute(
        update(login_session).where(login_session.c.id == session_id, late).values(seen_at=at)
    )


def end_login(connection: Connection, stamp: Stamp, session_id: str, why: str) -> LoginSession:
    """End a session by its id or a unique prefix of it; NotFound where there is none."""
    open_ = select(login_session).where(login_session.c.ended_at.is_(None))
    row = _by_prefix(
        connection, open_, login_session, session_id, "session", "vgpumgr auth session list"
    )
    ended = update(login_session).where(login_session.c.id == row.id)
    connection.execute(ended.values(ended_at=stamp.at, why=printable(why)))
    session = login_of(row)
    _tell(connection, stamp, "login-ended", f"{_login_text(session)}: {why}")
    return session


def _login_text(session: LoginSession) -> str:
    return f"{session.user} by {session.method} from {session.address or 'this machine'}"


def _by_secret(connection: Connection, table: Table, secret_hash: str) -> Any:
    query = select(table).where(table.c.secret_hash == secret_hash)
    return connection.execute(query).one_or_none()


def _by_prefix(
    connection: Connection, query: Any, table: Table, prefix: str, noun: str, next_: str
) -> Any:
    starts = table.c.id.startswith(prefix, autoescape=True)
    found: Sequence[Any] = (
        connection.execute(query.where(starts).order_by(table.c.id).limit(2)).all()
        if prefix
        else ()
    )
    if len(found) != 1:
        many = "more than one begins so" if found else ""
        raise NotFound(f"no {noun} {prefix}", why=many, next=next_)
    return found[0]


def _tell(connection: Connection, stamp: Stamp, what: str, detail: str) -> None:
    write(connection, stamp, [{"event": f"access.{what}", "detail": detail}])
