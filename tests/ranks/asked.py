"""Runs of several ranks in files and in a team's database, and the same question asked of both."""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess
import time
from typing import Any

from conftest import PROGRAM, Team
from recording import Recording

ROOT_NAME = "metrics.rank0.db"
BAD_RANK = 2
BAD_STEP = 120


def add_steps(recording: Recording, rank: int, steps: int, started: float) -> None:
    for step in range(steps):
        bad = step > BAD_STEP or (step == BAD_STEP and rank == BAD_RANK)
        recording.insert(
            "step",
            run_id=recording.run,
            step=step,
            at=started + step,
            duration=0.1 + rank * 0.001,
            loss=None if bad else 2 / (1 + step * 0.01) + rank * 0.01,
            lr=1e-3,
            loss_scale=65536.0 if step < 150 else 32768.0,
            grad_norm=None if bad else 1 + rank * 0.1,
            peak_memory=1_000_000 + rank,
            flags=(1 | 4 | 8 if bad else 0) | (16 if step == 150 else 0) | 64 * (step % 10 == 0),
        )
        if step % 10 == 0:
            add_sample(recording, rank, step, bad)


def add_sample(recording: Recording, rank: int, step: int, bad: bool) -> None:
    apart = 100 if rank == BAD_RANK and step >= 60 else 0
    for layer in range(1, 5):
        for kind in (1, 3):
            recording.insert(
                "tensor_stats",
                run_id=recording.run,
                step=step,
                layer_id=layer,
                kind=kind,
                slot=0,
                dtype=1,
                numel=1000,
                nan=500 if bad else 0,
                posinf=0,
                neginf=0,
                zeros=3,
                min=-1.0 * layer,
                max=2.0 * layer,
                absmax=2.0 * layer + rank * 0.01 + apart,
                absmin=1e-6,
                mean=0.1,
                std=1.0,
                rms=1.0,
                l2=31.0,
                below_fp16=3,
                subnormal_fp16=5,
                above_fp16=0,
                exponents=bytes([5] * 256) if step % 50 == 0 else None,
            )


def add_alerts(recording: Recording, rank: int) -> None:
    run = recording.run
    for step in (BAD_STEP, BAD_STEP + 1):
        if step == BAD_STEP and rank != BAD_RANK:
            continue
        recording.insert(
            "alert",
            run_id=run,
            step=step,
            phase="forward",
            layer_id=2,
            kind=1,
            type="NAN",
            severity="ERROR",
            value=500.0,
            producer=1 if step == BAD_STEP else 0,
            repeats=1 + rank,
            last_step=step + 10,
            message=f"500 NaN on rank {rank}",
        )
        recording.insert(
            "alert",
            run_id=run,
            step=step,
            phase="loss",
            type="LOSS_NAN",
            severity="ERROR",
            message="NaN",
        )
    for _ in range(2 if rank < 2 else 1):  # twice on two of the ranks
        recording.insert(
            "alert",
            run_id=run,
            step=60,
            phase="backward",
            layer_id=3,
            kind=3,
            type="GRAD_VANISH",
            severity="WARNING",
            value=1e-9,
            threshold=1e-8,
            message="vanishes",
        )


def add_shadow(recording: Recording, rank: int) -> None:
    run = recording.run
    for step in (20, 90):
        recording.insert(
            "shadow_step",
            run_id=run,
            step=step,
            why="schedule",
            seconds=1 + rank * 0.1,
            plain_seconds=0.2,
            operators=50,
            compared=40,
            detail='{"mode":"history"}',
        )
        for layer in range(1, 5):
            recording.insert(
                "shadow_profile",
                run_id=run,
                step=step,
                layer_id=layer,
                phase=0,
                dtype=1,
                operators=5,
                error=1e-3 * layer,
                amplification=2.0,
                absmax=3.0,
                rms=1.0,
                fp16=1e-4,
                bf16=1e-3,
            )
    recording.insert(
        "shadow_finding",
        finding_id=7,
        run_id=run,
        step=90,
        last_step=90,
        kind="amplified",
        severity="WARNING",
        phase="forward",
        layer_id=2,
        operator="aten.sub.Tensor",
        source="/home/" + "x" * 300 + "/model.py:40",
        dtype="float16",
        share=0.5,
        magnitude=3.0,
        error_in=1e-4,
        error_out=0.5 + rank * 0.01,
        precision="proven",
        detail="{}",
    )
    recording.insert(
        "alert",
        run_id=run,
        step=90,
        phase="forward",
        layer_id=2,
        type="SHADOW_AMPLIFIED",
        severity="WARNING",
        message="amplified",
        detail='{"finding":7,"operator":"aten.sub.Tensor","source":"model.py:40"}',
    )


def record(folder: pathlib.Path, world: int, name: str = "train.py", steps: int = 200) -> None:
    """A run whose rank 2 is bad first and stands apart from step 60 on; the last rank is another
    stage of the model."""
    started = time.time() - 3600
    for rank in range(world):
        recording = Recording(
            folder / f"metrics.rank{rank}.db", name=name, rank=rank, world=world, started=started
        )
        block = "blocks.1" if world > 1 and rank == world - 1 else "blocks.0"
        for place, layer in enumerate(["model", f"{block}.attn", f"{block}.mlp", "head"]):
            recording.insert(
                "layer", run_id=recording.run, name=layer, type="Linear", position=place, numel=9
            )
        recording.db.execute(
            "INSERT OR REPLACE INTO meaning VALUES ('tensor_stats.dtype', '1', 'float16')"
        )
        recording.db.execute("BEGIN")
        add_steps(recording, rank, steps, started)
        recording.db.execute("COMMIT")
        add_alerts(recording, rank)
        add_shadow(recording, rank)
        recording.event(None)
        recording.event(5)
        recording.close()


def call(
    tool: str, arguments: dict[str, Any], *roots: object, code: int | None = 0, limit: float = 60
) -> dict[str, Any]:
    """structuredContent, or the error; `code` None: either."""
    words = [PROGRAM, "call", tool, "--args", json.dumps(arguments)]
    for root in roots:
        words += ["--root", str(root)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=False)
    assert done.returncode in ((0, 2) if code is None else (code,)), done.stdout + done.stderr
    return json.loads(done.stdout if done.returncode == 0 else done.stderr)


def handle(team: Team, training: int = 1, user: str = "owner") -> str:
    """As answers show it."""
    return f"postgresql://{user}@/{team.database}?host={team.server.folder}#{training}"


def nearly(a: object, b: object, where: str = "") -> list[str]:
    """What differs between two answers by more than the order of a sum."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted(set(a) | set(b))
        return [d for k in keys for d in nearly(a.get(k), b.get(k), f"{where}/{k}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [
            d
            for i, (x, y) in enumerate(zip(a, b, strict=True))
            for d in nearly(x, y, f"{where}/{i}")
        ]
    if isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-9):
        return []
    return [] if a == b else [f"{where}: {a!r} and {b!r}"]


def differences(
    team: Team, folder: pathlib.Path, tool: str, arguments: dict[str, Any], path: str = "run"
) -> list[str]:
    """What the files' answer and the database's do not have in common, apart from their names."""
    url = handle(team)
    here = call(tool, {path: str(folder), **arguments}, folder)
    there = call(tool, {path: url, **arguments}, team.url())
    names = [url, team.url(), f"{folder / ROOT_NAME}#1", str(folder)]

    def named(value: object) -> object:
        if isinstance(value, dict):
            return {k: named(v) for k, v in value.items()}
        if isinstance(value, list):
            return [named(v) for v in value]
        if isinstance(value, str):
            for name in names:
                value = value.replace(name, "RUN")
        return value

    return nearly(named(here), named(there))


class Client:
    """A client of the server over stdio, as little as a test needs."""

    def __init__(self, *roots: object) -> None:
        words = [PROGRAM, "serve"]
        for root in roots:
            words += ["--root", str(root)]
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ},
        )
        self.next = 0
        self.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "test", "version": "1"},
        )

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.next += 1
        message = {"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.next:
                return answer

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(timeout=20)
