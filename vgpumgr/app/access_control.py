"""Access control of one ledger: who asks, what they may do, and how that is administered."""

from __future__ import annotations

import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.access.grants import Grant, Grants
from vgpumgr.access.permission import Permission
from vgpumgr.access.principal import Principal
from vgpumgr.access.roles import PERMISSIONS
from vgpumgr.identity.access_administration import AccessAdministration
from vgpumgr.identity.api_tokens import ApiTokens
from vgpumgr.identity.established import Established, established
from vgpumgr.identity.local_accounts import LocalAccounts
from vgpumgr.identity.login_sessions import LoginSessions
from vgpumgr.model.actor import Actor, LoginMethod
from vgpumgr.model.errors import LoginRefused
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.role_binding import ALL_TENANTS, Role

if TYPE_CHECKING:
    from vgpumgr.app.config import Config
    from vgpumgr.identity.directory_process import DirectoryLogins
    from vgpumgr.identity.oidc_login import OidcLogin
    from vgpumgr.identity.pending_logins import PendingLogins


def _now() -> float:
    return time.time()


class AccessControl:
    """The identity sources over a ledger, as the settings say."""

    def __init__(self, ledger: Ledger, config: Config) -> None:
        self._ledger = ledger
        self._config = config

    @cached_property
    def accounts(self) -> LocalAccounts:
        """Accounts of this machine; the ledger is its file's owner's, and on a server this
        process's own user's.
        """
        try:
            return LocalAccounts((Path(self._config.ledger).stat().st_uid,))
        except OSError:
            return LocalAccounts((os.geteuid(),))

    @cached_property
    def tokens(self) -> ApiTokens:
        """API tokens."""
        return ApiTokens(self._ledger, self.accounts, _now)

    @cached_property
    def logins(self) -> LoginSessions:
        """Login sessions."""
        return LoginSessions(self._ledger, _now)

    @cached_property
    def administration(self) -> AccessAdministration:
        """Bindings, tokens and sessions, for who asks."""
        return AccessAdministration(self._ledger, self.tokens)

    @cached_property
    def oidc(self) -> OidcLogin | None:
        """Logins at the identity provider; None where the settings name none."""
        from vgpumgr.identity.oidc_login import OidcLogin
        from vgpumgr.identity.oidc_provider import OidcSettings

        config = self._config
        if not config.auth_oidc_issuer:
            return None
        settings = OidcSettings(
            issuer=config.auth_oidc_issuer,
            client_id=config.auth_oidc_client_id,
            client_secret_file=config.auth_oidc_client_secret_file,
            user_claim=config.auth_oidc_user_claim,
            groups_claim=config.auth_oidc_groups_claim,
            scopes=config.auth_oidc_scopes,
        )
        return OidcLogin(settings, _now)

    @cached_property
    def directory(self) -> DirectoryLogins | None:
        """Logins at the directory; None where the settings name none."""
        from vgpumgr.identity.directory_login import DirectorySettings
        from vgpumgr.identity.directory_process import DirectoryLogins, DirectoryServers

        config = self._config
        if not config.auth_ldap_url or config.auth_ldap_bind_password_file is None:
            return None
        settings = DirectorySettings(
            bind_dn=config.auth_ldap_bind_dn,
            bind_password_file=config.auth_ldap_bind_password_file,
            user_base=config.auth_ldap_user_base,
            user_filter=config.auth_ldap_user_filter,
            user_name=config.auth_ldap_user_name,
            group_base=config.auth_ldap_group_base,
            group_filter=config.auth_ldap_group_filter,
            group_name=config.auth_ldap_group_name,
            nested=config.auth_ldap_nested,
        )
        servers = DirectoryServers(config.auth_ldap_url, config.auth_ldap_ca)
        return DirectoryLogins(settings, servers)

    @cached_property
    def pending_logins(self) -> PendingLogins:
        """Logins at the identity provider that browsers of this process's users are at."""
        from vgpumgr.identity.pending_logins import PendingLogins

        return PendingLogins(_now)

    def of_principal(self, principal: Principal, address: str = "") -> Established:
        """Who an identity source established, with what it may do now."""
        return established(self._ledger, principal, address)

    def of_certificate(self, der: bytes, address: str = "") -> Established:
        """Who shows a client certificate (DER) that TLS has verified; LoginRefused where the
        settings take none, or it names no user.
        """
        from vgpumgr.identity.client_certificates import CertificateField, certificate_principal

        part = self._config.auth_certificate_user
        if not part:
            raise LoginRefused("certificates log in no user", next="set auth.certificate_user")
        return self.of_principal(
            certificate_principal(der, CertificateField(part), _now()), address
        )

    def anonymous(self, address: str = "") -> Established:
        """Who is at the loopback listener without a login: reads as a viewer does, and no more."""
        name = "anonymous@loopback"
        reads = PERMISSIONS[Role.VIEWER] - {Permission.TOKEN_OWN}
        return Established(
            Principal(user=name, method=LoginMethod.LOOPBACK),
            Grants((Grant(reads, ALL_TENANTS),), name, (Role.VIEWER,)),
            Actor(user=name, method=LoginMethod.LOOPBACK, address=address),
        )

    def of_login(self, shown: str) -> Established:
        """Who a login is that was shown before (``shown_login``) and is in use, with what it may do
        now; LoginRefused where it is not taken any more.
        """
        method, _, rest = shown.partition(":")
        kind, _, user = rest.partition(":")
        if method == LoginMethod.TOKEN:
            return self.tokens.again(rest)
        if not user:
            return self.logins.again(rest)
        if kind == "local":
            found = self.accounts.again(user, LoginMethod(method))
            if found is None:
                raise LoginRefused(f"the account {user} is gone", next="log in again")
            return self.of_principal(found)
        return self.of_principal(Principal(user=user, method=LoginMethod(method)))

    def at_shell(self) -> Established:
        """The account that this process runs as."""
        return self.of_account(os.geteuid(), LoginMethod.SHELL)

    def of_account(self, uid: int, method: LoginMethod = LoginMethod.SOCKET) -> Established:
        """The account of a uid that the kernel named, with what it may do now."""
        return established(self._ledger, self.accounts.by_uid(uid, method))
