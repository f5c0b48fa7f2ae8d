"""Runs labelled programs under `mpnanny run`, asks `mpnanny mismatch`, compares with the labels.

evaluate.py FOLDER [--only NAME …] [--out FILE.md]: FOLDER has the programs and labels.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MPNANNY = os.environ.get("MPNANNY_PROGRAM", os.path.join(ROOT, "build/release/bin/mpnanny"))

# Labels are in users' words; several of ours may stand for one.
MEANS = {
    "none": {"none", "rare_tokens"},
    "constant_offset": {"constant_offset"},
    "other_weights": {"constant_offset"},
    "temperature": {"temperature"},
    "documents": {"documents"},
    "position": {"position", "decoding"},
    "rare_tokens": {"rare_tokens", "head", "stored_in_16_bits"},
    "stale_weights": {"stale_weights"},
    "routing": {"routing"},
    # Shapes for which the labels have no word of their own.
    "other": {"truncated", "shifted", "head", "padding"},
}
CLEAN = {"agree"}


def asked(folder: str, name: str, temporary: str) -> dict:
    database = os.path.join(temporary, f"{name}.db")
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    command = [MPNANNY, "run", "--db", database, "--", sys.executable, f"{name}.py"]
    began = time.monotonic()
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    answer = subprocess.run(
        [MPNANNY, "mismatch", database, "--format", "json"], capture_output=True, text=True
    )
    try:
        found = json.loads(answer.stdout)
    except ValueError:
        found = {
            "verdict": "no answer",
            "shape": "no answer",
            "title": answer.stderr.strip()[-300:],
        }
        found["title"] += " | " + run.stderr.strip()[-200:]
    found["seconds"] = time.monotonic() - began
    return found


def is_right(label: dict, found: dict) -> bool:
    if not label["fault"]:
        return found["verdict"] in CLEAN
    words = [label["shape"], *label.get("also_right", [])]
    return any(found["shape"] in MEANS.get(word, set()) or found["shape"] == word for word in words)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder")
    arguments.add_argument("--only", nargs="*")
    arguments.add_argument("--out")
    given = arguments.parse_args()
    with open(os.path.join(given.folder, "labels.json"), encoding="utf-8") as file:
        labels = json.load(file)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, label in labels.items():
            if given.only and name not in given.only:
                continue
            found = asked(os.path.abspath(given.folder), name, temporary)
            right = is_right(label, found)
            rows.append((name, label, found, right))
            print(
                f"{'ok ' if right else 'NO '} {name}: label {label['shape']}, found"
                f" {found['shape']} ({found['verdict']}), {found['seconds']:.0f} s:"
                f" {found.get('measured', found.get('title', ''))}",
                flush=True,
            )
    faults = [row for row in rows if row[1]["fault"]]
    healthy = [row for row in rows if not row[1]["fault"]]
    summary = (
        f"Faults whose shape is named: {sum(row[3] for row in faults)} of {len(faults)}."
        f" Healthy and clean: {sum(row[3] for row in healthy)} of {len(healthy)}."
    )
    print(summary)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.write(summary + "\n\n| program | label | found | right |\n|---|---|---|---|\n")
            for name, label, found, right in rows:
                shown = f"{found['shape']} ({found['verdict']})"
                file.write(
                    f"| {name} | {label['shape']} | {shown} | {'yes' if right else 'no'} |\n"
                )


if __name__ == "__main__":
    main()
