"""A principal: who asks, as an identity source established it."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.actor import LoginMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks, established by ``method``. ``is_local``: an account of this machine.

    Names of this machine's accounts and of those who logged in elsewhere are kept apart: what an
    identity provider calls ``root`` is no local account. ``owns_ledger``: the local root, or the
    account whose file the ledger is; no binding is needed for what it could do by hand.
    """

    user: str
    groups: frozenset[str] = frozenset()
    method: LoginMethod
    uid: int | None = None
    is_local: bool = False
    owns_ledger: bool = False

    @property
    def subject(self) -> str:
        """What bindings and tokens call this user."""
        return f"{'local' if self.is_local else 'user'}:{self.user}"

    @property
    def subjects(self) -> frozenset[str]:
        """Whatever bindings may call this user: the name, the uid, each group."""
        kind = "local-group" if self.is_local else "group"
        named = {self.subject, *(f"{kind}:{each}" for each in self.groups)}
        return frozenset(named if self.uid is None else {*named, f"uid:{self.uid}"})
