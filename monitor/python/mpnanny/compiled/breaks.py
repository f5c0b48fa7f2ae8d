"""Where Dynamo leaves the program: the lines at which a graph ends, and why."""

from __future__ import annotations

from typing import Any

import torch

from ..operators.places import is_users
from ..programs.program import SEED, Program

_MOST = 8


def graph_breaks(program: Program) -> list[dict[str, str]]:
    """Source (file:line) and reason of each. Runs the forward pass once."""
    attempt = program.attempt(None)
    torch.manual_seed(SEED)
    try:
        said: Any = torch._dynamo.explain(attempt.run)(*attempt.args, **attempt.kwargs)
    except Exception:
        return []
    made = []
    for each in said.break_reasons:
        lines = [f for f in reversed(list(each.user_stack)) if is_users(f.filename)]
        reason = str(each.reason).strip().splitlines()
        made.append(
            {
                "source": f"{lines[0].filename}:{lines[0].lineno}" if lines else "",
                "reason": (reason[0] if reason else "")[:200],
            }
        )
    return made[:_MOST]
