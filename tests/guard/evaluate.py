"""Trains each of trainings.py in FP32, under autocast, and under autocast with the guard:
`python evaluate.py`.
"""

from __future__ import annotations

import math
import sys

import trainings
from trainings import held_out, train


def main() -> int:
    for name, of in (trainings.FAILING | trainings.HEALTHY).items():
        _, plain_model, _, _ = train(of, low=False, guarded=False)
        low, low_model, _, _ = train(of, low=True, guarded=False)
        _, kept_model, guard, left_out = train(of, low=True, guarded=True)
        exact = held_out(plain_model, of)
        apart = (held_out(kept_model, of) - exact) / exact
        _, other, _, _ = train(of, low=False, guarded=False, moved=2.0**-11)
        noise = (held_out(other, of) - exact) / exact
        _, same, _, _ = train(of, low=False, guarded=False, without=left_out)
        without = (held_out(same, of) - exact) / exact
        bad = sum(not math.isfinite(each) for each in low)
        print(
            f"{name}: FP32 {exact:.4f} (moved by 2^-11: {noise:+.2%}); autocast"
            f" {held_out(low_model, of):.4f}, {bad} losses not finite;"
            f" guarded {apart:+.2%} with {len(left_out)} steps left out (FP32 without these:"
            f" {without:+.2%});"
            f" islands {guard.islands}"
        )
        for change in guard.changes:
            print("   ", change.step, change.kind, change.module, change.value, change.reason)
    return 0


if __name__ == "__main__":
    sys.exit(main())
