"""A row for each recorded training: what its diagnosis says and what of that is right:
python rows.py FOLDER… [--program FILE] [--before FILE.json] [--json FILE].

A recording is a database with its label beside it (record.py, reliability.py --record). `--before`
names a table that an earlier call wrote with `--json`: rows that differ are shown, the worse ones
first. A row is the better, the more of these hold: not healthy where the label says so (healthy
where it does), the first cause is the label's, a marked line is named by the first cause or by the
first bad step, precision is said rightly (said wrongly is worse than not said).
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

from evaluate import MPNANNY, diagnose, one_of
from reliability import SAYS, is_healthy, points_at


def line_named(answer: dict[str, Any], label: dict[str, Any]) -> bool:
    """Whether the first cause, or the first bad step, names a marked line."""
    first_bad = answer.get("first_bad") or {}
    lines = [first_bad.get("source") or "", *(first_bad.get("cure") or {}).get("lines", [])]
    lines += (answer["hypotheses"] or [{"lines": []}])[0]["lines"]
    return points_at({"lines": [line for line in lines if ":" in line]}, label)


def row(answer: dict[str, Any], label: dict[str, Any]) -> dict[str, Any]:
    """What the answer says, and its points."""
    first = (answer["hypotheses"] or [None])[0]
    flagged = answer["verdict"] in ("broken", "degraded")
    said = SAYS.get((answer.get("first_bad") or {}).get("precision"))
    told: dict[str, Any] = {
        "verdict": answer["verdict"],
        "cause": first and (first["cause"] or first["title"]),
        "confidence": first and round(first["confidence"], 2),
        "precision": said,
    }
    if is_healthy(label):
        return told | {"points": 0 if flagged else 4}
    points = int(answer["verdict"] != "healthy")
    if "marked" not in label:
        points += one_of(answer["verdict"], label["verdict"])
        points += 2 * bool(first and one_of(first["cause"], label["cause"]))
        return told | {"points": points}
    wanted = label.get("precision")
    points += 2 * line_named(answer, label)
    if wanted is not None and said is not None:
        points += 1 if said == wanted else -1
    return told | {"points": points}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", type=pathlib.Path, nargs="+")
    parser.add_argument("--program", type=pathlib.Path, default=MPNANNY)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    for folder in options.recordings:
        points = []
        for file in sorted(folder.glob("*.json")):
            if not file.with_suffix(".db").exists():
                continue
            label = json.loads(file.read_text())
            told = row(diagnose(file.with_suffix(".db"), options.program), label)
            rows[f"{folder.name}/{file.stem}"] = told
            points.append(told["points"])
        print(f"{folder.name}: {sum(points)} points of {4 * len(points)}, {len(points)} rows")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.before:
        before = json.loads(options.before.read_text())
        changed = [name for name in rows if name in before and rows[name] != before[name]]
        changed.sort(key=lambda name: rows[name]["points"] - before[name]["points"])
        for name in changed:
            by = rows[name]["points"] - before[name]["points"]
            if by or rows[name]["cause"] != before[name]["cause"]:
                print(f"{by:+d} {name}\n    {before[name]}\n    {rows[name]}")


if __name__ == "__main__":
    main()
