"""record="minimal": the file keeps no name of the user's code, and the same names in every run."""

from __future__ import annotations

import json
import pathlib

import pytest
import torch
from conftest import cross_entropy
from mpnanny import MixedPrecisionNanny
from torch import nn

SECRETS = ("ConfidentialBlock", "secret_gate", "proprietary", "record_test", "top-secret-run")


class ConfidentialBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.secret_gate = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(self.secret_gate(x) - 100.0)  # NaN: an alert names the layer


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proprietary = nn.ModuleList([ConfidentialBlock(), nn.Linear(8, 3)])
        self.never_run_proprietary = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.proprietary:
            x = part(x)
        return x


def train(db: str, **options) -> list[str | None]:
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    layers: list[str | None] = []
    nanny = MixedPrecisionNanny(
        model,
        db=db,
        quiet=True,
        name="top-secret-run",
        on_alert=lambda alert: layers.append(alert.layer),
        **options,
    )
    nanny._session.notes.trouble("somewhere", ValueError("about proprietary.0.secret_gate"))
    for step in range(3):
        with nanny.step(step) as record:
            loss = cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 3, (4,)))
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return layers


def test_minimal_keeps_names_host_and_script_out_of_the_file(db, database):
    layers = train(db, record="minimal")
    assert "proprietary.0" in layers  # the program itself is told the real name
    everything = b"".join(path.read_bytes() for path in pathlib.Path(db).parent.iterdir())
    for secret in SECRETS:
        assert secret.encode() not in everything, secret
    environment = json.loads(database().one("SELECT environment FROM run")["environment"])
    assert "torch" in environment and not {"host", "script"} & set(environment)
    names = {row["name"] for row in database().rows("SELECT name FROM layer")}
    assert any(name.split(".")[1:2] == ["0"] for name in names), names
    assert "Linear" in {row["type"] for row in database().rows("SELECT type FROM layer")}
    source = database().alerts(type="NAN", producer=1)[0]["source"]
    assert source.rpartition(":")[2].isdigit()
    assert "hook_failed" in {row["type"] for row in database().rows("SELECT type FROM event")}
    notes = json.loads(database().one("SELECT notes FROM run")["notes"])
    assert any("never ran" in note for note in notes)


def test_full_has_them(db, database):
    train(db)
    everything = pathlib.Path(db).read_bytes()
    for secret in SECRETS:
        assert secret.encode() in everything, secret


def test_a_layer_has_the_same_hash_in_every_run(db, database):
    train(db, record="minimal")
    train(db, record="minimal")
    runs = [
        [row["name"] for row in database().rows("SELECT name FROM layer WHERE run_id = ?", run)]
        for run in (1, 2)
    ]
    assert runs[0] == runs[1] and len(set(runs[0])) == len(runs[0]) > 5


@pytest.mark.parametrize("wrong", [{"record": "some"}, {"max_db_mb": 0}])
def test_wrong_options_raise(db, wrong):
    with pytest.raises(ValueError):
        MixedPrecisionNanny(nn.Linear(2, 2), db=db, **wrong)
