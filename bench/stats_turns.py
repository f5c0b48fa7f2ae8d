#!/usr/bin/env python3
"""Two builds of bench-stats in turns: stats_turns.py BEFORE AFTER [--turns 10]. The best rate of
each in all its turns, since what else runs on the machine only takes away.
"""

from __future__ import annotations

import argparse
import json
import subprocess


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--level", default="")
    parser.add_argument("--kernel", default="stats")
    words = parser.parse_args()
    best: dict[int, list[float]] = {}
    for turn in range(2 * words.turns):
        which = turn % 2
        program = (words.before, words.after)[which]
        command = [program, "--rounds", "9", "--dtype", words.dtype, "--level", words.level]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for line in lines.splitlines():
            row = json.loads(line)
            rates = best.setdefault(row["bytes"], [0.0, 0.0])
            rates[which] = max(rates[which], row[words.kernel]["best"])
    for size, (before, after) in best.items():
        more = 100 * (before / after - 1)
        rates = f"{before:.2f} -> {after:.2f} GB/s"
        print(f"{words.dtype} {size >> 10} KB: {rates} ({more:+.1f} % time)")


if __name__ == "__main__":
    main()
