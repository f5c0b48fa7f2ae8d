"""Writes the first inputs of the static check's fuzzer into a folder.

They are the programs of python_seeds/, every example of the rules' pages, and what an editor or a
disk makes of a program: other line ends, encodings and depths. The first byte tells the fuzzer what
the rest is (static_check_fuzzer.cc).
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RULES = HERE.parent.parent / "engines/check/rules"
# By the part of a seed's name before ".txt" and by the language of a page's example.
KINDS = {
    "py": b"p",
    "files": b"m",
    "cells": b"c",
    "ipynb": b"n",
    "json": b"j",
    "yaml": b"y",
    "sh": b"s",
    "python": b"p",
}
EXAMPLE = re.compile(rb"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def variants(program: bytes) -> list[bytes]:
    """One program as other machines write it."""
    text = program.decode()
    return [
        text.replace("\n", "\r\n").encode(),
        text.replace("\n", "\r").encode(),
        text.replace("    ", "\t").encode(),
        b"\xef\xbb\xbf" + program,
        text.encode("latin-1", "replace").replace(b"=", b"=\xe9", 1),
        text.encode("utf-16"),
        program.replace(b"\n", b"\x0c\n", 2).rstrip(),
    ]


def deep(depth: int) -> list[bytes]:
    """Programs that are nested rather than long."""
    return [
        b"(" * depth + b")" * depth,
        b"f(" * depth,
        b"x = " + b"not " * depth + b"y",
        b"x" + b".half()" * depth,
        b"x = " + b"1 + " * depth + b"1",
        b"x = [" * depth,
        b"".join(b" " * i + b"if x:\n" for i in range(min(depth, 40))),
        b"lambda: " * depth + b"0",
        b"x = '''" + b"f'{" * depth,
        b"".join(b"def f%d(x): return f%d(x.half())\n" % (i, i + 1) for i in range(depth // 5)),
        b"".join(b"x%d = x%d\n" % (i, i + 1) for i in range(depth // 2)),
    ]


def inputs() -> list[bytes]:
    found: list[bytes] = []
    for path in sorted((HERE / "python_seeds").glob("*.txt")):
        kind = KINDS[path.stem.rpartition(".")[2]]
        found.append(kind + path.read_bytes())
    for path in sorted(RULES.glob("*.md")):
        for language, code in EXAMPLE.findall(path.read_bytes()):
            kind = KINDS.get(language.decode())
            if kind:
                found.append(kind + code)
    program = (HERE / "python_seeds/scaler_whole.py.txt").read_bytes()
    found += [b"p" + each for each in variants(program)]
    found += [b"p" + each for depth in (20, 120) for each in deep(depth)]
    found += [b"n", b"n[]", b"p\n", b"j{}", b"y- a", b"s--fp16"]
    return found


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    seeds = set(inputs())
    for each in seeds:
        (folder / hashlib.sha1(each).hexdigest()).write_bytes(each)
    print(f"{len(seeds)} seeds")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
