"""The command `health evaluate`: what would be done about GPUs now, and the evidence for it."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Item, output_option, print_item
from vgpumgr.cli.views.gpu_views import evidence_text
from vgpumgr.endpoints.health_evaluation import EVALUATE_HEALTH, HealthAsked, HealthEvaluation
from vgpumgr.model.formats import counted


@click.group()
def health() -> None:
    """Health of GPUs: evaluate."""


@health.command()
@click.option("--host", "host", help="Only of this host.", shell_complete=completed("hosts"))
@output_option
@pass_context
def evaluate(context: Context, host: str | None) -> None:
    """Show what the declared actions would do about GPUs now, with the evidence; nothing is done.

    By the last look at each host and the newest figures: no host is asked.
    """
    found = context.read(EVALUATE_HEALTH, HealthAsked(host=host or None)).answer
    print_item("HealthEvaluation", found, _text(found))


def _text(found: HealthEvaluation) -> str:
    modes = f"health_mode {found['health_mode']}, power_mode {found['power_mode']}"
    head = f"{modes}; {found['out']} of {counted(found['gpus'], 'GPU')} take no VMs"
    lines = [line for each in found["items"] for line in _lines(each)]
    return "\n".join([head, *(lines or ["nothing speaks against a GPU"])])


def _lines(item: Item) -> list[str]:
    place = f"{item['host']}  {item['model']}  {item['device']}"
    lines = [f"{place}  {item['condition']}"]
    lines += [f"  evidence  {evidence_text(each)}" for each in item["evidence"]]
    if item["would"]:
        but = f", but {item['held_back']}" if item["held_back"] else ""
        lines.append(f"  would     {item['would']}{but}")
    elif item["evidence"]:
        lines.append("  would     be told alone")
    if item["heat"]:
        then = ", then ".join(item["heat"])
        lines.append(f"  heat      {item['temperature_c']} °C; while it stays so: {then}")
    lines += [f"  at work   {each['user']} on {each['vm']}" for each in item["users"]]
    return lines
