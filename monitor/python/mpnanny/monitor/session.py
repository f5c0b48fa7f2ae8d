"""A run from its start to its end: owns all parts, and gives each what it needs.

    hooks/      hears torch: taps (its functions), forward (modules and outputs)
    calls       what torch's calls mean for the step that is open
    steps/      life opens and ends it; listeners says what happens to all other parts
    model/      what is watched: parts found in a model, by which numbers the core knows them
    operators/  modes (torch's stack), trace (which operator made a bad value; tracing: when)
    relations/  faults of the loop and of its state
    shadow/     steps that run every operator a second time in FP64
    report/     the course, the summary, dumps
    process/    exit, fork, signals, the file's path, the environment

A new part is a StepListener that _make_parts() makes and adds to the events; it gets the
RunContext through its constructor and never sees the session. An event has one name on its way:
taps call it heard_X, StepListener and what is behind it X.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from torch import nn

from ..base.alerts import AlertTuple
from ..base.console import Console
from ..base.notes import Notes, harmless
from ..base.record import Record
from ..hooks import leaving, taps
from ..hooks.forward import ForwardHooks
from ..hooks.graph_operators import unusable
from ..hooks.graphs import Graphs
from ..mismatch.listener import Mismatches
from ..model.kinds import watches
from ..model.names import LayerNames
from ..model.optimizers import Optimizers
from ..model.parts import class_name
from ..model.unmoved import Unmoved
from ..model.watched import Changes, WatchedModel, some_of
from ..operators.modes import ModeStack
from ..process import ends
from ..process.cell import current_cell
from ..process.environment import rank_and_size
from ..process.own_file import free_path
from ..ranks.collectives import Collectives
from ..ranks.comparison import RankComparison
from ..relations.averages import StandingAverages
from ..relations.dropped import DroppedGradients
from ..relations.empty import EmptySteps
from ..relations.kept import KeptGradients
from ..relations.matched import MatchedStates
from ..relations.mixed_scale import MixedScale
from ..relations.moved import MovedWeights
from ..relations.narrowed import NarrowedStates
from ..relations.recast import RecastBuffers
from ..relations.replaced import ReplacedWeights
from ..relations.restored import Restored
from ..relations.saved import SavedStates
from ..relations.skips import SkippedSteps
from ..relations.stale import StaleGradients
from ..relations.undone import UndoneLoads
from ..report.course import Course, Summary, summarise
from ..report.dump import Dump
from ..report.failed_call import failed_call
from ..report.progress import Progress
from ..report.reporter import Reporter
from ..report.unseen import not_seen
from ..report.verdict import verdict
from ..shadow.listener import ShadowSteps
from ..steps.by_hand import ByHand
from ..steps.call_order import CallOrder
from ..steps.context import LoopContext, RunContext
from ..steps.late_steps import DeviceSteps
from ..steps.left import LeftSteps
from ..steps.life import Steps
from ..steps.listeners import StepListeners
from ..steps.modes import StepModes
from ..steps.optimizer_states import OptimizerStates
from ..steps.scalers import Scalers
from ..steps.state import RunState
from ..steps.step import OpenStep
from ..steps.thread import alone
from .calls import TorchCalls
from .options import Options, open_recorder
from .tracing import Tracing


class Session:
    """One run. Making one starts it, or raises and leaves nothing behind. `make_core` makes what
    records (_core.Recorder). Used by the thread that trains (steps/thread.py says which one that
    is), and by whatever thread ends the run.
    """

    PATIENCE = 5.0  # seconds that another thread may take for what it is doing with the run
    SHORT = 1.0  # of them after a signal

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any,
        scaler: Any,
        options: Options,
        console: Console,
        make_core: Callable[..., Any],
    ) -> None:
        self.model = model
        self.cell = current_cell()
        self.state = RunState()
        self._console = console
        self._record = Record(options.record)
        self._course = Course(options.warmup_steps)
        self._handle = ""
        self._ended = False  # and everything of it is written
        self._verdict = ""  # on it then
        self._failure_kept = False
        rank, world_size = rank_and_size()
        console.rank = rank if world_size > 1 else None
        self._ranks = world_size
        self.db = free_path(os.fspath(options.db), model, self.cell, rank, world_size)
        file = os.path.basename(self.db)
        console.name = options.name or f"{class_name(model)} ({file})"
        console.several = lambda: any(run is not self for run in ends.live_runs())
        self._core = open_recorder(make_core, self.db, self._record, options, rank, world_size)
        self.notes = Notes(
            console, self._record, self.state, self._core.set_notes, self._core.event
        )
        self.events = StepListeners(self.notes.trouble)
        try:
            self._make_parts(optimizer, scaler, options)
            self._start()
        except Exception as error:
            self._give_up(error)
            raise
        if rank == 0 and not console.quiet:
            self.reporter.progress = Progress(console, self._course)
        leaves = self._changes.leaves
        console.say_for_all(
            f"watching {class_name(model)}: {leaves} module{'' if leaves == 1 else 's'} and"
            f" {len(self._run.model.parameters.parameters)} parameters, recording into {self.run}"
        )

    def _make_parts(self, optimizer: Any, scaler: Any, options: Options) -> None:
        """In the order in which they need each other; events go to them in this order, too."""
        core, state, notes, events = self._core, self.state, self.notes, self.events
        console, kinds = self._console, options.kind_bits
        names = LayerNames(core, self._record)
        model = WatchedModel(self.model, options.selectors)
        run = self._run = RunContext(core, state, model, names, self._record, notes, events)
        # What is watched, and where it is read.
        self.optimizers = Optimizers(optimizer, self.follow_model)
        unmoved = Unmoved(names, watches(kinds, "weight"))
        self._device = DeviceSteps(core, model, notes, options.trace_interval, self._step_ended)
        # What hears of the training.
        call_order = CallOrder(state, model, self._record, core.event)
        self.mode_stack = ModeStack(leaving.leave)
        self.modes = StepModes(self.mode_stack)
        self.tracing = Tracing(
            run, console.say, self._device, self.mode_stack, self.modes, options.dense_steps
        )
        shadow = self.shadow = ShadowSteps(run, self.mode_stack, options.shadow)
        events.add(self._device, call_order, self.modes, self.tracing, shadow)
        replaced = ReplacedWeights(run, shadow.found)
        events.add(
            Restored(model, shadow.found),
            SavedStates(model, shadow.found),
            NarrowedStates(model, shadow.found),
            MatchedStates(model, shadow.found),
            RecastBuffers(model, shadow.found),
            KeptGradients(model, shadow.found),
            StandingAverages(model, shadow.found, self.mode_stack, shadow.home_of),
            SkippedSteps(shadow.found),
            StaleGradients(run, shadow.found),
            DroppedGradients(run, shadow.found),
            MixedScale(run, shadow.found),
            replaced,
            EmptySteps(run, shadow.found, replaced.has_said),
            UndoneLoads(model, shadow.found),
            MovedWeights(shadow.found, lambda: shadow.rounds_weights),
        )
        events.add(Mismatches(run))
        if self._ranks > 1:
            comparison = RankComparison(run)
            events.add(comparison, Collectives(run, comparison))
        if options.folder is not None:
            events.add(Dump(run, console, self.db, options.folder))
        self.reporter = Reporter(run, self._course, console, lambda: self.run, options.on_alert)
        # What makes steps of it.
        by_hand = ByHand(model, self.optimizers)
        self.scalers = Scalers(scaler)
        loop = LoopContext(self.optimizers, self.scalers, by_hand, LeftSteps(by_hand))
        self.steps = Steps(
            run,
            loop,
            unmoved,
            self._device,
            self.follow_model,
            self.reporter.step_ended,
            self._cannot_record,
        )
        gradients = watches(kinds, "activation_gradient")
        watch = options.compiled == "watch"
        graphs = self._watch_graphs(options.trace_interval) if watch else None
        self._hooks = ForwardHooks(run, self.steps, self._device, gradients, graphs)
        states = OptimizerStates(state, kinds, core.event, shadow.is_kept)
        self.calls = TorchCalls(run, loop, self.steps, states, self._hooks)
        self._changes = Changes(
            model, names, self.optimizers, unmoved, self._hooks.install, self._not_watched
        )

    def _watch_graphs(self, trace_interval: int) -> Graphs | None:
        why = unusable()
        if why:
            self.notes.note(f"compiled modules are not watched: {why}")
            return None
        graphs = Graphs(self._run, self._device, trace_interval)
        self.events.add(graphs)
        return graphs

    def _start(self) -> None:
        self.state.recording = True
        if self._core.note:
            self.notes.note(self._core.note)
        self._changes.follow()
        taps.add(self.calls)
        ends.add(self)
        self._handle = self.run
        self.events.watch_begins()

    def _give_up(self, error: Exception) -> None:
        """After a start that failed half-way: nothing of it stays behind."""
        self.state.recording = False
        with contextlib.suppress(Exception):
            self.stop_listening()
        with contextlib.suppress(Exception):
            self.notes.keep(f"the start failed: {self._record.error(error)}")
        with contextlib.suppress(Exception):
            self._core.close("exception")

    # --- what parts ask of the whole ---

    @alone
    def follow_model(self) -> None:
        """The model may have changed."""
        self._changes.follow()

    def _not_watched(self, why: str, names: list[str]) -> None:
        if names:
            self.notes.note(f"not watched, {why}: {some_of(map(self._record.layer, names))}")

    def _step_ended(self, step: OpenStep, alerts: list[AlertTuple]) -> None:
        self.steps.ended(step, alerts)

    def _cannot_record(self, why: str) -> None:
        self.state.recording = False
        self.stop_listening()
        # Nothing more will come: the run must not look like one that was killed later on.
        with contextlib.suppress(Exception):
            why = self._core.close("closed") or why
        self._console.warn(f"recording stopped, training goes on: {why}")

    # --- what users see ---

    @property
    def run(self) -> str:
        """The handle, `<path>#<run id>`; "" where nothing is recorded."""
        if not self.state.recording:
            return ""
        return f"{self._core.place[0]}#{self._core.run_id}"

    def summary(self) -> Summary:
        return summarise(self._course, self._handle, self.notes.texts, self._ask_verdict())

    def _ask_verdict(self) -> str:
        """On a run that has ended; "" while it goes on."""
        if self._ended and not self._verdict:
            self._verdict = verdict(self._handle)
        return self._verdict

    # --- the end ---

    def close(self, reason: str = "closed") -> None:
        """Ends the run: everything is written, every hook is gone. Again is harmless. A step that
        another thread is in the middle of is left out.
        """
        if not self.state.recording:
            return
        thread = self.state.thread
        inside = thread.enter(self.SHORT if reason == "signal" else self.PATIENCE)
        try:
            if self.state.recording:  # else another thread has ended it meanwhile
                self._end(reason)
        finally:
            if inside:
                thread.leave()

    def _end(self, reason: str) -> None:
        try:
            if self.state.thread.may_end():
                self.steps.finish_last()
            else:
                self.steps.give_up()
            self._device.deliver(wait=True)
            if reason == "exception":
                self._keep_failure(sys.exc_info()[1])
            for text in not_seen(self._run, self.optimizers):
                self.notes.note(text)
        except Exception as error:
            self.notes.trouble("close", error)
        self.state.recording = False
        self.stop_listening()
        _, published = self._core.place
        if published:
            self._handle = f"{published}#{self._core.run_id}"
        try:
            trouble = self._core.close(reason if reason != "closed" else self.state.end_reason)
        except Exception as error:
            trouble = str(error)
        self._course.ended = time.perf_counter()
        if trouble:
            self._console.warn(f"the end of the run could not be written: {trouble}")
            return
        self._ended = True
        if self._console.quiet or self._console.rank:
            return
        # A signal leaves a process little time.
        told = "" if reason == "signal" else self._ask_verdict()
        summary = summarise(self._course, self._handle, self.notes.texts, told)
        for line in summary.lines(notes=False):  # they have been said
            self._console.say(line)

    def stop_listening(self) -> None:
        """No hook and no event any more."""
        self.events.run_ends()
        taps.remove(self.calls)
        ends.remove(self)
        self._hooks.remove()

    # --- where the process ends (ends.py) ---

    def expect_end(self, reason: str, error: BaseException | None = None) -> None:
        """An exception or a signal is about to end the process."""
        self.state.end_reason = reason
        self.modes.off()
        if reason == "exception":
            self._keep_failure(error)

    @harmless
    def _keep_failure(self, error: BaseException | None) -> None:
        """What the call that failed was given. Once: the first is the reason."""
        if self._failure_kept or error is None or not isinstance(error, Exception):
            return
        self._failure_kept = True
        detail = json.dumps(failed_call(error, self._record))
        self._core.event(max(self.state.number, 0), "exception", detail)

    @harmless
    def event(self, kind: str, detail: str) -> None:
        """`detail`: JSON."""
        self._core.event(max(self.state.number, 0), kind, detail)

    @harmless
    def flush(self) -> None:
        """Everything that is known so far is written."""
        if self.state.thread.may_end():  # else its own thread does
            self._device.deliver()
        self._core.flush()

    def abandon(self) -> None:
        """In a forked child: inert, and without a trace of the parent's files."""
        self.state.recording = False
        self.events.forked()
        self._device.forget()
        self._hooks.remove()
        self._core.abandon()
