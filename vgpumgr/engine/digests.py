"""The bytes of a file on a host, in one word."""

from __future__ import annotations

import posixpath

from vgpumgr.model.ports import Host


def file_digest(host: Host, path: str) -> object:
    """The SHA-256 of a volume's file; raises where the helper cannot read it."""
    asked = {"path": path, "pool_path": posixpath.dirname(path)}
    return host.helper.call("file_digest", asked)["sha256"]
