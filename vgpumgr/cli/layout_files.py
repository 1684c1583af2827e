"""Layout documents as printed: ours, as a file that `layout apply` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vgpumgr.cli.output import chosen_format, print_list, say
from vgpumgr.cli.terminal import echo


def print_ours(documents: Sequence[Mapping[str, Any]]) -> None:
    """Documents that ``layout apply -f -`` reads; with ``-o json`` a list of them."""
    import yaml

    if chosen_format().name in {"json", "name"}:
        print_list("Layout", documents, ())
    elif documents:
        echo(yaml.safe_dump_all(documents, sort_keys=False), nl=False)
    else:
        say("nothing to export: no GPU can be partitioned")
