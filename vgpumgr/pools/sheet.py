"""What a turn has decided so far: one action per desktop, and the room that is left."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.model.pool import Desktop, Do, Phase, PoolAction, PoolKind, PoolView, PoolWarning


class Sheet:
    """Filled in by the parts of a turn, one after the other; what is decided stays decided."""

    def __init__(self, view: PoolView) -> None:
        self.view = view
        self.actions: dict[str, PoolAction] = {}
        self.warnings: list[PoolWarning] = []
        self.unmet = 0
        self.room = view.startable

    def put(
        self, do: Do, seen: Desktop, why: str, *, image: str = "", user: str = "", booking: str = ""
    ) -> None:
        """Decide on a desktop that nothing was decided on yet."""
        assert seen.name not in self.actions
        self.actions[seen.name] = PoolAction(
            do=do, desktop=seen.name, why=why, seen=seen, image=image, user=user, booking=booking
        )

    def create(self, name: str, image: str, why: str) -> None:
        """One desktop more; it takes room."""
        self.room -= 1
        self.actions[name] = PoolAction(do=Do.CREATE, desktop=name, why=why, image=image)

    def take_room(self, desktop: Desktop) -> bool:
        """Whether it may start: it has its place still, or takes one of those that are left."""
        if desktop.host and desktop.state.holds_place:
            return True
        if self.room <= 0:
            return False
        self.room -= 1
        return True

    def warn(self, code: str, text: str) -> None:
        """Tell operators something."""
        self.warnings.append(PoolWarning(code=code, text=text))

    def open(self) -> Iterator[Desktop]:
        """Desktops that nothing was decided on yet."""
        return (each for each in self.view.desktops if each.name not in self.actions)

    def left_behind(self, desktop: Desktop) -> bool:
        """Whether its user has gone and it must be recreated before the next one."""
        return desktop.ready and desktop.stained and not desktop.used

    def assignable(self, desktop: Desktop) -> bool:
        """Whether a user could have it now."""
        return (
            desktop.free
            and desktop.host not in self.view.draining
            and not suspect(self.view, desktop)
        )

    @property
    def floating(self) -> bool:
        """Whether desktops are nobody's for good."""
        return self.view.pool.kind is PoolKind.FLOATING


def suspect(view: PoolView, desktop: Desktop) -> bool:
    """Whether it has an image that is not proven yet, or is being rolled back: nobody gets it."""
    rollout = view.rollout
    return (
        rollout is not None
        and rollout.phase in {Phase.CANARY, Phase.BACK}
        and desktop.image == rollout.image
    )
