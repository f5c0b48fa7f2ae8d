"""Labelled programs beside what torch.compile makes of them, and the answers beside the labels.

evaluate_compile.py FOLDER [--only NAME …] [--out FILE.md]: FOLDER has the programs and labels.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MPNANNY = os.environ.get("MPNANNY_PROGRAM", os.path.join(ROOT, "build/release/bin/mpnanny"))
SECONDS = 600


def asked(folder: str, label: dict[str, Any]) -> dict[str, Any]:
    ask = label["ask"]
    command = [MPNANNY, "diff", "--compile", "--format", "json", "--timeout-s", str(SECONDS)]
    for key in ("model", "function"):
        if key in ask:
            command += [f"--{key}", ask[key]]
    for word in ask.get("input", []):
        command += ["--input", word]
    if not label.get("backward", True):
        command += ["--no-backward"]
    command += ["--root", folder, "--python", sys.executable]
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {"verdict": "no answer", "text": done.stderr.strip()[-400:]}
    answer["seconds"] = time.monotonic() - began
    return answer


def judged(label: dict[str, Any], answer: dict[str, Any]) -> dict[str, bool]:
    """Which parts of the label the answer has."""
    if not label["fault"]:
        return {"clean": answer["verdict"] == "clean"}
    first = answer.get("first_bad") or {}
    compiled = answer.get("compile") or {}
    line = str(first.get("source") or "").rpartition(":")[2]
    named = line.isdigit() and int(line) in label["first"]["lines"]
    switch = json.dumps(compiled.get("switch") or {})
    words = {
        "emulate_precision_casts": ["emulate_precision_casts"],
        "decomposition": ["decomposition"],
        "disable": ["disable"],
        "backend": ["backend"],
        "fallback": ["fallback", "decomposition"],
    }
    switches = [w for each in label["switch"] for w in words.get(each, [each.rpartition(":")[2]])]
    return {
        "found": answer["verdict"] in ("degraded", "broken"),
        "line": named,
        "operator": str(first.get("op") or "") in label["first"]["operators"],
        "phase": first.get("phase") == label["phase"],
        "nearer": compiled.get("nearer") == label["nearer_to_fp64"],
        "switch": any(word in switch for word in switches),
    }


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder")
    arguments.add_argument("--only", nargs="*")
    arguments.add_argument("--out")
    given = arguments.parse_args()
    folder = os.path.abspath(given.folder)
    with open(os.path.join(folder, "labels.json"), encoding="utf-8") as file:
        labels = json.load(file)
    rows = []
    for name, label in labels.items():
        if given.only and name not in given.only:
            continue
        answer = asked(folder, label)
        parts = judged(label, answer)
        rows.append((name, label, answer, parts))
        first = answer.get("first_bad") or {}
        shown = " ".join(f"{part}={'yes' if right else 'NO'}" for part, right in parts.items())
        print(
            f"{name}: {answer['verdict']} {answer['seconds']:.0f} s; {shown};"
            f" {first.get('op')} at {first.get('source')} ({first.get('phase')},"
            f" {first.get('way')}); {json.dumps((answer.get('compile') or {}).get('switch'))}"
            f" {answer.get('text', '')}",
            flush=True,
        )
    faults = [row for row in rows if row[1]["fault"]]
    healthy = [row for row in rows if not row[1]["fault"]]
    summary = (
        f"Faults found: {sum(row[3]['found'] for row in faults)} of {len(faults)}; first difference"
        f" named by line: {sum(row[3]['line'] for row in faults)}; nearer to FP64 right:"
        f" {sum(row[3]['nearer'] for row in faults)}; switch right:"
        f" {sum(row[3]['switch'] for row in faults)}. Healthy and clean:"
        f" {sum(row[3]['clean'] for row in healthy)} of {len(healthy)}."
    )
    print(summary)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.write(
                summary + "\n\n| program | verdict | right | not right |\n|---|---|---|---|\n"
            )
            for name, _, answer, parts in rows:
                right = ", ".join(part for part, is_right in parts.items() if is_right)
                wrong = ", ".join(part for part, is_right in parts.items() if not is_right)
                file.write(f"| {name} | {answer['verdict']} | {right} | {wrong} |\n")


if __name__ == "__main__":
    main()
