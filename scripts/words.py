#!/usr/bin/env python3
"""Holds the words that are taken: a file or a type whose whole name is a word of the table in
docs/architecture.md stands in the folders that its row names, and nowhere else.

    scripts/words.py [ROOT]

Prints one line for each that stands elsewhere; exit code 1 if there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CODE = {".cc", ".h", ".py"}
LEFT_OUT = ("tests/", "bench/", "knowledge/", "scripts/")
TYPE = re.compile(r"^\s*(?:template <[^>]*> )?(?:enum )?(?:class|struct) (\w+)\b(?!.*;$)", re.M)


def taken(page: str) -> dict[str, list[str]]:
    """word -> the folders whose it is, of the table "Words"; words that are nobody's left out."""
    section = page.split("\n## Words\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([\w ]+) \| .* \| (.*)\|$", section, re.M)
    words = {word: re.findall(r"`([^`]+)`", whose) for word, whose in rows}
    return {word: folders for word, folders in words.items() if folders}


def misplaced(root: Path, files: list[str]) -> list[str]:
    words = taken((root / "docs/architecture.md").read_text(encoding="utf-8"))
    found = []
    for file in files:
        path = Path(file)
        if path.suffix not in CODE or file.startswith(LEFT_OUT) or not (root / file).is_file():
            continue
        names = {path.stem, *TYPE.findall((root / file).read_text(encoding="utf-8"))}
        for word in sorted({name.lower() for name in names} & words.keys()):
            if not file.startswith(tuple(words[word])):
                found.append(f"{file}: '{word}' is {' and '.join(words[word])}'s")
    return found


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1])
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True
    )
    found = misplaced(root, listed.stdout.splitlines())
    print("\n".join([*found, f"words: 1 {'failed' if found else 'passed'}"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
