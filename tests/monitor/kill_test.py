"""Durability of a real training with DataLoader workers that is killed at random moments (SIGKILL).

MPNANNY_KILLS sets how often (default 3), MPNANNY_SEED the moments; both are printed. Each training
is a fork of a process that has torch loaded already; its workers are forks of it.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import mmap
import os
import random
import signal
import sqlite3
import struct
import sys
import threading
import time

import torch
from conftest import Mlp, cross_entropy, python
from durability_test import ring_samples, ring_steps

INTERVAL = 20
MAX_STEPS = 1 << 16
# Offsets in the shared memory; before them the number of steps.
TICKS, STOPPED, TIMES = 8, 16, 24
# docs/monitor_files.md promises that a kill costs at most the last second of the samples. It is
# measured on a clock of the training: how often a thread of it, which sleeps TICK each time, came
# to run. Where the machine is too busy to run the training, its clock stands, too.
TICK = 0.01  # seconds
REST = round(1 / TICK)  # ticks


class Examples(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 640

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((8,), index / 640), index % 3


def tick(shared: mmap.mmap) -> None:
    for ticks in itertools.count(1):
        time.sleep(TICK)
        struct.pack_into("<q", shared, TICKS, ticks)


def train(path: str, first: int, shared: mmap.mmap, persistent: bool) -> None:
    """Trains until it is killed; each step that has ended is told in shared memory."""
    from mpnanny import MixedPrecisionNanny

    threading.Thread(target=tick, args=(shared,), daemon=True).start()
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    nanny = MixedPrecisionNanny(model, db=path, quiet=True, trace_interval=INTERVAL, name="killed")
    loader = torch.utils.data.DataLoader(
        Examples(),
        batch_size=16,
        num_workers=2,
        multiprocessing_context="fork",
        persistent_workers=persistent,
    )
    batches = itertools.chain.from_iterable(loader for _ in itertools.count())
    for done, (x, y) in enumerate(batches):
        with nanny.step(first + done) as record:
            loss = cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
        if nanny.run:  # a full disk may have stopped it
            ticks = struct.unpack_from("<q", shared, TICKS)[0]
            struct.pack_into("<q", shared, TIMES + 8 * done, ticks)
            struct.pack_into("<q", shared, 0, done + 1)
        else:
            struct.pack_into("<q", shared, STOPPED, 1)


def kill_once(path: str, first: int, delay: float, persistent: bool) -> dict[str, int]:
    """One training, killed `delay` seconds after its first step (or start, if negative).

    The seconds are those of its own clock (ticks).
    """
    shared = mmap.mmap(-1, TIMES + 8 * MAX_STEPS)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        with contextlib.suppress(BaseException):
            train(path, first, shared, persistent)
        os._exit(3)
    if delay >= 0:
        while struct.unpack_from("<q", shared)[0] == 0:
            time.sleep(0.005)
        until = struct.unpack_from("<q", shared, TICKS)[0] + delay / TICK
        for _ in range(6000):  # at most: the training may have ended
            if struct.unpack_from("<q", shared, TICKS)[0] >= until:
                break
            time.sleep(TICK)
    else:
        time.sleep(-delay)
    (killed_at,) = struct.unpack_from("<q", shared, TICKS)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the training ended by itself"
    try:
        return examine(path, first, shared, killed_at)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # its loader workers


def examine(path: str, first: int, shared: mmap.mmap, killed_at: int) -> dict[str, int]:
    (steps,) = struct.unpack_from("<q", shared)
    ended = struct.unpack_from(f"<{steps}q", shared, TIMES)
    figures = {"steps": steps, "missing": 0, "ring_only": 0, "old": 0, "late": 0, "age": 0}
    figures["sound"] = 1
    if not os.path.exists(path) or (steps == 0 and os.path.getsize(path) == 0):
        return figures
    with contextlib.closing(sqlite3.connect(path)) as connection:
        integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
        figures["sound"] = int(integrity == "ok")
        if steps == 0:
            return figures
        run = connection.execute("SELECT max(run_id) FROM run").fetchone()[0]
        stored = {
            row[0] for row in connection.execute("SELECT step FROM step WHERE run_id = ?", (run,))
        }
        samples = set(
            connection.execute(
                "SELECT step, layer_id, kind, slot FROM tensor_stats WHERE run_id = ?", (run,)
            )
        )
    rows = collections.Counter(sample[0] for sample in samples | ring_samples(path))
    ring_run, closed, ring = ring_steps(path)
    assert ring_run == run
    # A recording that stopped by itself, as on a full disk, may have come to its end before.
    (stopped,) = struct.unpack_from("<q", shared, STOPPED)
    assert not closed or stopped
    expected = set(range(first, first + steps))
    figures["missing"] = len(expected - stored - set(ring))
    figures["ring_only"] = len(expected - stored)
    sampled = [i for i in range(steps) if i == 0 or (first + i) % INTERVAL == 0]
    whole = [i for i in sampled if rows[first + i] >= 10]
    old = [i for i in sampled if killed_at - ended[i] > REST]
    figures["old"], figures["late"] = len(old), len(set(old) - set(whole))
    figures["age"] = killed_at - ended[max(whole)] if whole else killed_at - ended[0]
    # Of the newest sample the training itself is as old as the last multiple of the interval.
    figures["due"] = killed_at - ended[max(sampled)]
    return figures


def kill_often(folder: str, kills: int, seed: int) -> dict[str, int]:
    generator = random.Random(seed)
    all_figures: list[dict[str, int]] = []
    path, first = "", 0
    for number in range(kills):
        if number % 8 == 0:
            path, first = os.path.join(folder, f"{number}.db"), 0
        early = generator.random() < 0.2 and number > 0
        delay = -generator.random() * 0.4 if early else generator.random() * 2.5
        delay = 2.5 if number == 0 else delay  # something old to look for, however few are killed
        figures = kill_once(path, first, delay, persistent=number % 2 == 0)
        first += figures["steps"]
        all_figures.append(figures)
    return {
        "kills": kills,
        "seed": seed,
        "before_a_step": sum(each["steps"] == 0 for each in all_figures),
        "integrity_ok": sum(each["sound"] for each in all_figures),
        "steps": sum(each["steps"] for each in all_figures),
        "missing": sum(each["missing"] for each in all_figures),
        "only_in_ring": sum(each["ring_only"] for each in all_figures),
        "older_samples": sum(each["old"] for each in all_figures),
        "older_samples_missing": sum(each["late"] for each in all_figures),
        "newest_sample_age": max(each["age"] for each in all_figures),  # ticks
        "newest_sample_behind": max(
            each["age"] - each.get("due", each["age"]) for each in all_figures
        ),
    }


def test_a_training_with_loader_workers_loses_no_step(tmp_path, capfd):
    kills = int(os.environ.get("MPNANNY_KILLS", "3"))
    seed = int(os.environ.get("MPNANNY_SEED", str(random.SystemRandom().getrandbits(31))))
    process = python(
        "import sys; from kill_test import main; main(*sys.argv[1:])",
        str(tmp_path),
        str(kills),
        str(seed),
    )
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    figures = json.loads(out)
    with capfd.disabled():
        print(f"\nkilled trainings: {figures}")
    assert figures["integrity_ok"] == kills
    assert figures["missing"] == 0
    assert figures["older_samples"] > 0
    assert figures["older_samples_missing"] == 0
    assert figures["steps"] > 10


def main(folder: str, kills: str, seed: str) -> None:
    torch.set_num_threads(1)
    json.dump(kill_often(folder, int(kills), int(seed)), sys.stdout)
