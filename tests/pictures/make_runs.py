"""Records the runs that the pictures are tried on, each a real training, into one folder.

Usage: make_runs.py FOLDER [slow]    slow: one training of 40 seconds, to look at while it runs
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time

import torch
from mpnanny import MixedPrecisionNanny
from torch import nn

ROOT = pathlib.Path(__file__).parents[2]
# Without dots, which torch allows in no name.
HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>"


def record(
    path: pathlib.Path,
    steps: int,
    name: str = "layer",
    run: str | None = None,
    nan: bool = False,
    pause: float = 0.0,
) -> None:
    """A training of one linear layer; with `nan` every loss is NaN. `pause`: seconds a step."""
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module(name, nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    options = {"db": str(path), "trace_interval": 1, "quiet": True}
    if run is not None:
        options["name"] = run
    with MixedPrecisionNanny(model, optimizer, **options) as nanny:
        for step in range(steps):
            with nanny.step(step) as s:
                loss = (model(torch.randn(16, 8)) - 1).square().mean()
                loss = loss * (float("nan") if nan else 1.0)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                s.log(loss=loss)
            time.sleep(pause)


def rank(folder: pathlib.Path) -> None:
    """One process of a distributed training."""
    import torch.distributed as dist

    number, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=number, world_size=size)
    torch.manual_seed(dist.get_rank())
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with MixedPrecisionNanny(
        model, optimizer, db=str(folder / "metrics.db"), trace_interval=2, quiet=True
    ) as nanny:
        for step in range(30):
            with nanny.step(step) as s:
                loss = model(torch.randn(16, 8)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                s.log(loss=loss)
    dist.destroy_process_group()


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    if sys.argv[2:] == ["rank"]:
        rank(folder / "distributed")
        return
    if sys.argv[2:] == ["slow"]:
        record(folder / "slow.db", 400, pause=0.1)
        return
    (folder / "distributed").mkdir(parents=True)
    # One thread each: threads of several trainings wait for each other on a small machine.
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    training = [sys.executable, ROOT / "scripts" / "demo_training.py"]
    bf16 = ["--precision", "bf16", "--steps", "30"]
    others = [
        subprocess.Popen([*training, "--steps", "95", "--db", folder / "broken.db"], env=alone),
        subprocess.Popen([*training, "--db", folder / "bf16.db", *bf16], env=alone),
    ]
    record(folder / "healthy.db", 60)
    record(folder / "empty.db", 0)
    record(folder / "one.db", 1)
    record(folder / "nan.db", 12, nan=True)
    record(folder / "hostile.db", 12, name=HOSTILE, run=HOSTILE)
    record(folder / "long.db", 12, name="层" * 600, run="长名字 " * 2500)
    for number in range(2):
        words = [sys.executable, __file__, folder, "rank"]
        place = {"RANK": str(number), "WORLD_SIZE": "2"}
        others.append(subprocess.Popen(words, env={**alone, **place}))
    for process in others:
        if process.wait(timeout=150) != 0:
            raise SystemExit("a training failed")
    print(json.dumps(sorted(path.name for path in folder.iterdir())))


if __name__ == "__main__":
    main()
