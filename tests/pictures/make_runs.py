"""Records the runs that the pictures are tried on, each a real training, into one folder.

Usage: make_runs.py FOLDER
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import torch
from mpnanny import MixedPrecisionNanny
from torch import nn

ROOT = pathlib.Path(__file__).parents[2]
# Without dots, which torch allows in no name.
HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>"


def record(
    path: pathlib.Path, steps: int, name: str = "layer", run: str | None = None, nan: bool = False
) -> None:
    """A training of one linear layer; with `nan` every loss is NaN."""
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
    if len(sys.argv) > 2:
        rank(folder / "distributed")
        return
    (folder / "distributed").mkdir(parents=True)
    training = ROOT / "scripts" / "demo_training.py"
    others = [
        subprocess.Popen([sys.executable, training, "--db", folder / "broken.db"]),
        subprocess.Popen(
            [sys.executable, training, "--db", folder / "bf16.db", "--precision", "bf16",
             "--steps", "60"],
        ),
    ]  # fmt: skip
    record(folder / "healthy.db", 60)
    record(folder / "empty.db", 0)
    record(folder / "one.db", 1)
    record(folder / "nan.db", 12, nan=True)
    record(folder / "hostile.db", 12, name=HOSTILE, run=HOSTILE)
    record(folder / "long.db", 12, name="层" * 600, run="长名字 " * 2500)
    for number in range(2):
        environment = {"RANK": str(number), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
        words = [sys.executable, __file__, folder, "rank"]
        others.append(subprocess.Popen(words, env={**os.environ, **environment}))
    for process in others:
        if process.wait(timeout=150) != 0:
            raise SystemExit("a training failed")
    print(json.dumps(sorted(path.name for path in folder.iterdir())))


if __name__ == "__main__":
    main()
