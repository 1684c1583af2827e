"""A secret in a file of the controller's own, read when it is needed."""

from __future__ import annotations

from pathlib import Path

from vgpumgr.model.errors import LoginRefused

_OTHERS_MAY_READ = 0o007


def read_private_file(path: Path) -> str:
    """What the file has now, without the white space around it; LoginRefused where it cannot be
    read, or other users may read it.
    """
    try:
        if path.stat().st_mode & _OTHERS_MAY_READ:
            raise LoginRefused(f"other users may read {path}", next=f"chmod o= {path}")
        return path.read_text().strip()
    except OSError as error:
        raise LoginRefused(f"{path} cannot be read", why=str(error.strerror)) from error
