"""Each rule that can be an error has a program on its page that torch refuses or trains wrong.

The pages of `engines/check/rules` that are errors hold two whole programs (`def main():`, with a
seed): the one among *Bad* raises, or its weights go elsewhere by more than half of the way that the
right one takes; the one among *Good* does neither. `rules_test` holds the same blocks against the
checker.
"""

from __future__ import annotations

import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).parent
RULES = HERE.parents[1] / "engines" / "check" / "rules"
sys.path.append(str(HERE / "consequences"))

ERRORS = [page for page in sorted(RULES.glob("*.md")) if "\nseverity: error\n" in page.read_text()]
REFUSED_BY_CUDA = "bce-under-autocast"  # the CPU's autocast takes it


def program(page: pathlib.Path, section: str) -> str:
    text = page.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    whole = [block for block in blocks if "\ndef main(" in block and "manual_seed" in block]
    assert len(whole) == 1, f"{page.name}: {section} needs one whole program with a seed"
    return whole[0]


@pytest.mark.parametrize("page", ERRORS, ids=lambda page: page.stem)
def test_torch_refuses_what_is_bad_or_trains_it_wrong_and_not_what_is_good(page):
    torch = pytest.importorskip("torch")
    import torch_runs  # noqa: PLC0415

    torch.set_num_threads(1)
    bad, good = program(page, "Bad"), program(page, "Good")
    if page.stem == REFUSED_BY_CUDA:
        torch_runs.with_cuda_lists(good)
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            torch_runs.with_cuda_lists(bad)
        return
    assert torch_runs.off(good, torch_runs.in_fp32(good)) < 0.05
    try:
        torch_runs.on_cpu(bad)
    except (AssertionError, RuntimeError, TypeError, ValueError):
        return
    assert torch_runs.off(bad, torch_runs.in_fp32(good)) > 0.5
