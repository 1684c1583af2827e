"""The command `api`: the HTTP API, a process of its own."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.app.config import Config
from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import say
from vgpumgr.cli.terminal import echo
from vgpumgr.model.errors import PartlyDone, UsageError
from vgpumgr.model.formats import counted

if TYPE_CHECKING:
    from vgpumgr.api.service import Service

_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--socket", "api_socket", type=_file, help="Unix socket to listen at.")
@click.option("--listen", "api_listen", metavar="HOST:PORT", help="Listen with TLS, too.")
@click.option(
    "--loopback",
    "api_loopback",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve at http://127.0.0.1:PORT, too, where all users of this machine may read.",
)
@click.option("--certificate", "api_certificate", type=_file, help="Certificate for TLS, PEM.")
@click.option("--key", "api_key", type=_file, help="Key of the certificate, PEM.")
@click.option("--client-ca", "api_client_ca", type=_file, help="CA of clients' certificates, PEM.")
@click.option("--check", is_flag=True, help="Look at settings, files and ledger, then exit.")
@pass_context
def api(context: Context, /, *, check: bool, **given: Any) -> None:
    """Serve the HTTP API and its pages until stopped: on a unix socket, whose users are known by
    their uid, and with TLS where it is told.

    \b
    vgpumgr api --listen 0.0.0.0:8443 --certificate gpu.pem --key gpu.key

    With --check it listens at nothing: exit 7 when something is bad.
    """
    config = replace(context.config, **{key: value for key, value in given.items() if value})
    if check:
        _check(context, config)
        return
    try:
        from vgpumgr.api.server import TlsListener, serve_api
        from vgpumgr.web.site import make_site
    except ModuleNotFoundError as error:
        raise UsageError(
            "the API's packages are not installed",
            why=str(error),
            next="pip install 'vgpumgr[server]'",
        ) from error
    path = config.api_socket or config.state_dir / "api.sock"
    tls = None
    if config.api_listen:
        host, port = _host_and_port(config.api_listen)
        certificate, key = _certificate(config)
        tls = TlsListener(
            host=host,
            port=port,
            certificate=certificate,
            key=key,
            client_ca=config.api_client_ca,
        )
    places = [f"unix:{path}", f"https://{config.api_listen}" if tls else ""]
    places.append(f"http://127.0.0.1:{config.api_loopback}" if config.api_loopback else "")
    say(f"listening at {' and '.join(each for each in places if each)}")
    while True:
        service = _service(context, config)
        if not serve_api(service, make_site(service), path, tls, config.api_loopback or None):
            return
        say("another ledger lies in this one's place; it is opened")
        _await_file(config)


def _service(context: Context, config: Config) -> Service:
    from vgpumgr.api.service import Service
    from vgpumgr.app import App

    app = App(config)
    app.notice = context.app.notice
    return Service(app, context.overrides)


def _await_file(config: Config) -> None:
    """The new ledger may still be on its way: none is to be made meanwhile."""
    from vgpumgr.app.ledger_admin import is_missing

    while is_missing(config):
        time.sleep(0.5)


def _check(context: Context, config: Config) -> None:
    """What the API would meet: PartlyDone when something is bad."""
    from vgpumgr.app.api_findings import api_findings
    from vgpumgr.model.examination import CheckOutcome

    if config.api_listen:
        _host_and_port(config.api_listen)
    hosts = len(context.app.ledger.hosts())
    echo(f"ok   ledger {config.ledger}: {counted(hosts, 'host')}")
    bad = 0
    for each in api_findings(config):
        bad += each.mark is CheckOutcome.BAD
        mark = "BAD " if each.mark is CheckOutcome.BAD else f"{each.mark:<4}"
        next = f"\n     next: {each.next}" if each.next else ""
        echo(f"{mark} {each.text}{next}")
    if bad:
        raise PartlyDone(f"the API cannot be served so: {counted(bad, 'fault')}")


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{text} is not HOST:PORT", next="--listen 0.0.0.0:8443")
    return host.strip("[]"), int(port)


def _certificate(config: Config) -> tuple[Path, Path]:
    if config.api_certificate is None or config.api_key is None:
        raise UsageError(
            "TLS needs a certificate and its key",
            next="--certificate FILE --key FILE, or api: {certificate: …, key: …} in the settings",
        )
    for path in (config.api_certificate, config.api_key, config.api_client_ca):
        if path is not None and not path.is_file():
            raise UsageError(f"no file {path}")
    return config.api_certificate, config.api_key
