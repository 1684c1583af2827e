"""The compiled way to rate hosts is built where it can be, and never needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hatch_build
from vgpumgr.placement.scores import compiled

needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler on this machine")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with the source alone, which the loader looks at."""
    source = tmp_path / hatch_build.SOURCE
    source.parent.mkdir(parents=True)
    shutil.copy(compiled.SOURCE, source)
    monkeypatch.setattr(compiled, "SOURCE", source)
    monkeypatch.setattr(compiled, "BUILT", source.with_suffix(".so"))
    monkeypatch.delenv("VGPUMGR_COMPILED", raising=False)
    return tmp_path


def test_without_a_compiler_it_is_said_and_numpy_serves(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc -m64")
    assert "/nowhere/cc" in hatch_build.compiled(tree)
    assert compiled._loaded() is None
    monkeypatch.setenv("CC", "false")
    assert "failed" in hatch_build.compiled(tree)


@needs_compiler
def test_what_was_built_of_this_source_is_loaded_unless_it_is_switched_off(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hatch_build.compiled(tree) == ""
    assert compiled._loaded() is not None
    monkeypatch.setenv("VGPUMGR_COMPILED", "off")
    assert compiled._loaded() is None


@needs_compiler
def test_what_was_built_of_another_source_is_left_alone(tree: Path) -> None:
    assert hatch_build.compiled(tree) == ""
    compiled.SOURCE.write_text(compiled.SOURCE.read_text() + "\n")
    assert compiled._loaded() is None
    compiled.BUILT.unlink()  # it is mapped
    compiled.BUILT.write_bytes(b"no library")
    assert compiled._loaded() is None
