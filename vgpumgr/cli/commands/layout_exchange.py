"""``vgpumgr layout export`` and ``import``: files, ours and other tools'."""

from __future__ import annotations

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.looking import require_all_read
from vgpumgr.cli.output import output_option
from vgpumgr.cli.selectors import completed

FOREIGN = ("mig-parted", "vgpu-device-manager")


@click.command()
@click.argument("hosts", nargs=-1, shell_complete=completed("hosts"))
@click.option(
    "--format",
    "tool",
    type=click.Choice(["vgpumgr", *FOREIGN]),
    default="vgpumgr",
    show_default=True,
    help="Format of the file to write.",
)
@output_option
@pass_context
def export(context: Context, hosts: tuple[str, ...], tool: str) -> None:
    """Print how hosts (default: all) are partitioned now, as a file to apply."""
    from vgpumgr.cli.layout_files import print_foreign, print_ours

    context.app.require_hosts()
    found = context.app.engine.layout_export(hosts)
    if tool == "vgpumgr":
        print_ours(found)
    else:
        print_foreign(tool, found, context.app.ledger.gpus())
    records = [each for each in context.app.ledger.hosts() if not hosts or each.name in hosts]
    require_all_read(tuple(f"{h.name}: {h.last_error}" for h in records if h.last_error))


@click.command("import")
@click.argument("file")
@click.option(
    "--format",
    "tool",
    type=click.Choice(FOREIGN),
    help="Format of the file; default: detected by its keys.",
)
@click.option("--config", default="", help="The configuration to take, if the file has several.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Host that the layout is for; may be repeated.",
    shell_complete=completed("hosts"),
)
@output_option
@pass_context
def import_(
    context: Context, file: str, tool: str | None, config: str, hosts: tuple[str, ...]
) -> None:
    """Convert a file of mig-parted or vgpu-device-manager into a Layout and print it.

    Output of "nvidia-smi mig -lgi" on a manually partitioned host works, too. Device numbers in
    the file mean GPUs of one host: name it with --host.
    """
    from vgpumgr.cli.layout_files import from_foreign, print_ours

    print_ours([from_foreign(context, file, tool, config, hosts)])
