"""How the numbers of a tried input may be drawn: the plain case first, then what trainings also
meet: large, tiny, equal, offset, skewed, at the ends of [0, 1].
"""

from __future__ import annotations

import re

# Name -> how floating-point tensors are drawn.
RANGES = {
    "normal(0,1)": "normal(0,1)",
    "uniform(0,1)": "uniform(0,1)",
    "normal(0,10)": "normal(0,10)",
    "normal(0,100)": "normal(0,100)",
    "normal(0,1000)": "normal(0,1000)",
    "normal(0,0.0001)": "normal(0,0.0001)",
    "zeros": "zeros",
    "equal rows": "equal_rows",
    "offset(30)": "offset(30)",
    "offset(1000)": "offset(1000)",
    "lognormal(0,4)": "lognormal(0,4)",
    "uniform(0.999,1)": "uniform(0.999,1)",
    "uniform(0,0.0001)": "uniform(0,0.0001)",
}
_SHAPE = re.compile(r"\[([\d,]+)\]")
_DRAWN = re.compile(r"(float32\[[\d,]*\])~\w+(?:\([^()]*\))?")
LONG = 2048
LENGTHENED = ("16", "8")  # sizes that are also tried so long, as sequences and vocabularies are


def in_range(words: dict[str, str], name: str, long: str) -> dict[str, str]:
    """`words` of a call (by argument) with all floating-point tensors drawn as `name` says. `long`:
    a size that becomes LONG, "" for none.
    """
    made = {}
    for key, word in words.items():
        drawn = _DRAWN.sub(lambda found: f"{found[1]}~{RANGES[name]}", word)
        if long:
            drawn = _SHAPE.sub(lambda found: f"[{_lengthened(found[1], long)}]", drawn)
            drawn = str(LONG) if drawn == long else drawn  # a length that is an argument
        made[key] = drawn
    return made


def _lengthened(shape: str, long: str) -> str:
    """With the last of these sizes long."""
    sizes = shape.split(",")
    if long in sizes:
        sizes[len(sizes) - 1 - sizes[::-1].index(long)] = str(LONG)
    return ",".join(sizes)
