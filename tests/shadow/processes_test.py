"""Shadow steps in trainings of several processes: what comes from the others is no error."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import subprocess

import pytest
from forked_python import forked_python

TRAINING = """
import os, sys, torch
from torch import distributed, nn
from mpnanny import MixedPrecisionNanny
torch.set_num_threads(1)
rank, how = int(os.environ["RANK"]), sys.argv[3]
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank,
                               world_size=2)
torch.manual_seed(rank)  # each rank has data of its own
model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1))
if how != "all_reduce":
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=how == "views")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
with MixedPrecisionNanny(model, optimizer, db=sys.argv[1], trace_interval=2, quiet=True) as nanny:
    for step in range(12):
        with nanny.step(step) as s:
            loss = model(torch.randn(16, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            if how == "all_reduce":
                for parameter in model.parameters():
                    distributed.all_reduce(parameter.grad)
                    parameter.grad /= 2
            optimizer.step()
            s.log(loss=loss)
distributed.destroy_process_group()
"""


@pytest.mark.parametrize("how", ["copies", "views", "all_reduce"])
def test_gradients_of_other_processes_are_no_error(tmp_path: pathlib.Path, how: str) -> None:
    words = [*forked_python(), "-c", TRAINING, str(tmp_path / "run.db")]
    words += [str(tmp_path / "store"), how]
    ranks = [
        subprocess.Popen(words, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"})
        for rank in range(2)
    ]
    assert [rank.wait(timeout=90) for rank in ranks] == [0, 0]
    for path in tmp_path.glob("run*.db"):
        with sqlite3.connect(path) as db:
            found = db.execute(
                "SELECT type, message FROM alert WHERE severity != 'INFO'"
            ).fetchall()
            steps = db.execute("SELECT count(*) FROM shadow_step").fetchone()[0]
        assert steps > 0, "no shadow step was made"
        assert found == []
    assert len(list(tmp_path.glob("run*.db"))) == 2
