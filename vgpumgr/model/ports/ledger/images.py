"""What the ledger knows of disk images."""

from __future__ import annotations

from typing import Protocol

from vgpumgr.model.image import ImageRecord


class Images(Protocol):
    """Images in versions with their copies. New ones, and copies that come or go, are written with
    their operation (``Reservation.images``, ``Reservation.copies``).
    """

    def images(self) -> tuple[ImageRecord, ...]:
        """Every image that was ever imported, by name and age."""

    def retire_image(self, image: str) -> None:
        """Use an image (our id) for no new VM; one that is retired stays so."""
