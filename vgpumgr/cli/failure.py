"""How every error ends: what happened, why, what to type next; and the exit code."""

from __future__ import annotations

import errno
import json
import sys
import traceback
from itertools import pairwise

import click

from vgpumgr.model.errors import Interrupted, VgpumgrError


def report(error: BaseException, *, debug: bool, as_json: bool) -> int:
    """Print the error on stderr and give the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, click.ClickException):
        return _usage(error, as_json=as_json)
    known = _as_known(error)
    if as_json:
        click.echo(json.dumps(known.as_dict()), err=True)
    else:
        _print(known)
    return known.exit_status


def _usage(error: click.ClickException, *, as_json: bool) -> int:
    if as_json:
        shown = {"code": "usage", "message": error.format_message(), "why": "", "next": ""}
        click.echo(json.dumps({**shown, "exit": error.exit_code}), err=True)
    else:
        error.show()
    return error.exit_code


def _as_known(error: BaseException) -> VgpumgrError:
    if isinstance(error, VgpumgrError):
        return error
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return Interrupted("interrupted")
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return VgpumgrError("nothing more could be written", why=error.strerror or "", next="df -h")
    return VgpumgrError(
        f"an unexpected {type(error).__name__}: {error}",
        why="this is a fault of vgpumgr",
        next="run the command again with --debug and report what it prints",
    )


def _print(error: VgpumgrError) -> None:
    red = click.style("error:", fg="red", bold=True)
    click.echo(f"{red} {error.message}", err=True)
    if error.why:
        for number, line in enumerate(
            error.why.split("; ") if len(error.why) > 90 else [error.why]
        ):
            click.echo(f"  {'why: ' if number == 0 else '     '}{line}", err=True)
    if error.next:
        click.echo(f"  next: {error.next}", err=True)


def wants_json(argv: list[str]) -> bool:
    """Did the user ask for JSON? Errors follow the output's format."""
    pairs = pairwise(argv)
    return (
        "-ojson" in argv
        or "--output=json" in argv
        or any(flag in {"-o", "--output"} and value == "json" for flag, value in pairs)
    )
