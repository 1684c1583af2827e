"""Pools of desktops, bookings, and the images they are made from."""

from __future__ import annotations

from collections.abc import Collection

from vgpumgr.engine.images.importing import Wish
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import booking, image, pool
from vgpumgr.model.pool import Booking, DesktopRecord, PoolRecord, PoolSpec


class Desktops(Session):
    """Pools, bookings, images."""

    __slots__ = ()

    def pool_plan(self, spec: PoolSpec) -> pool.Wish:
        """What applying a pool's file would change; what keeps it from it is raised."""
        return pool.plan(self, spec)

    def pool_outlook(self, name: str) -> pool.Outlook:
        """What a pool's next turn would do, by what was seen last; nothing is looked at."""
        return pool.outlook(self, name)

    def put_pool(self, spec: PoolSpec) -> pool.Wish:
        """Write a pool down as its file asks for it; `serve` makes its desktops."""
        return pool.put(self, spec)

    def scale_pool(
        self,
        name: str,
        *,
        least: int | None = None,
        spare: int | None = None,
        most: int | None = None,
    ) -> PoolRecord:
        """Change how many desktops there are; what is None stays."""
        return pool.scale(self, name, least=least, spare=spare, most=most)

    def drain_pool(self, name: str, *, on: bool) -> PoolRecord:
        """Empty a pool as its users log off, or fill it again."""
        return pool.drain(self, name, on=on)

    def delete_pool(self, name: str) -> PoolRecord:
        """Delete a pool with its desktops; Conflict while one is somebody's."""
        return pool.leave(self, name)

    def push_image(self, name: str, image: str) -> PoolRecord:
        """Let a new image come to a pool, a canary first; the one before takes it back."""
        return pool.push_image(self, name, image)

    def assign_desktop(self, name: str, user: str, groups: Collection[str] = ()) -> pool.Given:
        """Give a user a desktop of a pool, or let it wait; NotPermitted or Conflict: none."""
        return pool.assign(self, name, user, groups)

    def release_desktop(
        self, name: str, user: str, *, for_good: bool = False
    ) -> tuple[DesktopRecord, ...]:
        """End a user's sessions in a pool and its waiting; ``for_good``: what it owns, too."""
        return pool.release(self, name, user, for_good=for_good)

    def booking_pool(self, group: str, profile: str) -> PoolRecord:
        """The pool that serves a booking; NotFound says what there is instead."""
        return booking.serving(self, group, profile)

    def book(self, wish: booking.Wish) -> Booking:
        """Keep desktops for a group; Conflict where others, or the GPUs, leave no room."""
        return booking.book(self, wish)

    def import_image(self, wish: Wish) -> image.Imported:
        """Look at an image's file, and copy it to hosts; what is there already stays."""
        return image.import_(self, wish)

    def retire_image(self, reference: str, *, delete_copies: bool) -> image.Retired:
        """Use an image for no new VM; with ``delete_copies`` those go that no VM uses."""
        return image.retire(self, reference, delete_copies=delete_copies)
