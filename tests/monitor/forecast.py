"""Whether an overflow is told 100 steps ahead, and nothing where there is none:
`python forecast.py`. What `mpnanny summary` forecasts from the record up to that step is held
against the step at which FP16's range is left.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile

import growing
from mpnanny import MixedPrecisionNanny
from torch import nn

PROGRAM = pathlib.Path(__file__).parents[2] / "build" / "release" / "bin" / "mpnanny"
AHEAD = 100
EVERY = 20
WITHIN = 0.25


def overflow_step(of: growing.Growing) -> int | None:
    """The first step in which a module's result is not finite."""
    broken: list[bool] = []

    def look(module: nn.Module, args: object, output: object) -> None:
        broken.append(not bool(output.isfinite().all()))

    for step, (model, _) in enumerate(of.steps(growing.MOST_STEPS)):
        if step == 0:
            for each in model.modules():
                each.register_forward_hook(look)
        if any(broken):
            return step - 1
        broken.clear()
    return None


def recorded(of: growing.Growing, steps: int, db: pathlib.Path) -> tuple[list[dict], list[str]]:
    """Forecasts of the summary, and messages of the alert, after so many steps."""
    watched = None
    alerts: list[str] = []

    def hear(alert: object) -> None:
        if alert.type == "OVERFLOW_AHEAD":
            alerts.append(f"step {alert.step}: {alert.message}")

    trained = of.steps(steps)
    model, optimizer = next(trained)
    watched = MixedPrecisionNanny(
        model, optimizer, db=db, trace_interval=EVERY, quiet=True, shadow="off", on_alert=hear
    )
    for _ in trained:
        pass
    watched.close()
    words = [PROGRAM, "summary", "--db", str(db), "--format", "json"]
    answer = json.loads(subprocess.run(words, capture_output=True, check=False).stdout)
    return answer["forecast"], alerts


def show(right: bool, name: str, step: int | None, rows: list[dict], alerts: list[str]) -> None:
    mark = "ok  " if right else "MISS"
    print(
        f"{mark} {name}: overflow at {step}, forecast {rows[:1]}, alerts {alerts[:1]}", flush=True
    )


def main() -> int:
    told = silent = 0
    with tempfile.TemporaryDirectory() as folder:
        for at, (name, of) in enumerate(growing.OVERFLOW.items()):
            step = overflow_step(of)
            if step is None or step <= AHEAD:
                print(f"unfit {name}: overflow at {step}")
                continue
            rows, alerts = recorded(of, step - AHEAD, pathlib.Path(folder) / f"o{at}.db")
            right = bool(rows) and abs(rows[0]["step"] - step) <= WITHIN * step
            told += right
            show(right, name, step, rows, alerts)
        for at, (name, of) in enumerate(growing.STAYS.items()):
            rows, alerts = recorded(of, growing.MOST_STEPS, pathlib.Path(folder) / f"s{at}.db")
            right = not rows and not alerts
            silent += right
            show(right, name, overflow_step(of), rows, alerts)
    print(f"forecast within {WITHIN:.0%}: {told} of {len(growing.OVERFLOW)}", end="; ")
    print(f"silent: {silent} of {len(growing.STAYS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
