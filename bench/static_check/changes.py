#!/usr/bin/env python3
"""What became of each finding from one version of the check to another.

Usage: bench/static_check/changes.py --old PROGRAM --new PROGRAM DIR…

Each folder below a DIR is a code base. Prints a Markdown table: of the findings of the old program
(all severities), by severity and rule, how many the new one reports as loudly, more quietly, as a
place to judge of the same rule or of another one in that line, or not at all; and what is new.
"""

import argparse
import collections
import json
import pathlib
import subprocess


def answer(program: str, folder: pathlib.Path, detail: str) -> dict:
    """The tool's structured answer for one code base; empty where it could not be checked."""
    done = subprocess.run(
        [program, "check", ".", "--no-config", "--detail", detail, "--format", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode in (0, 1) else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    became: dict[tuple[str, str], collections.Counter] = collections.defaultdict(
        collections.Counter
    )
    fresh: collections.Counter = collections.Counter()
    bases = judged = 0
    for folder in sorted(base for top in arguments.folders for base in top.iterdir()):
        before = answer(arguments.old, folder, "concise").get("findings", [])
        now = answer(arguments.new, folder, "concise").get("findings", [])
        places = answer(arguments.new, folder, "candidates").get("candidates", [])
        bases += 1
        judged += len(places)
        loud = {(f["path"], f["line"], f["rule"]): f["severity"] for f in now}
        quiet = collections.defaultdict(set)
        for place in places:
            quiet[place["path"], place["line"]].add(place["rule"])
        known = set()
        for f in before:
            key = (f["path"], f["line"], f["rule"])
            known.add(key)
            if key in loud:
                what = "as loud" if loud[key] == f["severity"] else "a " + loud[key]
            elif f["rule"] in quiet[key[:2]]:
                what = "to judge"
            else:
                what = "to judge, another rule" if quiet[key[:2]] else "gone"
            became[f["severity"], f["rule"]][what] += 1
        fresh.update(f"{loud[key]} {key[2]}" for key in loud if key not in known)
    columns = ["as loud", "a warning", "to judge", "to judge, another rule", "gone"]
    print(f"{bases} code bases; places to judge now: {judged}\n")
    print("| was | rule | " + " | ".join(columns) + " |\n|---|---|" + "---:|" * len(columns))
    for (severity, rule), counts in sorted(became.items()):
        print(
            f"| {severity} | {rule} | " + " | ".join(str(counts[c] or "") for c in columns) + " |"
        )
    print("\nNew: " + (", ".join(f"{n} {what}" for what, n in sorted(fresh.items())) or "none"))


if __name__ == "__main__":
    main()
