"""Trainings of more than one process, and one that a compiler has been at."""

from __future__ import annotations

import pathlib

import pytest
import torch
from conftest import Database, Mlp, batch, cross_entropy, forked
from durability_test import Loaded
from mpnanny import watch_model
from torch import nn

DISTRIBUTED = """
    import os, sys, torch
    from torch import distributed, nn
    from conftest import Mlp, batch, cross_entropy
    from mpnanny import watch_model
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank,
                                   world_size=2)
    def train(watch):
        torch.manual_seed(0)
        model = nn.parallel.DistributedDataParallel(Mlp())
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        nanny = watch(model)
        torch.manual_seed(rank)
        losses = []
        for step in range(8):
            optimizer.zero_grad()
            loss = cross_entropy(model(batch()[0]), batch()[1])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if nanny:
            nanny.close()
        return losses + [p.sum().item() for p in model.parameters()]
    plain = train(lambda model: None)
    watched = train(lambda m: watch_model(m, db=sys.argv[1], trace_interval=1, quiet=True))
    distributed.destroy_process_group()
    print(plain == watched)
"""


def test_each_rank_has_a_database_and_sees_the_averaged_gradients(db, tmp_path):
    ranks = [
        forked(
            DISTRIBUTED,
            db,
            str(tmp_path / "store"),
            launcher=["env", f"RANK={rank}", "WORLD_SIZE=2"],
        )
        for rank in range(2)
    ]
    for process in ranks:
        out, errors = process.communicate(timeout=100)
        assert (process.returncode, out) == (0, "True\n"), errors
    databases = [Database(pathlib.Path(tmp_path / f"metrics.rank{r}.db")) for r in range(2)]
    assert not pathlib.Path(db).exists()
    rows = [d.rows("SELECT step, loss, grad_norm FROM step ORDER BY step") for d in databases]
    assert [row["step"] for row in rows[0]] == list(range(8))
    assert [row["grad_norm"] for row in rows[0]] == [row["grad_norm"] for row in rows[1]]
    assert [row["loss"] for row in rows[0]] != [row["loss"] for row in rows[1]]
    for rank, database in enumerate(databases):
        run = database.one("SELECT rank, world_size, end_reason, notes FROM run")
        assert (run["rank"], run["world_size"], run["end_reason"]) == (rank, 2, "closed")
        assert run["notes"] in (None, "[]")


def test_workers_of_a_fork_server_get_an_inert_copy(db, database):
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    nanny = watch_model(model, db=db, quiet=True)
    for x, y in torch.utils.data.DataLoader(
        Loaded(nanny), batch_size=16, num_workers=1, multiprocessing_context="forkserver"
    ):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    nanny.close()
    rows = database().rows("SELECT step, loss FROM step ORDER BY step")
    assert [row["step"] for row in rows] == [0, 1, 2] and all(row["loss"] for row in rows)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_inductor_model_trains_the_same_and_is_heard(db, database):
    """Its modules are not seen from inside, its losses and gradients are."""

    def train(watched: bool) -> list[float]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        nanny = watch_model(model, db=db, quiet=True, trace_interval=1) if watched else None
        compiled = torch.compile(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = cross_entropy(compiled(batch()[0]), batch()[1])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if nanny:
            nanny.close()
        return losses

    assert train(False) == train(True)
    rows = database().rows("SELECT loss, grad_norm FROM step")
    assert len(rows) == 4 and all(row["loss"] > 0 and row["grad_norm"] > 0 for row in rows)
    notes = database().one("SELECT notes FROM run")["notes"]
    assert notes.count("torch.compile") == 1
