"""Holds what `mpnanny check` says of the programs against what torch does to them.

    python tests/static_check/consequences/rating.py      # a line for each, and the sum

A program that raises or trains wrong is an error in one of the lines that are marked `# <- error`,
one that loses accuracy is a warning in a line marked `# <- warning`; of one that does neither,
and in lines without a mark, nothing is said that is more than an info.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from collections.abc import Sequence

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE.parents[2] / "build" / "release" / "bin" / "mpnanny"
LABELS: dict[str, dict[str, str]] = json.loads((HERE / "labels.json").read_text())
SEVERITY = {"raises": "error", "trains wrong": "error", "loses accuracy": "warning", "fine": ""}


def marks(name: str) -> dict[int, str]:
    """The marked lines of a program, and the severity that each asks for."""
    lines = (HERE / "programs" / f"{name}.py").read_text().splitlines()
    found = ((at, re.search(r"# <- (\w+)$", line)) for at, line in enumerate(lines, 1))
    return {at: match[1] for at, match in found if match}


def findings(names: Sequence[str]) -> dict[str, list[tuple[int, str, str]]]:
    """Line, severity and rule of each finding, by program; each is checked alone."""
    out = {}
    for name in names:
        done = subprocess.run(
            [PROGRAM, "check", HERE / "programs" / f"{name}.py", "--format", "json"],
            capture_output=True,
            text=True,
            check=False,
        )
        told = json.loads(done.stdout)["findings"]
        out[name] = [(each["line"], each["severity"], each["rule"]) for each in told]
    return out


def verdict(name: str, told: Sequence[tuple[int, str, str]]) -> str:
    """`right`, `silent`, or what is wrong: too quiet, too loud, or in another line."""
    wanted = SEVERITY[LABELS[name]["does"]]
    marked = marks(name)
    loud = [(line, severity) for line, severity, _ in told if severity != "info"]
    if [each for each in loud if each[0] not in marked]:
        return "loud elsewhere" if wanted else "too loud"
    severities = {severity for line, severity, _ in told if line in marked}
    if not wanted or (severities - {"info"}) == {wanted}:
        return "right"
    if "error" in severities:
        return "too loud"
    return "too quiet" if severities else "silent"


def main() -> None:
    told = findings(sorted(LABELS))
    verdicts = {name: verdict(name, told[name]) for name in told}
    for name, each in verdicts.items():
        said = ", ".join(f"{line} {severity} {rule}" for line, severity, rule in told[name])
        print(f"{LABELS[name]['does']:14}  {each:14}  {name}: {said or 'nothing'}")
    faulty = [name for name in verdicts if LABELS[name]["does"] != "fine"]
    for title, names in (("all", list(verdicts)), ("faulty", faulty)):
        kinds = {each: 0 for each in ("right", "silent", "too quiet", "too loud", "loud elsewhere")}
        for name in names:
            kinds[verdicts[name]] += 1
        print(f"{title}: {len(names)}: " + ", ".join(f"{n} {each}" for each, n in kinds.items()))


if __name__ == "__main__":
    main()
