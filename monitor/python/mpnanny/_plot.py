"""Pictures of a run for notebooks and scripts, as matplotlib figures.

The data is that of `mpnanny report`: the program reads the run, so that a picture here shows the
numbers that the page and the agent see.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from typing import TYPE_CHECKING, Any

from ._program import MISSING
from ._program import find as _program_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FORMATS = {  # powers of two: smallest subnormal, smallest normal, first one beyond the largest
    "FP16": (-24, -14, 16),
    "BF16": (-133, -126, 128),
    "E4M3": (-9, -6, 9),
    "E5M2": (-16, -14, 16),
}
_METRICS = {
    "loss": "loss",
    "grad_norm": "gradient norm (L2, unscaled)",
    "loss_scale": "loss scale",
    "lr": "learning rate",
}
# Okabe and Ito's, which colour-blind people can tell apart.
_BLUE, _VERMILION, _ORANGE = "#0072b2", "#d55e00", "#e69f00"


def plot(
    run: str | os.PathLike[str],
    what: str = "curves",
    *,
    kind: str | None = None,
    figure: str | None = None,
    layer: str | None = None,
    step: int | None = None,
) -> Figure:
    """Draws a recorded run.

    run: a database, `database#id`, or a folder; an open run too.
    what: "curves" (loss, gradient norm, loss scale, learning rate, with skipped steps and the first
        bad step), "heatmap" (layers by steps; `kind`: "activation", "gradient", "weight", "update",
        "shadow_forward", "shadow_backward"; `figure`: "absmax", "rms", "zeros", "underflow",
        "frozen", "error"; without them the first there is) or "histogram" (how the magnitudes of
        one tensor are spread over powers of two; `layer`, `kind` and `step` choose it, a step that
        was not recorded stands for the one before it).

    Returns a matplotlib figure, which a notebook shows and `savefig` saves. Raises ValueError for
    a run or a choice that is not there (its text names what there is), ImportError without
    matplotlib, FileNotFoundError without the program `mpnanny`.
    """
    drawings = {"curves": _curves, "heatmap": _heat_map, "histogram": _histogram}
    if what not in drawings:
        raise ValueError(f"what must be one of {', '.join(drawings)}, not {what!r}")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("mpnanny.plot draws with matplotlib: pip install matplotlib") from error
    data = _data(os.fspath(run))
    return drawings[what](Figure, data, {"kind": kind, "figure": figure}, layer, step)


def _program() -> str:
    found = _program_path()
    if found is None:
        raise FileNotFoundError(f"mpnanny.plot reads a run with a program: {MISSING}")
    return found


def _data(run: str) -> dict[str, Any]:
    words = [_program(), "report", run, "-o", "-"]
    asked = subprocess.run(words, capture_output=True, check=False)
    if asked.returncode != 0:
        raise ValueError(asked.stderr.decode(errors="replace").strip())
    data: dict[str, Any] = json.loads(asked.stdout)["runs"][0]
    return data


def _number(value: object) -> float:
    """JSON has no NaN and no infinity; null is not known."""
    if value is None:
        return math.nan
    return float(value) if isinstance(value, (int, float, str)) else math.nan


def _numbers(values: list[object]) -> list[float]:
    return [_number(value) for value in values]


def _first_bad(data: dict[str, Any]) -> dict[str, Any]:
    found = data["diagnosis"].get("first_bad")
    return found if isinstance(found, dict) else {}


def _curves(
    figure_of: Any, data: dict[str, Any], choice: dict[str, str | None], layer: Any, step: Any
) -> Figure:
    course = data["course"]
    drawn = [metric for metric in _METRICS if metric in course.get("curves", {})]
    if not drawn:
        raise ValueError("the run recorded no loss, gradient norm, loss scale or learning rate")
    figure: Figure = figure_of(figsize=(10, 2.6 * len(drawn)), layout="constrained")
    axes = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
    bad = _first_bad(data).get("step")
    for axis, metric in zip(axes, drawn, strict=True):
        curve = {name: _numbers(values) for name, values in course["curves"][metric].items()}
        axis.fill_between(course["step"], curve["least"], curve["greatest"], color=_BLUE, alpha=0.2)
        axis.plot(course["step"], curve["last"], color=_BLUE, linewidth=1.3)
        events = course["not_finite" if metric == "loss" else "skipped"]
        at = [step for step, count in zip(course["step"], events, strict=True) if count]
        if at and metric != "lr":
            told = "not finite" if metric == "loss" else "step skipped"
            height = axis.get_xaxis_transform()
            axis.plot(at, [0.03] * len(at), "^", color=_ORANGE, transform=height, label=told)
        if bad is not None:
            axis.axvline(bad, color="black", linestyle="--", linewidth=1, label="first bad step")
        finite = [value for value in curve["last"] if math.isfinite(value)]
        if (
            finite
            and min(finite) > 0
            and (metric == "loss_scale" or max(finite) > 1e3 * min(finite))
        ):
            axis.set_yscale("log")
        axis.set_ylabel(_METRICS[metric])
        if axis.get_legend_handles_labels()[0]:
            axis.legend(loc="best")
    axes[-1].set_xlabel("step")
    axes[0].set_title(_title(data))
    return figure


def _title(data: dict[str, Any]) -> str:
    # A dollar sign would begin a formula.
    name = str(data["summary"]["name"])[:80].replace("$", r"\$")
    return f"{name}: {data['diagnosis']['verdict'].replace('_', ' ')}"


def _heat_map(
    figure_of: Any, data: dict[str, Any], choice: dict[str, str | None], layer: Any, step: Any
) -> Figure:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    heat = data.get("heat") or {"maps": []}
    there = [f"{each['kind']} {each['figure']}" for each in heat["maps"]]
    fits = [
        each
        for each in heat["maps"]
        if all(wanted in (None, each[name]) for name, wanted in choice.items())
    ]
    if not fits:
        raise ValueError(f"there is no such map; recorded are: {', '.join(there) or 'none'}")
    chosen = fits[0]
    cells = [_numbers(row) for row in chosen["rows"]]
    rows = [at for at, row in enumerate(cells) if any(not math.isnan(cell) for cell in row)]
    finite = [c for row in cells for c in row if math.isfinite(c) and c > 0]
    if chosen["figure"] in ("absmax", "rms"):
        norm: Normalize = LogNorm(max(1e-8, min(finite, default=1e-8)), 65504.0, clip=True)
    elif chosen["figure"] == "error":
        norm = LogNorm(1e-5, 1, clip=True)
    else:
        norm = Normalize(0, 1)
    height = min(40.0, 1.5 + 0.22 * max(4, len(rows)))
    figure: Figure = figure_of(figsize=(11, height), layout="constrained")
    axis = figure.subplots()
    colours = colormaps["cividis"].with_extremes(bad="#ffffff")
    # Infinite cells get a colour of their own below.
    shown = [[c if math.isfinite(c) else math.nan for c in cells[at]] for at in rows]
    image = axis.imshow(shown, aspect="auto", norm=norm, cmap=colours, interpolation="none")
    for place, at in enumerate(rows):
        for column, cell in enumerate(cells[at]):
            if math.isinf(cell):
                _cell(axis, column, place, facecolor=_VERMILION)
    bad = _first_bad(data)
    if bad.get("step") is not None and bad.get("layer") in heat["layers"]:
        row = heat["layers"].index(bad["layer"])
        before = [at for at, first in enumerate(heat["first_steps"]) if first <= bad["step"]]
        if row in rows and before:
            _cell(axis, before[-1], rows.index(row), fill=False, edgecolor="black", linewidth=2)
    names = [heat["layers"][at] or "(model)" for at in rows]
    every = max(1, len(rows) // 120)
    axis.set_yticks(range(0, len(rows), every), [name[:60] for name in names[::every]], fontsize=7)
    columns = range(0, len(heat["first_steps"]), max(1, len(heat["first_steps"]) // 10))
    axis.set_xticks(list(columns), [str(heat["first_steps"][at]) for at in columns])
    axis.set_xlabel("step")
    axis.set_title(f"{_title(data)}; red: NaN or Inf, framed: first bad")
    figure.colorbar(image, label=f"{chosen['figure']} of {chosen['kind'].replace('_', ' ')}")
    return figure


def _cell(axis: Axes, column: int, row: int, **look: Any) -> None:
    from matplotlib.patches import Rectangle

    axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **look))


def _histogram(
    figure_of: Any, data: dict[str, Any], choice: dict[str, str | None], layer: Any, step: Any
) -> Figure:
    if choice["figure"] is not None:
        raise ValueError("a histogram has no figure; give layer, kind and step")
    all_of = data.get("histograms") or []
    wanted = layer if layer is not None else _first_bad(data).get("layer")
    fits = [each for each in all_of if each["layer"] == wanted]
    if not fits and layer is None:
        fits = all_of
    fits = [each for each in fits if choice["kind"] in (None, each["kind"])]
    if not fits:
        names = sorted({each["layer"] for each in all_of})
        raise ValueError(f"no such histogram; layers that have some: {', '.join(names) or 'none'}")
    first = fits[0]
    fits = [
        each for each in fits if (each["layer"], each["kind"]) == (first["layer"], first["kind"])
    ]
    before = [each for each in fits if step is None or each["step"] <= step]
    one = before[-1] if before else fits[0]
    figure: Figure = figure_of(figsize=(10, 4), layout="constrained")
    axis = figure.subplots()
    exponents, counts = zip(*one["counts"], strict=True) if one["counts"] else ((), ())
    axis.bar(exponents, counts, width=0.95, align="edge", color=_BLUE)
    low = min([*exponents, -26]) - 1
    high = max([*exponents, 17]) + 2
    for at, (name, (least, normal, end)) in enumerate(_FORMATS.items()):
        line = {"transform": axis.get_xaxis_transform(), "solid_capstyle": "butt", "linewidth": 5}
        height = 0.98 - 0.05 * at
        axis.plot([max(low, normal), min(high, end)], [height] * 2, color="#009e73", **line)
        axis.plot([max(low, least), max(low, normal)], [height] * 2, color="#a6dccb", **line)
        place = {"transform": line["transform"], "fontsize": 7, "va": "center"}
        axis.text(min(high, end) + 0.2, height, name, **place)
    axis.set_xlim(low, high + 2)
    axis.set_ylim(0, 1.35 * max([*counts, 1]))  # room for the formats
    axis.set_xlabel("magnitude (power of two); green: normal range of each format, pale: subnormal")
    axis.set_ylabel("elements")
    axis.set_title(f"{one['layer'][:80]}, {one['kind']}, step {one['step']} ({one['zeros']} zeros)")
    return figure
