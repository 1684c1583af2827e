"""Disk images in the ledger; each method is one transaction."""

from __future__ import annotations

from vgpumgr.model.image import ImageRecord
from vgpumgr.store import images
from vgpumgr.store.ledger.session import Session
from vgpumgr.store.retry import retried


class Images(Session):
    """Images in versions, and where their copies lie."""

    def images(self) -> tuple[ImageRecord, ...]:
        """Every image that was ever imported, by name and age."""
        with self._database.read() as connection:
            return images.list_images(connection)

    @retried
    def retire_image(self, image: str) -> None:
        """Use an image (our id) for no new VM; one that is retired stays so."""
        with self._database.write() as connection:
            images.retire_image(connection, image, self._stamp())
