"""The command line: parse, call, print. It never talks to a host itself."""

from vgpumgr.cli.root import run as main

__all__ = ["main"]
