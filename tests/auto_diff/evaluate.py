"""Scores auto_diff on a set of labelled programs: whether the operator named first stands on
a labelled line, and whether healthy programs are called clean.

    python evaluate.py planted_a [--only a03] [--json OUT]

labels.json: `{id: {"target": "a01.py:build", "input": [words], "dtype", "policy", "backward",
"healthy", "lines": [17], "kind": "range|rounding"}}`; the README says how a program is written.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from mpnanny.diff import Problem, diff_request


def request_of(folder: Path, label: dict[str, Any]) -> dict[str, Any]:
    """The request of one label."""
    file, _, name = label["target"].partition(":")
    kind = "model" if name == "build" else "function"
    request = {kind: f"{folder / file}:{name}", "root": str(folder)}
    for key in ("args", "kwargs", "input", "dtype", "policy", "backward", "loss_scale", "fp8"):
        if key in label:
            request[key] = label[key]
    return request


def judge(folder: Path, label: dict[str, Any]) -> dict[str, Any]:
    """What came out, and whether it is right."""
    try:
        answer = diff_request(request_of(folder, label))
    except Problem as problem:
        return {"right": False, "verdict": "problem", "named": problem.message, "kind": ""}
    first = answer.get("first_bad") or {}
    source = first.get("source", "")
    line = int(source.rpartition(":")[2] or 0)
    if label.get("healthy"):
        right = answer["verdict"] == "clean"
    else:
        right = answer["verdict"] in ("broken", "degraded") and line in label["lines"]
    return {
        "right": right,
        "verdict": answer["verdict"],
        "named": f"{first.get('what', '')} {first.get('op', '')} {source}".strip(),
        "kind": first.get("kind", ""),
        "output": [each["error"] for each in answer["output"]][:3],
        "others": [f"{each['what']} {each['source']}" for each in answer["findings"]][:4],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    folder = given.folder.resolve()
    labels = json.loads((folder / "labels.json").read_text())
    rows = {}
    for name, label in labels.items():
        if given.only in (None, name):
            rows[name] = row = judge(folder, label)
            wanted = "healthy" if label.get("healthy") else f"{label['kind']} {label['lines']}"
            print(
                f"{name:10} {'ok  ' if row['right'] else 'MISS'} {row['verdict']:10} "
                f"{row['named']}  (label: {wanted}) {row.get('output')} {row.get('others')}"
            )
    for what, healthy in (("planted", False), ("healthy", True)):
        chosen = [row for name, row in rows.items() if bool(labels[name].get("healthy")) is healthy]
        if chosen:
            print(f"{what}: {sum(row['right'] for row in chosen)} of {len(chosen)}")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
