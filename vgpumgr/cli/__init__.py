"""The command line: parse, call, print. It never talks to a host itself."""


def main() -> None:
    """The ``vgpumgr`` program."""
    from vgpumgr.cli.root import run

    run()
