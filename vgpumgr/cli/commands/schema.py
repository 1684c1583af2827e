"""The command `schema`: the JSON Schema of the YAML documents."""

from __future__ import annotations

import click

from vgpumgr.cli.terminal import echo_json

KINDS = ("VM", "Host", "Layout", "Pool", "Fleet")


@click.command()
@click.argument("kind", type=click.Choice(KINDS, case_sensitive=False), default="VM")
def schema(kind: str) -> None:
    """Print the JSON Schema of a YAML document, for editors and checks."""
    from vgpumgr.spec import json_schema

    canonical = next(each for each in KINDS if each.lower() == kind.lower())
    echo_json(json_schema(canonical), indent=2)
