"""The options of ``host add --bootstrap``, and what they say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from vgpumgr.cli.files import MAX_BYTES
from vgpumgr.model.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
_FLAGS = (
    ("check", "--check"),
    ("keep_user", "--keep-user"),
    ("extra_vars", "--extra-vars"),
    ("set_vars", "-e"),
)


def bootstrap_options(command: F) -> F:
    """Add ``--bootstrap`` and what belongs to it."""
    for option in (
        click.option("-e", "set_vars", multiple=True, metavar="KEY=VALUE", help="One variable."),
        click.option(
            "--extra-vars", metavar="FILE", help="YAML file with variables for the setup."
        ),
        click.option(
            "--keep-user",
            is_flag=True,
            help="Keep using the given user; create no user for vgpumgr.",
        ),
        click.option(
            "--check",
            is_flag=True,
            help="Only show what the setup would change; exit 10 if anything.",
        ),
        click.option(
            "--bootstrap", is_flag=True, help="Set a bare Debian up first (needs Ansible)."
        ),
    ):
        command = option(command)
    return command


def wants_bootstrap(options: Mapping[str, Any]) -> bool:
    """Is the host to be set up? UsageError for flags that do not go together."""
    stray = [flag for name, flag in _FLAGS if options[name]]
    if stray and not options["bootstrap"]:
        raise UsageError(f"{', '.join(stray)}: only with --bootstrap")
    if options["bootstrap"] and options["no_install"]:
        raise UsageError("--bootstrap installs the helper: leave out --no-install")
    return bool(options["bootstrap"])


def given_variables(file: str | None, pairs: Sequence[str]) -> Mapping[str, object]:
    """Those of the file, then those of the command line; values are YAML: ``-e x=true``."""
    import yaml

    from vgpumgr.app.bootstrap import checked

    given = dict(_from_file(file)) if file else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"-e {pair[:80]} is not KEY=VALUE")
        try:
            given[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UsageError(f"-e {name}: the value is not YAML", why=str(error)) from error
    return checked(given)


def _from_file(file: str) -> Mapping[str, object]:
    import yaml

    try:
        text = Path(file).read_bytes()[: MAX_BYTES + 1]
        found = yaml.safe_load(text) if len(text) <= MAX_BYTES else None
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read", why=str(error)) from error
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise UsageError(f"{file} is not a mapping of variables")
    return found
