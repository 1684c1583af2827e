"""Certificates for migration between test hosts, signed by a CA of the test's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


class Authority:
    """A CA in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key, self._certificate = folder / "ca-key.pem", folder / "ca-cert.pem"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", "/CN=test hosts", "-days", "2"),
            *("-keyout", self._key, "-out", self._certificate),
        )

    def issue(self, names: str, into: Path) -> None:
        """What a host needs to receive and to send: ``names`` as ``IP:10.0.0.1,DNS:h1``."""
        shutil.copy(self._certificate, into / "ca-cert.pem")
        request, extensions = self._folder / "request.pem", self._folder / "extensions"
        extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n")
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", "/CN=host", "-keyout", into / "server-key.pem", "-out", request),
        )
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self._certificate, "-CAkey", self._key),
            *("-days", "2", "-extfile", extensions, "-out", into / "server-cert.pem"),
        )
        for part in ("key", "cert"):
            shutil.copy(into / f"server-{part}.pem", into / f"client-{part}.pem")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
