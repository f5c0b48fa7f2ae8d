"""The check of scripts/gpu that compiled="watch" sees into what torch.compile makes: one graph, as
unwatched, under CUDA graphs and checkpoints too; the figures of modules that are not compiled; what
it costs.
"""

from __future__ import annotations

import statistics
from typing import Any

import torch
from setup import FAIL, PASS, SKIPPED, Row, Rows, Setup, rows_of, some, verdict
from torch.utils.checkpoint import checkpoint
from trainings import Subject, Training

MODES: dict[str, dict[str, Any]] = {
    "inductor": {},
    "CUDA graphs": {"mode": "reduce-overhead"},
    "of dynamic shapes": {"dynamic": True},
}
APART = 0.05  # relative: of BF16 figures, where operators are fused and where they are not
SQL = (
    "SELECT l.name, s.kind, s.slot, s.l2, s.nan, s.posinf, s.neginf FROM tensor_stats s"
    " JOIN layer l USING (layer_id) WHERE s.step = 0 AND s.kind IN (0, 1, 2)"
)
Figures = dict[tuple[str, int, int], dict[str, Any]]


def compiled(setup: Setup) -> Rows:
    for name, subject in setup.subjects_to_compile().items():
        eager, _, _ = _figures(setup, subject, None, "off")
        for mode, how in MODES.items():
            yield _seen(setup, f"{name}, {mode}", subject, how, eager)
        yield _checkpointed(setup, name, subject)
        for mode, how in MODES.items():
            if setup.small and how:
                continue
            yield _cost(setup, f"{name}, {mode}, cost", subject, how)


def _compile(training: Training, how: dict[str, Any]) -> None:
    made: Any = torch.compile(training.model, fullgraph=True, **how)
    training.runs = made


def _figures(
    setup: Setup, subject: Subject, how: dict[str, Any] | None, watch: str
) -> tuple[Figures, int, list[str]]:
    """Of the first step; how many graphs, and the notes."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    training = setup.training(subject, "bf16")
    path = setup.database()
    nanny = setup.watch(training, db=path, shadow="off", trace_interval=3, compiled=watch)
    if how is not None:
        _compile(training, how)
    training.steps(7)
    graphs = int(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    nanny.close()
    found = {(each["name"], each["kind"], each["slot"]): each for each in rows_of(path, SQL)}
    return found, graphs, list(nanny.summary()["notes"])


def _seen(setup: Setup, what: str, subject: Subject, how: dict[str, Any], eager: Figures) -> Row:
    try:
        _, unwatched, _ = _figures(setup, subject, how, "off")
        found, graphs, notes = _figures(setup, subject, how, "watch")
    except Exception as error:
        first = str(error).partition("\n")[0]
        return Row(what, FAIL, f"training raised {type(error).__name__}: {first[:200]}")
    # An output that shares memory with an input has no gradient of its own: only modules without
    # parameters make such ones.
    held = {name.rpartition(".")[0] for name, _ in subject.make().named_parameters()}
    missing = [
        f"{name} {kind}"
        for name, kind, slot in eager
        if (name, kind, slot) not in found and (kind != 2 or name in held)
    ]
    apart = [
        name
        for (name, kind, slot), row in eager.items()
        if (other := found.get((name, kind, slot))) is not None
        and abs(other["l2"] - row["l2"]) > APART * max(abs(row["l2"]), 1e-6)
    ]
    told = f"{len(found)} figures of {len(eager)}, {graphs} graphs, {unwatched} unwatched"
    told += f"; missing: {some(missing)}" if missing else ""
    told += f"; other values: {some(apart)}" if apart else ""
    told += "" if not missing else f"; notes: {some(notes)}"
    return Row(what, verdict(not missing and not apart and graphs == unwatched), told)


def _checkpointed(setup: Setup, name: str, subject: Subject) -> Row:
    """Each block is computed again in the backward pass, which must not count twice."""
    torch._dynamo.reset()
    what = f"{name}, checkpoints"
    training = setup.training(subject, "bf16")
    children = [each for each in training.model.children() if isinstance(each, torch.nn.ModuleList)]
    blocks = [block for each in children for block in each]
    if not blocks:
        return Row(what, SKIPPED, "the model has no list of blocks")
    for block in blocks:
        forward = block.forward
        block.forward = lambda *args, _run=forward: checkpoint(_run, *args, use_reentrant=False)
    path = setup.database()
    with setup.watch(training, db=path, shadow="off", trace_interval=1, compiled="watch"):
        _compile(training, {})
        training.steps(2)
    twice = rows_of(path, f"{SQL} AND s.kind = 1 AND s.slot >= 256")
    seen = {each["name"] for each in rows_of(path, f"{SQL} AND s.kind = 1")}
    told = f"outputs of {len(seen)} modules, {len(twice)} counted again"
    return Row(what, verdict(bool(seen) and not twice), told)


def _cost(setup: Setup, what: str, subject: Subject, how: dict[str, Any]) -> Row:
    """Over the compiled training without a monitor, in turns: with one that leaves modules alone,
    with operators in the graph that leave at once, and where every step is sampled. On the CPU the
    processor's time.
    """
    rounds, block = (5, 3) if setup.small else (9, 20)
    torch._dynamo.reset()
    plain = setup.training(subject, "bf16")
    watched: dict[str, Training] = {}
    nannies = []
    for label, interval, watch in (
        ("watched from outside", 10**9, "off"),
        ("between samples", 10**9, "watch"),
        ("sampled", 1, "watch"),
    ):
        training = watched[label] = setup.training(subject, "bf16")
        nannies.append(setup.watch(training, shadow="off", trace_interval=interval, compiled=watch))
    for training in (plain, *watched.values()):
        _compile(training, how)
        training.steps(4)
    ratios: dict[str, list[float]] = {label: [] for label in watched}
    walls = []
    for at in range(rounds):
        order = [plain, *watched.values()]
        wall = {}
        for each in order if at % 2 else order[::-1]:
            marks = each.steps(block)
            wall[id(each)] = marks.processor if setup.small else marks.wall
        walls.append(wall[id(plain)] / block)
        for label, training in watched.items():
            ratios[label].append(wall[id(training)] / wall[id(plain)])
    for nanny in nannies:
        nanny.close()
    told = f"{1e3 * statistics.median(walls):.2f} ms a step; ratio "
    told += ", ".join(f"{statistics.median(each):.4f} {label}" for label, each in ratios.items())
    return Row(what, PASS, told)
