"""What an ERROR that only a shadow step has seen sets off."""

from __future__ import annotations

import torch
from finds import inputs
from mpnanny import MixedPrecisionNanny
from torch import nn


def test_an_error_of_a_shadow_step_is_followed_by_statistics_and_not_by_a_trace(db, database):
    """The finding has the operator and the line already."""
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    descent = torch.optim.SGD(model.parameters(), lr=1e-3)
    with MixedPrecisionNanny(
        model, db=db, shadow="steps=2-2", dense_steps=3, trace_interval=100, quiet=True
    ) as nanny:
        for step in range(8):
            with nanny.step(step):
                descent.zero_grad()
                output = model(inputs())
                (output.detach().half() * 60_000).sum().item()  # only looked at
                output.square().mean().backward()
                descent.step()
    found = database()
    alerts = found.rows("SELECT step, type, severity FROM alert")
    assert alerts == [{"step": 2, "type": "SHADOW_RANGE", "severity": "ERROR"}]
    dense = found.rows("SELECT step FROM step WHERE flags & 128")
    assert [each["step"] for each in dense] == [4, 5, 6]
    events = [each["type"] for each in found.rows("SELECT type FROM event")]
    assert "dense_on" in events and "operators_traced" not in events
