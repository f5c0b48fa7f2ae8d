"""The functions of tried/ are made callable and given inputs with which they run, as their labels
say what they need; how many run whole is in tried/README.md (tries.py).
"""

from __future__ import annotations

import pytest
import tries
from mpnanny.diff import Problem
from mpnanny.diff.around import calls, locate
from mpnanny.diff.inputs_by_trial import inputs_for
from mpnanny.programs.target import find_target

NOT_RUN = {"ctc"}  # sizes that depend on one another's values


@pytest.mark.parametrize("name", [each for each in tries.LABELS if each not in NOT_RUN])
def test_inputs_are_found(name):
    request = tries.request_of(name)
    if "function" in request:
        target = find_target(request)
        made = inputs_for(target, request["root"])
        target.make()(**{each.name: each.value for each in made})
        return
    file = str(tries.FOLDER / tries.LABELS[name]["file"])
    located = locate(file, tries.line_of(name), request["root"])
    assert next(calls(located, 0, 60.0), None) is not None, located.missing


def test_three_quarters_run():
    assert len(NOT_RUN) <= len(tries.LABELS) / 4


def test_inputs_that_nothing_fits_are_said_with_the_line(tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text(
        "import torch\n\n\ndef always(x):\n    y = x.exp()\n    return y.no_such_thing()\n"
    )
    with pytest.raises(Problem, match=r"no_such_thing.*\(line 6\)"):
        inputs_for(find_target({"function": f"{file}:always", "root": str(tmp_path)}), "")
