"""The checks of scripts/gpu that measure what watching costs: time beside other ways to watch,
shadow steps, launches, the host's time a module, memory.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import watchers
from setup import FAIL, PASS, SKIPPED, Row, Rows, Setup, rows_of, verdict
from trainings import Subject, Training
from turns import TURN, medians, pairs

IDLE = 10**9  # an interval after whose first step none is sampled
ARM_SECONDS = 8.0  # after which a way to watch has only the three rounds that it needs

Measure = Callable[[Setup, str, Subject, str], Row]


def _each(setup: Setup, measure: Measure, *, large: bool = True, precisions: int = 2) -> Rows:
    """A row for each training, in so many precisions; one that fails, as for a lack of memory,
    leaves the others.
    """
    for name, subject in setup.subjects(large=large).items():
        for precision in setup.precisions(name)[:precisions]:
            what = f"{name}, {precision}"
            try:
                yield measure(setup, what, subject, precision)
            except (RuntimeError, ValueError) as error:
                first = str(error).partition("\n")[0]
                yield Row(what, FAIL, f"{type(error).__name__}: {first[:200]}")
            setup.forget()


# --- time ---


def overhead(setup: Setup) -> Rows:
    """Each way to watch in turns with an unwatched copy, in blocks of steps."""
    yield from _each(setup, _overhead)


def _overhead(setup: Setup, what: str, subject: Subject, precision: str) -> Row:
    plain = setup.training(subject, precision)
    plain.steps(5)
    ratios, seconds = {}, []
    for way, watch in _ways(setup).items():
        ratios[way], step = _in_turns(setup, plain, subject, precision, watch)
        seconds.append(step)
    usual = (99 * ratios["between samples"] + ratios["sampled every step"]) / 100
    told = ", ".join(f"{way} {ratio:.4f}" for way, ratio in ratios.items())
    good = ratios["between samples"] <= 1.01 and usual <= 1.03
    return Row(
        what,
        PASS if setup.small else verdict(good),
        f"a step {1e3 * statistics.median(seconds):.2f} ms; ratio {told}",
        f"{ratios['between samples']:.4f} between samples, {usual:.4f} at 100",
    )


def _pass_the_beginning(plain: Training, watched: Training) -> None:
    """Two trainings of one process are, to the monitor, one with two optimizers, whose gradients it
    reads, and waits for, around the first 96 backward passes (relations/stale.py).
    """
    for _ in range(50):
        plain.steps(1)
        watched.steps(1)


def _ways(setup: Setup) -> dict[str, Callable[[Training], Callable[[], Any]]]:
    """How each begins; what it returns ends it."""

    def mpnanny_every(interval: int) -> Callable[[Training], Callable[[], Any]]:
        return lambda training: setup.watch(training, trace_interval=interval, shadow="off").close

    def others(watch: watchers.Watch) -> Callable[[Training], Callable[[], Any]]:
        return lambda training: watch(training.model, training.optimizer, setup.folder)

    return {
        "between samples": mpnanny_every(IDLE),
        "sampled every step": mpnanny_every(1),
        "hooks that keep figures on the device": others(watchers.device_hooks),
        watchers.HF_DEBUG: others(watchers.hf_debug),
    }


def _in_turns(
    setup: Setup,
    plain: Training,
    subject: Subject,
    precision: str,
    watch: Callable[[Training], Callable[[], Any]],
) -> tuple[float, float]:
    """The median ratio of a watched step to a plain one, and a plain step's seconds."""
    rounds, until = (2, 0.0) if setup.small else (7, time.monotonic() + ARM_SECONDS)
    once = plain.steps(3).wall / 3
    block = 2 if setup.small else max(3, min(20, round(0.2 / once)))
    watched = setup.training(subject, precision)
    close = watch(watched)
    _pass_the_beginning(plain, watched)
    made = []
    for at in range(rounds):
        if at >= 3 and time.monotonic() > until:
            break
        order = (plain, watched) if at % 2 == 0 else (watched, plain)
        wall = {id(each): each.steps(block).wall for each in order}
        made.append((wall[id(watched)] / wall[id(plain)], wall[id(plain)] / block))
    close()
    del watched
    setup.forget()
    return statistics.median(each for each, _ in made), statistics.median(s for _, s in made)


def shadow(setup: Setup) -> Rows:
    """A shadow step over a plain one, and what the first takes besides."""
    yield from _each(setup, _shadow)


def _shadow(setup: Setup, what: str, subject: Subject, precision: str) -> Row:
    plain, shadowed = (setup.training(subject, precision) for _ in range(2))
    with setup.watch(plain, shadow="off", trace_interval=IDLE):
        plain.steps(2 * TURN)
        path = setup.database()
        nanny = setup.watch(shadowed, shadow=f"every={TURN}", trace_interval=IDLE, db=path)
        first = max(shadowed.steps(1).wall for _ in range(TURN + 2))
        _pass_the_beginning(plain, shadowed)
        figures = medians(pairs(plain, shadowed, 2 if setup.small else 5))
        nanny.close()
    row = rows_of(
        path,
        "SELECT count(*) AS steps, max(operators) AS operators, max(compared) AS compared,"
        " max(restarted) AS restarted, max(memory) AS memory FROM shadow_step",
    )[0]
    ratio = figures["ratio"]
    more = max(0.0, first - ratio * figures["plain_ms"] / 1e3)
    told = f"ratio {ratio} ({figures['range'][0]} to {figures['range'][1]}), the first"
    told += f" {first:.2f} s; a plain step {figures['plain_ms']} ms;"
    told += f" forward {figures['forward']}, backward {figures['backward']},"
    told += f" optimizer {figures['optimizer']}; {row['operators']} operators,"
    told += f" {row['compared']} results compared, {row['restarted']} restarts,"
    told += f" {(row['memory'] or 0) >> 20} MB of references"
    good = bool(row["compared"]) and (setup.small or (ratio <= 8 and more <= 2))
    return Row(what, verdict(good), told, f"{ratio} plain steps, the first {more:.1f} s more")


# --- launches ---


def _modules(training: Training) -> int:
    """All of them, those that only hold others too."""
    return sum(1 for _ in training.model.modules())


def launches(setup: Setup) -> Rows:
    """Kernels of a watched step that is not sampled, beside those of the unwatched one."""
    yield from _each(setup, _launches, large=False)


def _launches(setup: Setup, what: str, subject: Subject, precision: str) -> Row:
    plain, watched = (setup.training(subject, precision) for _ in range(2))
    nanny = setup.watch(watched, trace_interval=IDLE, shadow="off")
    _pass_the_beginning(plain, watched)
    counts = [_launched(setup, each) for each in (plain, watched)]
    nanny.close()
    modules = _modules(plain)
    more, most = counts[1] - counts[0], 4 + modules / 64
    short = f"{more:+g} of at most {most:.1f}"
    told = f"{counts[0]:g} unwatched, {counts[1]:g} watched, {modules} modules"
    if setup.small:
        return Row(what, SKIPPED, f"operators of torch: {told}", short)
    return Row(what, verdict(more <= most), told, short)


def _launched(setup: Setup, training: Training) -> float:
    """Kernels a step; on the CPU, where there are none, torch's operators."""
    from torch.profiler import DeviceType, ProfilerActivity, profile

    steps = 1 if setup.small else 4
    training.steps(6)
    kind = ProfilerActivity.CPU if setup.small else ProfilerActivity.CUDA
    with profile(activities=[kind]) as profiled:
        training.steps(steps)
    events = profiled.events() or []
    if setup.small:
        return sum(each.name.startswith("aten::") for each in events) / steps
    on_device = [each for each in events if each.device_type == DeviceType.CUDA]
    return sum(not each.name.startswith(("Memcpy", "Memset")) for each in on_device) / steps


# --- the host ---


def host(setup: Setup) -> Rows:
    """The time that watching adds to a step, over its modules, with a batch so small that a step
    takes what the host takes; the device is waited for outside of what is measured.
    """
    for name, subject in setup.tiny().items():
        plain = setup.training(subject, "bf16")
        modules = _modules(plain)
        plain.steps(10)
        found = {}
        for way, interval in (("between samples", IDLE), ("sampled", 1)):
            watched = setup.training(subject, "bf16")
            nanny = setup.watch(watched, trace_interval=interval, shadow="off")
            _pass_the_beginning(plain, watched)
            more = []
            for at in range(3 if setup.small else 15):
                order = (plain, watched) if at % 2 == 0 else (watched, plain)
                spent = {id(each): _issued(setup, each) for each in order}
                more.append(spent[id(watched)] - spent[id(plain)])
            nanny.close()
            found[way] = 1e6 * statistics.median(more) / modules
        short = ", ".join(f"{each:.1f} us {way}" for way, each in found.items())
        good = found["between samples"] <= 3 and found["sampled"] <= 15
        told = f"{modules} modules; a module and step: {short}"
        if setup.small:
            yield Row(name, SKIPPED, f"on the CPU the figures are made there, too; {told}", short)
        else:
            yield Row(name, verdict(good), told, short)


def _issued(setup: Setup, training: Training, steps: int = 4) -> float:
    """Seconds until a step was launched: its hooks run in this thread and in autograd's."""
    setup.wait()
    training.wait, wait = (lambda: None), training.wait
    began = time.perf_counter()
    for _ in range(steps):
        training.step()
    spent = time.perf_counter() - began
    training.wait = wait
    setup.wait()
    return spent / steps


# --- memory ---


def memory(setup: Setup) -> Rows:
    """The most bytes that torch had allocated on the device."""
    yield from _each(setup, _memory, precisions=1)


def _memory(setup: Setup, what: str, subject: Subject, precision: str) -> Row:
    peaks: dict[str, int] = {}
    references = 0
    for mode in ("unwatched", "off", "every=3"):
        gc.collect()
        before = torch.cuda.memory_allocated() if setup.device == "cuda" else 0
        training = setup.training(subject, precision)
        path = setup.database()
        nanny = setup.watch(training, db=path, shadow=mode) if mode != "unwatched" else None
        if setup.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        training.steps(5)
        if setup.device == "cuda":
            peaks[mode] = torch.cuda.max_memory_allocated() - before
        if nanny is not None:
            nanny.close()
            found = rows_of(path, "SELECT max(memory) AS most FROM shadow_step")[0]["most"]
            references = max(references, found or 0)
        del training, nanny
    told = [f"{mode} {peak / 2**20:.0f} MB" for mode, peak in peaks.items()]
    figures = ", ".join([*told, f"references {references / 2**20:.0f} MB"])
    if setup.device != "cuda":
        return Row(what, SKIPPED, f"only a device counts its memory; {figures}")
    watching = peaks["off"] <= 1.05 * peaks["unwatched"] + (64 << 20)
    short = f"{peaks['off'] / peaks['unwatched'] - 1:+.1%}"
    return Row(what, verdict(watching and references > 0), figures, short)
