"""Trains the models of library_models.py, watched and not, and reads what shadow steps said:
python library_training.py [NAME…] [--steps N] [--shadow MODE] [--seconds S] [--report FILE].

A row of the report is one model in one precision: steps, whether the watched trainings came to the
same bits, findings above INFO, restarts of references.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import pathlib
import sqlite3
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

import torch
from library_models import MODELS
from library_parts import Training
from torch import Tensor

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
STEPS = 300
FAST = 0.03  # seconds of a step with which all of STEPS are trained
TROUBLES = {"hook_failed", "shadow_findings_left_out", "alerts_left_out", "samples_dropped"}
COLUMNS = "kind, severity, phase, operator, source, dtype, shape, error_in, error_out, precision"


class Unwatched:
    """In the place of a nanny."""

    def step(self, _number: int) -> Any:
        return contextlib.nullcontext()

    def close(self) -> None:
        pass


@dataclass
class Trained:
    """What a training came to."""

    losses: list[float] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    error: str = ""


@dataclass
class Said:
    """What the database of a watched training has of its shadow steps."""

    findings: list[dict[str, Any]]  # above INFO
    quiet: int  # INFO
    troubles: list[str]
    restarts: dict[str, int]
    shadows: int
    alerts: list[str]


def one_step(training: Training, scaler: Any, autocast: Any) -> Tensor:
    if training.step is not None:
        return training.step(scaler, autocast)
    for optimizer in training.optimizers:
        optimizer.zero_grad()
    for _ in range(training.accumulate):
        with autocast():
            loss = training.loss()
        scaler.scale(loss / training.accumulate).backward()
    for optimizer in training.optimizers:
        if training.clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(training.model.parameters(), training.clip)
        scaler.step(optimizer)
    scaler.update()
    return loss


def train(
    name: str, precision: str, steps: int, db: pathlib.Path | None = None, shadow: str = "off",
    seconds: float = 1e9,
) -> Trained:  # fmt: skip
    """`seconds`: after which an unwatched training that is slow stops."""
    trained = Trained()
    torch.manual_seed(3)
    training = MODELS[name]()
    training.model.train()
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16", growth_interval=100)
    nanny: Any = Unwatched()
    if db is not None:
        from mpnanny import MixedPrecisionNanny

        nanny = MixedPrecisionNanny(training.model, db=db, quiet=True, shadow=shadow)

    def autocast() -> Any:
        return torch.autocast("cpu", DTYPES[precision])

    try:
        for step in range(steps):
            began = time.perf_counter()
            with nanny.step(step) if training.blocks else contextlib.nullcontext():
                loss = one_step(training, scaler, autocast)
            trained.losses.append(loss.item())
            training.after()
            if training.scheduler is not None:
                training.scheduler.step()
            trained.seconds.append(time.perf_counter() - began)
            if sum(trained.seconds) > seconds and median(trained.seconds) > FAST:
                break
    except Exception:
        trained.error = traceback.format_exc()
    nanny.close()
    keep(trained, training, scaler)
    return trained


def keep(trained: Trained, training: Training, scaler: Any) -> None:
    """All that a training has at its end."""
    for where, module in {"model": training.model, **training.others}.items():
        for name, tensor in module.state_dict().items():
            trained.tensors[f"{where} {name}"] = tensor
    for number, optimizer in enumerate(training.optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            for name, value in state.items():
                if value is not None:
                    key = f"optimizer {number} {index} {name}"
                    trained.tensors[key] = torch.as_tensor(value)
    trained.tensors["scale"] = torch.tensor(scaler.get_scale())
    trained.tensors["random"] = torch.get_rng_state()


def bits(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def differences(mine: Trained, plain: Trained) -> list[str]:
    """What is not the same bits; nothing, if all is well."""
    out = []
    for step, (one, other) in enumerate(zip(mine.losses, plain.losses, strict=False)):
        if one.hex() != other.hex():
            out.append(f"loss of step {step}")
            break
    if len(mine.losses) != len(plain.losses) or mine.error != plain.error:
        out.append(f"{len(mine.losses)} of {len(plain.losses)} steps: {mine.error}")
    if mine.tensors.keys() != plain.tensors.keys():
        out.append("other tensors")
    for name, tensor in mine.tensors.items():
        other = plain.tensors.get(name)
        if other is not None and (
            tensor.dtype != other.dtype or not torch.equal(bits(tensor), bits(other))
        ):
            out.append(name)
    return out


def said(db: pathlib.Path) -> Said:
    connection = sqlite3.connect(db)
    connection.row_factory = sqlite3.Row

    def rows(sql: str) -> list[dict[str, Any]]:
        return [dict(row) for row in connection.execute(sql)]

    findings = rows(
        f"SELECT step, repeats, {COLUMNS}, share, magnitude, reach, cure, detail,"
        " (SELECT name FROM layer l WHERE l.layer_id = f.layer_id) AS layer"
        " FROM shadow_finding f ORDER BY finding_id"
    )
    restarts: collections.Counter[str] = collections.Counter()
    steps = rows("SELECT step, why, detail FROM shadow_step")
    for row in steps:
        restarts.update(json.loads(row["detail"] or "{}").get("restarts", {}))
    loud = [row for row in findings if row["severity"] != "INFO"]
    return Said(
        findings=loud,
        quiet=len(findings) - len(loud),
        troubles=[
            f"step {row['step']}: {row['type']} {row['detail']}"
            for row in rows("SELECT step, type, detail FROM event")
            if row["type"] in TROUBLES
        ]
        + [row["notes"] for row in rows("SELECT notes FROM run") if "failed" in str(row["notes"])],
        restarts=dict(restarts),
        shadows=len(steps),
        alerts=[
            f"{row['type']} {row['severity']} × {row['n']}, step {row['first']}"
            for row in rows(
                "SELECT type, severity, count(*) AS n, min(step) AS first FROM alert"
                " GROUP BY type, severity"
            )
        ],
    )


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def compare(name: str, precision: str, steps: int, seconds: float, modes: list[str]) -> dict:
    """A row of the report."""
    plain = train(name, precision, steps, seconds=seconds)
    row: dict[str, Any] = {
        "model": name,
        "precision": precision,
        "steps": len(plain.losses),
        "ms": round(1e3 * median(plain.seconds), 1),
        "first_loss": plain.losses[0] if plain.losses else None,
        "last_loss": plain.losses[-1] if plain.losses else None,
        "error": plain.error,
        "watched": {},
    }
    for mode in modes if not plain.error else []:
        with tempfile.TemporaryDirectory() as folder:
            db = pathlib.Path(folder) / "metrics.db"
            watched = train(name, precision, len(plain.losses), db, mode)
            row["watched"][mode] = {
                "differences": differences(watched, plain),
                "seconds": round(sum(watched.seconds), 1),
                "plain_seconds": round(sum(plain.seconds), 1),
                **vars(said(db)),
            }
    return row


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--shadow", action="append", help="auto and every=20 by default")
    parser.add_argument("--seconds", type=float, default=40.0, help="for a slow model")
    parser.add_argument("--precision", action="append", choices=DTYPES)
    parser.add_argument("--report", type=pathlib.Path, help="a JSON object a line, appended")
    asked = parser.parse_args(arguments)
    wrong = 0
    for name in asked.names:
        for precision in asked.precision or DTYPES:
            modes = asked.shadow or ["auto", "every=20"]
            row = compare(name, precision, asked.steps, asked.seconds, modes)
            print(f"{name} {precision}: {row['steps']} steps of {row['ms']} ms,", end=" ")
            print(f"loss {row['first_loss']} to {row['last_loss']}; {row['error']}")
            for mode, seen in row["watched"].items():
                wrong += bool(seen["differences"] or seen["findings"] or seen["troubles"])
                print(f"  {mode}: {seen['shadows']} shadow steps, {seen['quiet']} INFO", end=", ")
                print(f"{seen['seconds']} s, plain {seen['plain_seconds']} s")
                for what in ("differences", "findings", "troubles", "restarts", "alerts"):
                    if seen[what]:
                        print(f"    {what}: {seen[what]}")
            sys.stdout.flush()
            if asked.report is not None:
                with asked.report.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
