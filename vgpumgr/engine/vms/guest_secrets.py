"""The secrets that new guests take: asked for before anything of them is made."""

from __future__ import annotations

from vgpumgr import guests
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.apply_plan import ActionKind, Plan
from vgpumgr.model.errors import NotFound
from vgpumgr.model.vm import VmSpec


def require_secrets(context: EngineContext, planned: Plan) -> None:
    """NotFound, or NotPermitted, where a VM that is to be made takes a secret that is not here."""
    asked: set[tuple[str, str]] = set()
    for action in planned.actions:
        if action.kind is ActionKind.CREATE and action.placed is not None:
            asked |= {(action.vm.tenant, name) for name in secrets_of(action.vm)}
    for tenant, name in sorted(asked):
        try:
            context.secrets.read(tenant, name)
        except NotFound as error:
            raise NotFound(
                f"no secret {name} of tenant {tenant}, which a new guest takes",
                next=f"vgpumgr secret set {name} --tenant {tenant}",
            ) from error


def secrets_of(spec: VmSpec) -> tuple[str, ...]:
    """The names of the secrets of its tenant that a VM's first boot takes."""
    return guests.secrets_of(spec.guest, spec.os) if spec.guest is not None else ()
