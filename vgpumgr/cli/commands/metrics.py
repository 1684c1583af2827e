"""The commands of `metrics`: the series, and what reads them."""

from __future__ import annotations

from pathlib import Path

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import output_option, print_item
from vgpumgr.cli.terminal import json_text
from vgpumgr.model.errors import UsageError


@click.group()
def metrics() -> None:
    """Series for Prometheus: show, rules, dashboards."""


@metrics.command()
@output_option
@pass_context
def show(context: Context) -> None:
    """Print all series of now, in Prometheus' text format."""
    from vgpumgr.endpoints.metrics import SHOW_METRICS
    from vgpumgr.endpoints.shapes import Nothing

    item = context.read(SHOW_METRICS, Nothing()).answer
    print_item("Metrics", item, item["text"].rstrip("\n"))


@metrics.command()
@output_option
def rules() -> None:
    """Print the rules for Prometheus: what it records, and its alerts."""
    from vgpumgr.telemetry.alert_rules import rules_document, rules_text

    item = {"name": "vgpumgr", **rules_document()}
    print_item("PrometheusRules", item, rules_text().rstrip("\n"))


@metrics.command()
@click.option(
    "--to",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for the files.",
)
@output_option
def dashboards(folder: Path) -> None:
    """Write the dashboards for Grafana, a JSON file each."""
    from vgpumgr.telemetry.dashboards import DASHBOARDS, grafana_json

    files = {each.uid: folder / f"{each.uid}.json" for each in DASHBOARDS}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in DASHBOARDS:
            files[each.uid].write_text(json_text(grafana_json(each), indent=1) + "\n")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written", why=str(error)) from error
    written = [str(each) for each in files.values()]
    item = {"name": "dashboards", "files": written}
    print_item("Dashboards", item, "\n".join(written))
