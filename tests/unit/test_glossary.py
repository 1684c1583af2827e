"""Prose uses the words of docs/glossary.md; words that it does not use become fewer, never more."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.prose import GLOSSARY, BannedWord, banned_words, without_code

# Commands whose names are plain English.
PLAIN = {"completion", "schema"}


def rows() -> list[list[str]]:
    """The glossary's lines: word, meaning, words not used."""
    lines = GLOSSARY.read_text().splitlines()
    cells = [line.strip("|").split("|") for line in lines if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in cells[1:]]


@pytest.mark.parametrize("word", banned_words(), ids=lambda word: word.pattern)
def test_a_banned_word_does_not_come_back(word: BannedWord) -> None:
    places = word.places()
    assert len(places) <= word.at_most, "\n".join(
        [
            f"{len(places)} × {word.pattern}, at most {word.at_most} are left from before;",
            f"say: {word.say}",
            *places,
        ]
    )


def test_each_word_has_one_line_and_they_are_alphabetical() -> None:
    words = [row[0] for row in rows()]
    assert words == sorted(set(words), key=str.casefold)
    assert len(words) > 100
    assert all(len(row) == 3 and row[1] for row in rows())


def test_what_the_glossary_rules_out_is_banned() -> None:
    patterns = [re.compile(word.pattern, re.IGNORECASE) for word in banned_words()]
    ruled_out = [each.strip() for row in rows() for each in row[2].split(",") if each.strip()]
    assert ruled_out
    assert [each for each in ruled_out if not any(one.search(each) for one in patterns)] == []


def test_no_word_is_banned_twice_and_each_has_a_real_count() -> None:
    patterns = [word.pattern for word in banned_words()]
    assert len(patterns) == len(set(patterns))
    assert [word.pattern for word in banned_words() if word.at_most > 300] == []


def test_the_commands_of_the_cli_are_in_the_glossary() -> None:
    program = "from vgpumgr.cli import main; main()"
    argv = [sys.executable, "-c", program, "--help"]
    helped = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"(?m)^  ([a-z]+)  +\S", helped))
    assert {"apply", "host", "vm", "pool"} <= named
    assert sorted(named - {word.casefold() for word, *_ in rows()} - PLAIN) == []


def test_code_is_no_prose() -> None:
    assert without_code("a `b` c\n```\nd\n```\ne") == "a ` c\n`\n\n\ne"
