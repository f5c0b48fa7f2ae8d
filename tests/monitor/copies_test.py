"""A watched model can be copied, saved and scripted as before, and a copy is another model."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys

import pytest
import torch
from conftest import Mlp, batch
from mpnanny import watch_model
from torch import nn


def _saved(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize(
    "make",
    [
        copy.deepcopy,
        lambda model: pickle.loads(pickle.dumps(model)),
        _saved,
        torch.optim.swa_utils.AveragedModel,
        lambda model: copy.deepcopy(_saved(copy.deepcopy(model))),
    ],
    ids=["deepcopy", "pickle", "save", "average", "copy of a copy"],
)
def test_a_copy_works_and_records_nothing(make, db, database):
    model = Mlp()
    nanny = watch_model(model, db=db, quiet=True)
    copied = make(model)
    x, _ = batch()
    loss = copied(x).sum()
    loss.backward()
    torch.optim.SGD(copied.parameters(), lr=1e-3).step()
    copied(x * float("nan"))
    assert torch.isfinite(loss)
    nanny.close()
    assert database().rows("SELECT * FROM step") == []
    assert database().alerts() == []


def test_a_copy_compiles_into_one_graph(db):
    model = nn.Linear(8, 3)
    nanny = watch_model(model, db=db, quiet=True)
    compiled = torch.compile(copy.deepcopy(model), backend="eager", fullgraph=True)
    x, _ = batch()
    assert torch.equal(compiled(x), model(x))
    nanny.close()


def test_a_saved_model_loads_without_mpnanny(db, tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    nanny = watch_model(model, db=db, quiet=True)
    torch.save(model, tmp_path / "model.pt")
    nanny.close()
    script = (
        "import sys, torch; sys.modules['mpnanny'] = None;"
        "print(torch.load(sys.argv[1], weights_only=False)(torch.ones(1, 2)).shape[1])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "model.pt")], capture_output=True, text=True
    )
    assert loaded.stdout.strip() == "2", loaded.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_watched_model_is_scripted_and_stays_watched(db, database):
    model = nn.Sequential(nn.Linear(8, 3), nn.ReLU())
    nanny = watch_model(model, db=db, quiet=True)
    scripted = torch.jit.script(model)
    x, _ = batch()
    assert torch.equal(scripted(x), model(x))
    model(x).sum().backward()
    torch.optim.SGD(model.parameters(), lr=1e-3).step()
    nanny.close()
    assert database().one("SELECT count(*) AS n FROM step")["n"] == 1
    assert not model[0]._forward_hooks


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_class_is_scripted_with_the_names_of_its_own_module(db):
    nanny = watch_model(nn.Linear(2, 2), db=db, quiet=True)
    import scripted_names

    assert float(scripted_names.Doubler(torch.ones(1)).value) == 2
    nanny.close()


def test_no_hook_stays_on_a_parameter_that_a_module_hands_out(db):
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.values = nn.Parameter(torch.ones(8, 3))

        def forward(self) -> torch.Tensor:
            return self.values

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = Table()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.table()

    model = Model()
    nanny = watch_model(model, db=db, quiet=True, trace_interval=1)
    model(batch()[0]).sum().backward()
    torch.optim.SGD(model.parameters(), lr=1e-3).step()
    nanny.close()
    assert not model.table.values._backward_hooks
