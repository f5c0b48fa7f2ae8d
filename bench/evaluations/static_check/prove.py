"""How many candidates of code bases `check --prove` can try: `python prove.py PYTHON FOLDER…`.

Asks the tool as a client does, page by page, until each folder has given its first 8 candidates or
findings. Prints a row for each: verdict, place, rule and reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[3] / "build" / "release" / "bin" / "mpnanny"
MOST = 8  # of a code base
SECONDS = 120  # for one page


def page(folder: str, python: str, cursor: str) -> dict[str, Any]:
    asked = {
        "paths": [folder],
        "detail": "candidates",
        "prove": True,
        "timeout_s": SECONDS,
        "python": python,
    }
    if cursor:
        asked["cursor"] = cursor
    words = [PROGRAM, "call", "static_check", "--allow-exec", "--root", folder]
    done = subprocess.run(
        [*words, "--args", json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=10 * SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def first_of(folder: str, python: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while len(found) < MOST:
        answer = page(folder, python, cursor)
        found += answer["candidates"]
        cursor = answer.get("next_cursor", "")
        if not cursor:
            break
    return found[:MOST]


def main() -> int:
    python, *folders = sys.argv[1:]
    counts: Counter[str] = Counter()
    for folder in folders:
        began = time.monotonic()
        for each in first_of(folder, python):
            proof = each["proof"]
            counts[proof["verdict"]] += 1
            place = f"{Path(each['path']).name}:{each['line']}"
            row = (Path(folder).name, place, each["rule"], proof["verdict"], proof["why"])
            print("| " + " | ".join(word.replace("|", "\\|") for word in row) + " |", flush=True)
        print(f"{folder}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(dict(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
