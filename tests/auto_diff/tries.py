"""How many of the functions in tried/ run with inputs that are made for them: `python tries.py`.

A function runs if its line was reached in both precisions, whatever is then said of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mpnanny.diff import Problem, diff_request

FOLDER = Path(__file__).parent / "tried"
LABELS: dict[str, dict[str, Any]] = json.loads((FOLDER / "labels.json").read_text())
RAN = ("confirmed", "not_at_these_inputs", "not_in_low_precision")


def line_of(name: str) -> int:
    """Of the mark `# try: name`."""
    lines = (FOLDER / LABELS[name]["file"]).read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if line.endswith(f"# try: {name}"))


def request_of(name: str) -> dict[str, Any]:
    label = LABELS[name]
    file = FOLDER / label["file"]
    request: dict[str, Any] = {"root": str(FOLDER), "dtype": "fp16"}
    if "function" in label:
        return {**request, "function": f"{file}:{label['function']}", "args": label["args"]}
    return {**request, "finding": f"{file}:{line_of(name)}"}


def tried(name: str) -> tuple[bool, str]:
    """Whether it ran, and what came of it."""
    try:
        answer = diff_request(request_of(name))
    except Problem as problem:
        return False, problem.message
    proof = answer.get("proof")
    if proof is None:
        return True, str(answer["verdict"])
    return proof["result"] in RAN, str(proof.get("missing") or proof["result"])


def main() -> int:
    ran = 0
    for name in LABELS:
        good, what = tried(name)
        ran += good
        print(f"{name:18} {'ran ' if good else 'no  '} {what[:150]}", flush=True)
    print(f"{ran} of {len(LABELS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
