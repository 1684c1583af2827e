"""Where the Ansible collection lies: beside the code, in a wheel as in a clone."""

from __future__ import annotations

from pathlib import Path

PLAYBOOK = "vgpumgr.host.host"
CALLBACK = "vgpumgr.host.progress"


def collections_folder() -> Path:
    """The folder that holds ``ansible_collections/``."""
    return Path(__file__).parents[1]


def collection_folder() -> Path:
    """The collection's own folder."""
    return collections_folder() / "ansible_collections" / "vgpumgr" / "host"
