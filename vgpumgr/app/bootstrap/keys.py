"""The controller's SSH key, by which it comes to hosts that it set up."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from vgpumgr.model.errors import VgpumgrError

NOT_YET = "ssh-ed25519 (the controller's key, made by the first run) vgpumgr"


def public_key(private: Path) -> str:
    """The public half, one line; the pair is made on first use, 0600, without a passphrase.

    Two who start at once get the same one. VgpumgrError without ``ssh-keygen``.
    """
    public = private.with_suffix(".pub")
    if not public.exists():
        _make(private)
    return public.read_text().strip()


def public_key_if_any(private: Path) -> str:
    """The same for a dry run: nothing is made."""
    public = private.with_suffix(".pub")
    return public.read_text().strip() if public.exists() else NOT_YET


def _make(private: Path) -> None:
    private.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=private.parent) as folder:
        draft = Path(folder) / private.name
        _keygen("-q", "-t", "ed25519", "-N", "", "-C", "vgpumgr", "-f", str(draft))
        _link(draft, private)
        # Of whichever private half was first.
        public = draft.with_suffix(".fresh")
        public.write_text(_keygen("-y", "-f", str(private)))
        _link(public, private.with_suffix(".pub"))


def _keygen(*args: str) -> str:
    try:
        ran = subprocess.run(["ssh-keygen", *args], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", "") or str(error)
        raise VgpumgrError(
            "the controller's SSH key could not be created",
            why=why.strip(),
            next="install OpenSSH's client   (Debian: apt install openssh-client)",
        ) from error
    return ran.stdout


def _link(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return
