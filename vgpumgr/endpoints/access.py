"""The endpoints of access: roles, API tokens, login sessions, and who one is.

Who may see and grant what is decided by :class:`AccessAdministration`, for each binding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.shapes import ItemList, Name, Time
from vgpumgr.model.codec import to_plain
from vgpumgr.model.role_binding import EVERY_TENANT, Role, RoleBinding

if TYPE_CHECKING:
    from vgpumgr.identity.established import Established
    from vgpumgr.model.credential import ApiToken, LoginSession

RoleName = Annotated[str, ParameterLimits(pattern=f"^({'|'.join(role.value for role in Role)})$")]
MONTH_S = 30 * 86_400.0
YEAR_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NoParameters:
    """Nothing is asked but the thing itself."""


class BindingItem(TypedDict):
    """A role that a subject holds in a tenant (``*``: in all)."""

    name: str
    subject: str
    role: str
    tenant: str
    created_at: Time
    created_by: str


class TokenItem(TypedDict):
    """An API token; its secret is never shown again."""

    id: str
    name: str
    owner: str
    owner_groups: list[str]
    role: str
    tenant: str
    created_at: Time
    expires_at: Time
    last_used_at: Time | None


class NewToken(TokenItem):
    """A token with its secret, which is shown this once."""

    secret: str


class LoginItem(TypedDict):
    """A login session."""

    name: str
    id: str
    user: str
    groups: list[str]
    method: str
    address: str
    created_at: Time
    seen_at: Time
    expires_at: Time
    ended_at: Time | None
    why: str


class PrincipalItem(TypedDict):
    """Who one is, what bindings may call one, and what one may do in which tenants."""

    name: str
    subjects: list[str]
    method: str
    roles: list[str]
    permissions: dict[str, str | list[str]]


class Done(TypedDict):
    """What was done, by the names of what it was done to."""

    name: str
    names: list[str]


def list_bindings(context: CallContext, _: NoParameters) -> Result[ItemList[BindingItem]]:
    """The bindings of the tenants whose access the caller may see."""
    found = context.shown_access.administration.bindings(context.who)
    items: list[Any] = [{"name": each.subject, **to_plain(each)} for each in found]
    return Result(answer={"items": items})


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A role for a subject (``user:NAME``, ``group:NAME``, ``local:NAME``, …) in a tenant."""

    subject: Name
    role: RoleName
    tenant: Name = EVERY_TENANT


def _binding(asked: Binding) -> RoleBinding:
    return RoleBinding(subject=asked.subject, role=Role(asked.role), tenant=asked.tenant)


def _where(tenant: str) -> str:
    return "all tenants" if tenant == EVERY_TENANT else f"tenant {tenant}"


def grant_role(context: CallContext, asked: Binding) -> Result[Done]:
    """Grant a role; one that is held already stays."""
    new = context.access.administration.grant(context.who, _binding(asked))
    said = f"{asked.subject} {'has' if new else 'had'} {asked.role} in {_where(asked.tenant)}"
    return Result(answer={"name": "granted", "names": [asked.subject]}, notes=(said,))


def revoke_role(context: CallContext, asked: Binding) -> Result[Done]:
    """Revoke a role; it holds from the next request on."""
    context.access.administration.revoke(context.who, _binding(asked))
    said = f"{asked.subject} no longer has {asked.role} in {_where(asked.tenant)}"
    return Result(answer={"name": "revoked", "names": [asked.subject]}, notes=(said,))


def list_tokens(context: CallContext, _: NoParameters) -> Result[ItemList[TokenItem]]:
    """The caller's tokens, and those for tenants whose access the caller may see."""
    found = context.shown_access.administration.list_tokens(context.who)
    return Result(answer={"items": [token_item(each) for each in found]})


def token_item(token: ApiToken) -> TokenItem:
    """The JSON of a token."""
    item: Any = to_plain(token)
    del item["revoked_at"]
    found: TokenItem = item
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A token of the caller's own: what ``role`` gives in ``tenant``, as far as the caller has it,
    for ``lifetime_s`` seconds.
    """

    name: Name
    role: RoleName
    tenant: Name = EVERY_TENANT
    lifetime_s: Annotated[float, ParameterLimits(ge=1, le=YEAR_S)] = MONTH_S


def create_token(context: CallContext, asked: TokenRequest) -> Result[NewToken]:
    """A new token with its secret."""
    made, secret = context.access.administration.create_token(
        context.who,
        name=asked.name,
        role=Role(asked.role),
        tenant=asked.tenant,
        lifetime_s=asked.lifetime_s,
    )
    answer: NewToken = {**token_item(made), "secret": secret}
    said = f"keep it safe; vgpumgr token revoke {made.name} ends it"
    return Result(answer=answer, notes=(said,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """Tokens or sessions by their ids; one's own tokens by their names, too."""

    names: Annotated[tuple[Name, ...], ParameterLimits(min_length=1, max_length=1000)]


def revoke_tokens(context: CallContext, asked: Revoked) -> Result[Done]:
    """Revoke tokens at once."""
    administration = context.access.administration
    gone = [administration.revoke_token(context.who, each) for each in asked.names]
    said = tuple(f"token {each.name} of {each.owner} is revoked" for each in gone)
    return Result(answer={"name": "revoked", "names": [each.name for each in gone]}, notes=said)


def list_logins(context: CallContext, _: NoParameters) -> Result[ItemList[LoginItem]]:
    """The caller's login sessions, or all for who may see all access."""
    found: Sequence[LoginSession] = context.shown_access.administration.list_logins(context.who)
    items: list[Any] = [{"name": each.id, **to_plain(each)} for each in found]
    return Result(answer={"items": items})


def end_logins(context: CallContext, asked: Revoked) -> Result[Done]:
    """End login sessions at once."""
    administration = context.access.administration
    ended = [administration.end_login(context.who, each) for each in asked.names]
    said = tuple(f"session of {each.user} is ended" for each in ended)
    return Result(answer={"name": "ended", "names": [each.id for each in ended]}, notes=said)


def show_principal(context: CallContext, _: NoParameters) -> Result[PrincipalItem]:
    """Who the caller is."""
    return Result(answer=principal_item(context.who))


def principal_item(who: Established) -> PrincipalItem:
    """The JSON of who asks."""
    return {
        "name": who.principal.user,
        "subjects": sorted(who.principal.subjects),
        "method": who.principal.method.value,
        "roles": list(who.grants.roles),
        "permissions": {
            str(permission): sorted(scope.tenants) if scope.tenants is not None else EVERY_TENANT
            for permission, scope in who.grants.table()
        },
    }


def _endpoint(
    name: str, method: HttpMethod, path: str, needs: Permission | None, **more: Any
) -> Endpoint[Any, Any]:
    return Endpoint(
        name=name,
        method=method,
        path=path,
        permission=needs,
        scoped=True,
        personal=True,
        **more,
    )


LIST_BINDINGS = _endpoint(
    *("role.list", HttpMethod.GET, "/roles", Permission.ACCESS_READ),
    summary="Who holds which role in which tenant.",
    asks=NoParameters,
    answers=ItemList[BindingItem],
    kind="RoleBindingList",
    work=list_bindings,
)
GRANT_ROLE = _endpoint(
    *("role.grant", HttpMethod.POST, "/roles:grant", Permission.ACCESS_WRITE),
    summary="Grant a role.",
    asks=Binding,
    answers=Done,
    kind="Done",
    work=grant_role,
)
REVOKE_ROLE = _endpoint(
    *("role.revoke", HttpMethod.POST, "/roles:revoke", Permission.ACCESS_WRITE),
    summary="Revoke a role.",
    asks=Binding,
    answers=Done,
    kind="Done",
    work=revoke_role,
)
LIST_TOKENS = _endpoint(
    *("token.list", HttpMethod.GET, "/tokens", Permission.TOKEN_OWN),
    summary="API tokens that were not revoked.",
    asks=NoParameters,
    answers=ItemList[TokenItem],
    kind="TokenList",
    work=list_tokens,
)
CREATE_TOKEN = _endpoint(
    *("token.create", HttpMethod.POST, "/tokens", Permission.TOKEN_OWN),
    summary="An API token; its secret is in this answer alone.",
    asks=TokenRequest,
    answers=NewToken,
    kind="Token",
    work=create_token,
    secret=True,
)
REVOKE_TOKENS = _endpoint(
    *("token.revoke", HttpMethod.POST, "/tokens:revoke", Permission.TOKEN_OWN),
    summary="Revoke API tokens.",
    asks=Revoked,
    answers=Done,
    kind="Done",
    work=revoke_tokens,
)
LIST_LOGINS = _endpoint(
    *("auth.session.list", HttpMethod.GET, "/sessions", None),
    summary="Login sessions.",
    asks=NoParameters,
    answers=ItemList[LoginItem],
    kind="LoginSessionList",
    work=list_logins,
)
END_LOGINS = _endpoint(
    *("auth.session.end", HttpMethod.POST, "/sessions:end", None),
    summary="End login sessions.",
    asks=Revoked,
    answers=Done,
    kind="Done",
    work=end_logins,
)
SHOW_PRINCIPAL = _endpoint(
    *("auth.whoami", HttpMethod.GET, "/whoami", None),
    summary="Who the caller is, and what the caller may do.",
    asks=NoParameters,
    answers=PrincipalItem,
    kind="Principal",
    work=show_principal,
)

ENDPOINTS = (
    *(LIST_BINDINGS, GRANT_ROLE, REVOKE_ROLE, LIST_TOKENS, CREATE_TOKEN, REVOKE_TOKENS),
    *(LIST_LOGINS, END_LOGINS, SHOW_PRINCIPAL),
)
