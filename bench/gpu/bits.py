"""The checks of scripts/gpu that a watched training is the unwatched one, bit for bit: as it is,
with shadow steps, and with a compiled model.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from setup import FAIL, PRECISIONS, SKIPPED, Row, Rows, Setup, rows_of, some, verdict
from trainings import Subject, Training

# --- bits ---


def state(training: Training) -> dict[str, torch.Tensor]:
    """Everything that training has changed."""
    found = {f"loss {n}": loss for n, loss in enumerate(training.losses)}
    found |= {f"model {name}": value for name, value in training.model.state_dict().items()}
    for n, each in enumerate(training.optimizer.state.values()):
        found |= {f"optimizer {n} {k}": v for k, v in each.items() if isinstance(v, torch.Tensor)}
    if training.scaler.is_enabled():
        found["scale"] = torch.tensor(training.scaler.get_scale())
    found["random numbers"] = torch.get_rng_state()
    if training.device == "cuda":
        found["random numbers of the device"] = torch.cuda.get_rng_state()
    return {name: value.detach().cpu().clone() for name, value in found.items()}


def different(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> list[str]:
    def bits(value: torch.Tensor) -> torch.Tensor:
        return value.contiguous().reshape(-1).view(torch.uint8)

    names = [*mine, *(name for name in theirs if name not in mine)]
    return [
        name
        for name in names
        if name not in mine
        or name not in theirs
        or mine[name].shape != theirs[name].shape
        or not torch.equal(bits(mine[name]), bits(theirs[name]))
    ]


def train_bits(
    setup: Setup,
    subject: Subject,
    precision: str,
    steps: int,
    compiled: str = "",
    late: bool = True,
    **watch: Any,
) -> tuple[dict[str, torch.Tensor], list[str], str]:
    """The state after so many steps, the notes, and the database's path; unwatched without
    options. `late`: compiled once it is watched, not before.
    """
    # A scale that is too high at first: some steps are skipped.
    scaler = {"init_scale": 2.0**24, "backoff_factor": 2.0**-6, "growth_interval": 8}
    training = setup.training(subject, precision, scaler=scaler)
    training.keep_losses = True

    def compiles() -> None:
        if compiled:
            made: Any = torch.compile(training.model, backend=compiled)
            training.runs = made

    if compiled:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
    if not late:
        compiles()
    path = setup.database()
    nanny = setup.watch(training, db=path, **watch) if watch else None
    if late:
        compiles()
    try:
        training.steps(steps)
        made = state(training)
    finally:
        if nanny is not None:
            nanny.close()
    notes = [] if nanny is None else list(nanny.summary()["notes"])
    return made, notes, path


def deterministic() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.enable_mem_efficient_sdp(False)  # its backward pass adds in any order
    warnings.filterwarnings("ignore", message=".*deterministic.*")


def bits(setup: Setup) -> Rows:
    deterministic()
    steps = 6 if setup.small else 24
    for name, subject in setup.subjects().items():
        for precision in PRECISIONS:
            what = f"{name}, {precision}"
            plain, _, _ = train_bits(setup, subject, precision, steps)
            again, _, _ = train_bits(setup, subject, precision, steps)
            own = different(plain, again)
            if own:
                yield Row(what, SKIPPED, f"unwatched runs differ from each other: {some(own)}")
                continue
            made, notes, path = train_bits(
                setup, subject, precision, steps, shadow="every=4", trace_interval=5
            )
            wrong = different(plain, made)
            shadowed = rows_of(path, "SELECT count(*) AS n FROM shadow_step")[0]["n"]
            figures = f"{steps} steps, {shadowed} shadowed, {len(plain)} tensors"
            figures += f"; differ: {some(wrong)}" if wrong else ", all the same bits"
            figures += "" if shadowed else f"; notes: {some(notes)}"
            yield Row(what, verdict(not wrong and shadowed > 0), figures)


# --- torch.compile ---


def compiling(setup: Setup) -> Rows:
    """Compiled before it is watched, and after. A number of graphs that differs would mean that the
    compiler has seen the monitor. What may break the thread's state for torch comes last.
    """
    deterministic()
    steps = 6 if setup.small else 12
    backend = "aot_eager" if setup.small else "inductor"
    usable: dict[str, tuple[dict[str, torch.Tensor], int]] = {}
    subjects = setup.subjects_to_compile()
    for name, subject in subjects.items():
        plain, _, _ = train_bits(setup, subject, "bf16", steps, compiled=backend)
        again, _, _ = train_bits(setup, subject, "bf16", steps, compiled=backend)
        own = different(plain, again)
        if own:
            text = f"unwatched runs differ from each other: {some(own)}"
            yield Row(f"{name}, {backend}", SKIPPED, text)
        else:
            usable[name] = plain, count_graphs()
    for mode, late in (("off", False), ("off", True), ("auto", False), ("auto", True)):
        for name, (plain, graphs) in usable.items():
            what = f"{name}, {backend}, watched {'before' if late else 'after'}, shadow={mode}"
            try:
                made, notes, _ = train_bits(
                    setup,
                    subjects[name],
                    "bf16",
                    steps,
                    compiled=backend,
                    late=late,
                    shadow=mode,
                    trace_interval=5,
                )
            except Exception as error:
                first = str(error).partition("\n")[0]
                text = f"training raised {type(error).__name__}: {first[:200]}"
                yield Row(what, FAIL, f"{text}; what follows is left out")
                return
            yield _compiled(what, different(plain, made), notes, graphs)


def count_graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def _compiled(what: str, wrong: list[str], notes: list[str], graphs: int) -> Row:
    said = [note for note in notes if "torch.compile" in note]
    figures = f"differ: {some(wrong)}" if wrong else "all the same bits"
    figures += f", {count_graphs()} graphs, {graphs} unwatched"
    figures += f"; note: {said[0]}" if said else "; no note of torch.compile"
    return Row(what, verdict(not wrong and bool(said) and count_graphs() == graphs), figures)
