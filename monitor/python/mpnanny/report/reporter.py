"""What people get of a step that the core has ended: its alerts, the course, the progress."""

from __future__ import annotations

from collections.abc import Callable

from ..base.alerts import Alert, AlertTuple, NewAlert
from ..base.console import Console
from ..steps.context import RunContext
from ..steps.step import OpenStep
from .course import Course
from .progress import Gradients, Progress


class Reporter:
    """`handle()`: of the run."""

    def __init__(
        self,
        run: RunContext,
        course: Course,
        console: Console,
        handle: Callable[[], str],
        on_alert: Callable[[Alert], None] | None,
    ) -> None:
        self.progress: Progress | None = None
        self._course = course
        self._console = console
        self._names = run.names
        self._notes = run.notes
        self._events = run.events
        self._handle = handle
        self._gradients: Callable[[float], Gradients | None] = run.core.gradients_in_fp16
        self._on_alert = on_alert
        self._pointed = False  # the user knows what to ask

    def step_ended(self, step: OpenStep, new: list[AlertTuple]) -> None:
        self._course.step(step)
        alerts = [NewAlert(*each) for each in new]
        self._events.step_ended(step, alerts)
        errors = [alert for alert in alerts if alert.severity == "ERROR"]
        if errors:
            self._events.errors_raised(errors)
        for alert in alerts:
            self._report(alert.named(self._names.name(alert.layer)))
        if self.progress is not None:
            self.progress.step(self._gradients)

    def _report(self, alert: Alert) -> None:
        self._course.alert(alert)
        where = f"at step {alert.step} ({alert.phase})"
        following = ""
        if alert.severity == "ERROR" and not self._pointed:
            self._pointed = True  # one pointer is enough
            following = f" Next: mpnanny diagnose {self._handle()}"
        self._console.alert(f"{alert.severity} {alert.type} {where}: {alert.message}{following}")
        if self._on_alert is not None:
            try:
                self._on_alert(alert)
            except Exception as error:
                self._notes.trouble("on_alert", error)
