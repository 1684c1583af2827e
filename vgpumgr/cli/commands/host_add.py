"""``vgpumgr host add``: hosts enrolled, from flags or a file."""

from __future__ import annotations

import json
from typing import Any

import click

from vgpumgr import API_VERSION
from vgpumgr.cli.bootstrap_options import bootstrap_options, wants_bootstrap
from vgpumgr.cli.bootstrapping import bootstrap
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import output_option, say
from vgpumgr.cli.questions import confirm
from vgpumgr.cli.selectors import parse_pairs
from vgpumgr.cli.views.host_items import probe_summary
from vgpumgr.model.errors import UsageError
from vgpumgr.model.host import HostRecord


@click.command()
@click.argument("name", required=False)
@click.option("--address", help="USER@HOST[:PORT], local, or sim://NAME.")
@click.option(
    "--fingerprint",
    help="Fingerprint of the host's SSH key, SHA256:…; by default the key is shown and confirmed.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE")
@click.option("--no-install", is_flag=True, help="Do not install the helper: probe only.")
@click.option("--accelerator", type=click.Choice(["auto", "kvm", "tcg"]), default="auto")
@click.option("-f", "--file", "file", help="YAML with Host documents, instead of flags.")
@bootstrap_options
@output_option
@pass_context
def add(context: Context, /, name: str | None, file: str | None, **options: Any) -> None:
    """Enrol hosts: pin the SSH key, install the helper, probe.

    The same command resumes an interrupted run. --bootstrap may be repeated at will.

    \b
    vgpumgr host add gpu1 --address root@gpu1.example --fingerprint SHA256:…
    vgpumgr host add lab --address local
    vgpumgr host add gpu1 --address root@gpu1.example --bootstrap   a bare Debian, set up first
    vgpumgr host add -f hosts.yaml
    """
    from vgpumgr.app.enrolment import enrol

    records = _from_file(context, file) if file else [_from_flags(name, options)]
    if wants_bootstrap(options):
        bootstrap(context, records, options, _accept_key)
        return
    for record in records:
        enrolled = enrol(
            context.app,
            record,
            fingerprint=options["fingerprint"] or record.host_key,
            install=not options["no_install"],
            accept=_accept_key,
        )
        say(f"{enrolled.name}: {probe_summary(enrolled)}")


def _from_file(context: Context, file: str) -> list[HostRecord]:
    from vgpumgr.cli.files import load_documents

    found = list(load_documents(context, file).hosts)
    if not found:
        raise UsageError(f"{file} names no host", next="add a document with kind: Host")
    return found


def _from_flags(name: str | None, options: dict[str, Any]) -> HostRecord:
    """Flags become the same document a file would hold, and go through the same checks."""
    from vgpumgr.spec import COMMAND_LINE, load

    if not name or not options["address"]:
        raise UsageError(
            "a host needs a name and an address",
            next="vgpumgr host add NAME --address USER@HOST[:PORT] | local | sim://NAME",
        )
    document = {
        "apiVersion": API_VERSION,
        "kind": "Host",
        "name": name,
        "address": options["address"],
        "labels": dict(parse_pairs(options["labels"], "--label")),
        "accelerator": options["accelerator"],
    }
    return load(json.dumps(document, ensure_ascii=False).encode(), COMMAND_LINE).hosts[0]


def _accept_key(host_name: str, fingerprint: str) -> None:
    """An unknown key is shown and asked for; ``-y`` accepts no unknown key."""
    confirm(yes=False)(f"{host_name} shows the key {fingerprint}. Is that key right?")
