"""The severity of a finding follows from what torch does: each label is a run of the program.

`consequences/labels.json` says of each program in `consequences/programs` what torch does to it.
"""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).parent / "consequences"))

import rating

NAMES = sorted(rating.LABELS)


def test_every_program_has_a_label_and_marks_that_agree():
    files = {each.stem for each in (rating.HERE / "programs").glob("*.py")}
    assert files == set(NAMES)
    for name in NAMES:
        wanted = rating.SEVERITY[rating.LABELS[name]["does"]]
        assert set(rating.marks(name).values()) == ({wanted} if wanted else set()), name


@pytest.mark.parametrize("name", NAMES)
def test_torch_does_what_the_label_says(name):
    torch = pytest.importorskip("torch")
    import torch_runs  # noqa: PLC0415

    torch.set_num_threads(1)
    label = rating.LABELS[name]
    text = torch_runs.source(name)
    run = torch_runs.with_cuda_lists if label.get("run") == "cuda lists" else torch_runs.on_cpu
    if label["does"] == "raises":
        with pytest.raises(Exception) as caught:  # noqa: PT011
            run(text)
        assert type(caught.value).__name__ == label["error"]
        assert label["says"] in str(caught.value)
    elif run is torch_runs.with_cuda_lists:
        run(text)
    else:
        right = torch_runs.source(label.get("right", name))
        off = torch_runs.off(text, torch_runs.in_fp32(right))
        # How far the result is from that of the right program in FP32, as a share of it.
        assert {
            "fine": off < 0.05,
            "loses accuracy": off > 0.1,
            "trains wrong": off > 0.5,
        }[label["does"]], off


@pytest.mark.parametrize("name", NAMES)
def test_the_checker_tells_it_as_loudly(name):
    told = rating.findings([name])[name]
    assert rating.verdict(name, told) == "right", told
