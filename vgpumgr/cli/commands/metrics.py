"""The commands of `metrics`: the series, and what reads them."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import output_option, print_item


@click.group()
def metrics() -> None:
    """Series for Prometheus: show."""


@metrics.command()
@output_option
@pass_context
def show(context: Context) -> None:
    """Print all series of now, in Prometheus' text format."""
    from vgpumgr.endpoints.metrics import SHOW_METRICS
    from vgpumgr.endpoints.shapes import Nothing

    item = context.read(SHOW_METRICS, Nothing()).answer
    print_item("Metrics", item, item["text"].rstrip("\n"))
