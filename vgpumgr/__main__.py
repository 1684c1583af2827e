"""``python -m vgpumgr``."""

from vgpumgr.cli import main

main()
