"""The program that runs on a GPU host: JSON in, JSON out, one file per mechanic.

Standard library only, Python 3.9 or later; imports nothing of vgpumgr outside this package.
Protocol: docs/helper-protocol.md.
"""

VERSION = "14"
