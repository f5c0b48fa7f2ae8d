"""Tries the functions of a code base: the last line of each that calls torch, one after the other.

    python sweep.py --program build/release/bin/mpnanny --python PYTHON FOLDER… [--most 20]

Prints one row a function and, at the end, how many were confirmed, not confirmed, and could not be
run alone.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
from collections import Counter
from pathlib import Path


def lines_of(file: Path) -> list[int]:
    """The last statement of every function and method that does arithmetic on something."""
    try:
        tree = ast.parse(file.read_text())
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return []
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
            continue
        if not any(isinstance(each, ast.Return) and each.value for each in ast.walk(node)):
            continue
        calls = {
            each.func.attr
            for each in ast.walk(node)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
        }
        operates = any(isinstance(each, ast.BinOp) for each in ast.walk(node))
        if operates and calls & {
            "sum",
            "mean",
            "exp",
            "log",
            "sqrt",
            "norm",
            "pow",
            "softmax",
            "matmul",
            "clamp",
            "var",
            "std",
            "cumsum",
            "rsqrt",
            "sigmoid",
        }:
            found.append(node.body[-1].lineno)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--program", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--most", type=int, default=20)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--policy", default="cuda-autocast")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    for folder in given.folders:
        places = [(f, line) for f in sorted(folder.rglob("*.py")) for line in lines_of(f)]
        random.Random(1).shuffle(places)
        counts: Counter[str] = Counter()
        for file, line in places[: given.most]:
            done = subprocess.run(
                [
                    *(given.program, "diff", "--finding", f"{file}:{line}", "--format", "json"),
                    *("--python", given.python, "--dtype", given.dtype, "--root", str(folder)),
                    *("--policy", given.policy),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            try:
                answer = json.loads(done.stdout)
                proof = answer["proof"]
                result, why = proof["result"], proof["missing"] or proof.get("input")
            except (ValueError, KeyError):
                result, why = "error", (done.stderr or done.stdout).strip()[:200]
            counts[result] += 1
            print(f"{file.relative_to(folder.parent)}:{line} {result} {why}", flush=True)
        print(folder.name, len(places), dict(counts), flush=True)
        total += counts
    print("all", dict(total))


if __name__ == "__main__":
    main()
