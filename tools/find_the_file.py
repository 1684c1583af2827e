"""Does a reader find the file that holds a behaviour, from the names of files alone?

``python -m tools.find_the_file draw [TREE]`` prints 20 behaviours, headings of docs/*.md with their
first sentence, and then the names of the product's files in TREE, any checkout. ``--seed``, a word,
decides which; unless given it is the commit's hash.

``python -m tools.find_the_file score ANSWERS`` reads a line per behaviour: its number, the file
that the reader opened first, and the file that holds it, found by hand (``a.py|b.py`` where there
are two); what follows a ``#`` is a remark. It prints the misses and the score.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
COUNT = 20
# Pages about the code, the tests, or how well it does; keys.md is written from the schema.
ELSEWHERE = {
    "README", "architecture", "glossary", "keys", "lab", "placement-figures", "reliability",
    "request",
}  # fmt: skip
# What would give the answer away, or lies outside the product.
# A colon, but for one in code: ``Every key of `kind: Host` ``.
ENDS_SUBJECT = re.compile(r":(?=[^`]*(?:`[^`]*`[^`]*)*$)")
NAMES_A_FILE = re.compile(r"\.py\b|`\w+/|\bbench")


def behaviours() -> list[str]:
    """Every heading of the documents that a sentence follows at once, with that sentence."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    return [each for page in pages if page.stem not in ELSEWHERE for each in _of_page(page)]


def _of_page(page: Path) -> Iterator[str]:
    title, *sections = re.split(r"^#+ ", page.read_text(), flags=re.MULTILINE)[1:]
    subject = ENDS_SUBJECT.split(title.splitlines()[0])[0]
    for section in sections:
        heading, _, text = section.partition("\n")
        paragraph = " ".join(text.strip().partition("\n\n")[0].split())
        sentence = re.split(r"(?<=\.) ", paragraph)[0]
        if re.match(r"[A-Za-z`*]", sentence) and "```" not in sentence:
            found = f"{subject} / {heading}: {sentence}"
            if not NAMES_A_FILE.search(found):
                yield found


def names(tree: Path) -> Iterator[str]:
    """A line per folder of the product with the files in it."""
    folders: dict[Path, list[str]] = defaultdict(list)
    for path in sorted((tree / "vgpumgr").rglob("*.py")):
        if path.name != "__init__.py":
            folders[path.parent.relative_to(tree)].append(path.stem)
    for folder, files in sorted(folders.items()):
        yield f"{folder}/: {' '.join(files)}"


def draw(tree: Path, seed: str) -> None:
    found = behaviours()
    for number, each in enumerate(random.Random(seed).sample(found, min(COUNT, len(found))), 1):
        print(f"{number:2}. {each}")
    print("", *names(tree), sep="\n")


def score(answers: Path) -> None:
    rows = [line.partition("#")[0].split() for line in answers.read_text().splitlines()]
    asked = [row for row in rows if row]
    missed = [row for row in asked if row[1] not in row[2].split("|")]
    for number, opened, holds in missed:
        print(f"{number:>2}. opened {opened}, it is in {holds}")
    print(f"{len(asked) - len(missed)} of {len(asked)} found at the first file opened")


def main() -> None:
    parser = argparse.ArgumentParser(description="Find files by their names.")
    actions = parser.add_subparsers(dest="action", required=True)
    drawing = actions.add_parser("draw")
    drawing.add_argument("tree", nargs="?", type=Path, default=ROOT)
    drawing.add_argument("--seed")
    actions.add_parser("score").add_argument("answers", type=Path)
    asked = parser.parse_args()
    if asked.action == "score":
        return score(asked.answers)
    head = ["git", "rev-parse", "HEAD"]
    hashed = subprocess.run(head, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return draw(asked.tree, asked.seed or hashed.strip())


if __name__ == "__main__":
    main()
