"""What is seen while it happens: a progress line now and then, and one word after the warm-up."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..base.console import Console
from .course import Course, arrow, many

# On a terminal one line is rewritten this often; in a log lines are added, less and less often.
EVERY = 30.0
SELDOM = 600.0

SKIPS_IN_PEACE = 2  # in half of the warm-up; growing the scale costs one now and then
UNDERFLOW_SHARE = 0.01  # as the alert UNDERFLOW

Gradients = tuple[int, int, int]  # elements that are not 0; of these zeroed, subnormal in FP16


class Progress:
    """Asked at the end of every step whether something is to be said."""

    def __init__(self, console: Console, course: Course) -> None:
        self._console = console
        self._course = course
        self._wait = EVERY
        self._due = time.perf_counter() + EVERY
        self._early_said = False

    def step(self, gradients: Callable[[float], Gradients | None]) -> None:
        """A step has ended. `gradients`: the core's gradients_in_fp16."""
        now = time.perf_counter()
        if now >= self._due:
            self._due = now + self._say_line()
        if not self._early_said and self._course.steps > self._course.early_steps:
            self._early_said = True
            scale = self._course.last_scale
            self._console.say(
                early_warning(self._course, gradients(1.0 if scale is None else scale))
            )

    def _say_line(self) -> float:
        """Says the line; the seconds until the next."""
        in_place = self._console.progress(progress_line(self._course))
        if in_place:
            return EVERY
        self._wait = min(2 * self._wait, SELDOM)
        return self._wait


def progress_line(course: Course) -> str:
    text = f"step {course.steps}"
    if course.last_loss is not None:
        text += f", loss {course.last_loss:.6g}"
    if course.last_scale is not None:
        text += f", loss scale {course.last_scale:g}"
    if course.skipped:
        text += f", {course.skipped} skipped"
    return f"{text}, alerts: {course.alert_counts()}"


def early_warning(course: Course, gradients: Gradients | None) -> str:
    """One line on the first steps of a run: whether they overflow, and more and more; where the
    scale goes; how much of the gradients FP16 loses at that scale. Short where all is well.
    """
    parts = []
    half = course.early_steps // 2
    late = sum(number >= half for number in course.early_skips)
    early = len(course.early_skips) - late
    worse = late > SKIPS_IN_PEACE
    if worse:
        trend = "rising" if late > early else "falling" if late < early else "steady"
        parts.append(
            f"{100 * (early + late) / course.early_steps:.3g} % of the steps overflowed and were"
            f" skipped ({early} in the first half, {late} in the second: {trend})"
        )
    if course.first_scale is not None and course.last_scale is not None:
        if worse or course.last_scale != course.first_scale:
            parts.append(
                f"loss scale {arrow(course.first_scale, course.last_scale)}"
                f" ({many(course.falls, 'fall')}, {many(course.rises, 'rise')})"
            )
    lost = 0.0
    if gradients is not None and gradients[0] > 0:
        lost = gradients[1] / gradients[0]
        at = "without a loss scale" if course.last_scale is None else f"at {course.last_scale:g}"
        if lost > UNDERFLOW_SHARE:
            parts.append(
                f"{100 * lost:.3g} % of the gradient elements underflow in FP16 {at}"
                f" (and {100 * gradients[2] / gradients[0]:.3g} % are subnormal)"
            )
    alerts = course.alert_counts() if course.count("ERROR") + course.count("WARNING") else ""
    if alerts:
        parts.append(f"alerts: {alerts}")
    if worse or lost > UNDERFLOW_SHARE or alerts:
        return f"early warning after {course.early_steps} steps: {'; '.join(parts)}"
    rest = f" ({'; '.join(parts)})" if parts else ""
    return f"healthy so far: {course.early_steps} steps without trouble{rest}"
