"""Each planted model: everything in the format, autocast's lists, and the plan: error of outputs
and of gradients, share of FP32 operators. `python table.py` prints Markdown.
"""

from __future__ import annotations

import math
import sys

import evaluate
import families
import planted
from mpnanny.precision.candidates import _work
from mpnanny.precision.effect import Effect, Trials
from mpnanny.programs.policy import Policy


def everything(program, precision: str) -> Effect:
    """Weights, inputs and operators in 16 bits."""
    policy = Policy("pure", precision, "cpu")
    with policy.installed():
        trials = Trials(program, policy, "pure")
        names = [name for name, _ in trials.model.named_modules()]
        return trials.run([*names, "(outside of modules)"])


def autocast(program, precision: str) -> tuple[Effect, float]:
    policy = Policy("cuda-autocast", precision, "cpu")
    with policy.installed():
        trials = Trials(program, policy, "autocast")
        names = [name for name, _ in trials.model.named_modules()] + ["(outside of modules)"]
        effect = trials.run(names)
        return effect, _work(program, trials, policy, "autocast", names, ()).wide_share


def shown(effect: Effect) -> str:
    if effect.raised:
        return "stops"

    def percent(value: float | None) -> str:
        return "-" if value is None else "inf" if math.isinf(value) else f"{100 * value:.2g}"

    return f"{percent(effect.output)} / {percent(effect.gradient)}"


def main() -> int:
    print("| model | format | everything low | autocast's lists | FP32 share | plan | FP32 share |")
    print("|---|---|---|---|---|---|---|")
    for each in planted.draw(families.FAMILIES):
        precision = each.way[:4]
        program = evaluate.family(each.family, each.plant)
        _, found = evaluate.measure(program, each.way)
        lists, share = autocast(program, precision)
        low = everything(program, precision)
        print(
            f"| {each.family}, {each.kind} | {each.way} | {shown(low)} | {shown(lists)} |"
            f" {100 * share:.0f} % | {shown(found.error)} | {100 * found.work.wide_share:.0f} % |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
