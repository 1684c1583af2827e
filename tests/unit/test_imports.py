"""Whichever module a program imports first, it can be imported: no circle is left to luck."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib
import multiprocessing
import pkgutil

# What they share is imported once, and each of ours in a process that has none of ours.
ROOMS = ("app", "cli", "engine", "store")
for name in ("click", "lxml.etree", "numpy", "paramiko", "pydantic", "sqlalchemy", "yaml"):
    importlib.import_module(name)


def names(folder, prefix):
    for each in pkgutil.iter_modules([folder], prefix):
        if each.name == "vgpumgr.app.ansible_collections":
            continue
        yield each.name
        if each.ispkg:
            yield from names(f"{folder}/{each.name.rpartition('.')[2]}", f"{each.name}.")


def refused(name):
    try:
        importlib.import_module(name)
    except Exception as error:
        return f"{name}: {error!r}"


if __name__ == "__main__":
    every = [each for room in ROOMS for each in names(f"vgpumgr/{room}", f"vgpumgr.{room}.")]
    print(len(every))
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        for told in filter(None, pool.imap(refused, every, chunksize=1)):
            print(told)
"""


@pytest.mark.release
def test_every_module_can_be_imported_first() -> None:
    argv = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    count, *refused = ended.stdout.splitlines()
    assert int(count) > 200
    assert refused == []
