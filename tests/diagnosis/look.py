"""Runs planted programs before a Witness, without the monitor.

    python look.py [--variant 1] [--write] [NAME…]

Prints what the witness saw: the first value that was not finite, and the loss. `--write` renews
labels.json, all variants of all programs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import time

import programs
import torch
from planted import PROGRAMS, VARIANTS, labelled

LABELS = pathlib.Path(__file__).parent / "labels.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--variant", type=int, default=1, choices=VARIANTS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.write:
        labels = {
            name: {v: dataclasses.asdict(labelled(name, v)[0]) for v in VARIANTS}
            for name in PROGRAMS
        }
        lines = ",\n".join(
            f"{json.dumps(name)}: {{\n"
            + ",\n".join(f'  "{v}": {json.dumps(label)}' for v, label in each.items())
            + "\n}"
            for name, each in labels.items()
        )
        LABELS.write_text(f"{{\n{lines}\n}}\n")
        return
    for name in options.names or PROGRAMS:
        start = time.process_time()
        label, seen = labelled(name, options.variant)
        print(f"{name}, {time.process_time() - start:.1f} s: {label}")
        for each in seen:
            steps = sorted(each.losses)
            shown = steps[:: max(1, len(steps) // 12)] + steps[-1:]
            print("  first not finite:", each.first)
            print("  losses:", " ".join(f"{s}:{each.losses[s]:.3g}" for s in shown))


if __name__ == "__main__":
    assert programs
    main()
