#!/usr/bin/env python3
"""What following the state costs a step: two versions of the Python package in turns, each in a
process of its own: ledger_turns.py BEFORE AFTER (folders that hold mpnanny/) [--turns 6]. Processor
time of plain steps without a shadow; of all turns the least counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

PROGRAM = """
import sys, tempfile, time, torch
from torch import nn
from mpnanny import MixedPrecisionNanny
torch.set_num_threads(1)
model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(int(sys.argv[1]) // 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(4, 8)
best = 1e9
with MixedPrecisionNanny(model, db=tempfile.mkdtemp() + "/m.db", shadow="off", quiet=True):
    for _ in range(12):
        begun = time.process_time()
        for _ in range(64):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
        best = min(best, (time.process_time() - begun) / 64)
print(best)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--parameters", type=int, default=64)
    words = parser.parse_args()
    best = [1e9, 1e9]
    for turn in range(2 * words.turns):
        which = turn % 2
        folder = (words.before, words.after)[which]
        command = [sys.executable, "-c", PROGRAM, str(words.parameters)]
        environment = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        best[which] = min(best[which], float(done.stdout))
    before, after = (1e6 * each for each in best)
    more = 1e3 * (after - before) / words.parameters
    print(f"{before:.1f} -> {after:.1f} us a step: {more:+.0f} ns a parameter and step")


if __name__ == "__main__":
    main()
