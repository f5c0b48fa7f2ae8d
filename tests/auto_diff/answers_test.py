"""What the answer says where no operator of the target is at fault in the usual way."""

from __future__ import annotations

import torch
from mpnanny.diff import auto_diff, diff_request


def test_inputs_that_the_dtype_cannot_hold_are_not_clean():
    answer = auto_diff(
        lambda a, b: a + b, (torch.full((8,), 7e4), torch.ones(8)), torch.float16, "pure"
    )
    assert answer["verdict"] == "broken"
    first = answer["first_bad"]
    assert (first["what"], first["module"], first["share"]) == ("input", "input 0", 1.0)
    assert first["magnitude"] == 70000.0
    assert answer["output"][0]["nonfinite"] == 8


def test_whole_numbers_that_stay_in_a_float_are_looked_at():
    def index(x: torch.Tensor) -> torch.Tensor:
        levels = (x.sigmoid() * 7).round()
        return (levels * torch.tensor([1, 8, 64, 512]).to(x.dtype)).sum(-1)

    answer = auto_diff(index, torch.randn(400, 4), torch.bfloat16, "pure")
    assert answer["verdict"] == "degraded"
    assert answer["first_bad"]["what"] in ("whole_numbers", "integers")
    half = torch.randn(400, 60).bfloat16()
    clean = auto_diff(lambda x: (x > 0).float().sum(-1), half, torch.bfloat16)
    assert clean["verdict"] == "clean"


def test_a_function_of_a_file_that_cannot_be_imported_runs_without_what_fails(tmp_path):
    file = tmp_path / "losses.py"
    file.write_text(
        "import torch\nfrom a_package_that_nobody_has import thing\n\n"
        "def ratio(x):\n    return torch.exp(x) / torch.exp(x).sum(-1, True)\n\n"
        "def other(x):\n    return thing(x)\n"
    )
    words = {"input": ["float32[4,8]~constant(12)"], "dtype": "fp16", "policy": "pure"}
    answer = diff_request({"function": f"{file}:ratio", **words})
    assert answer["verdict"] == "broken" and answer["first_bad"]["source"].endswith(":5")
    answer = diff_request({"finding": f"{file}:8", "dtype": "fp16", "policy": "pure"})
    missing = answer["proof"]["missing"][0]
    assert "a_package_that_nobody_has" in missing and "line 2 fails" in missing


def test_the_root_is_named_first_and_beside_it_where_it_shows():
    def far(x: torch.Tensor) -> torch.Tensor:
        close = (x * x).sum(-1)
        return torch.acos(close.clamp(max=1))

    x = torch.nn.functional.normalize(torch.randn(64, 3), dim=-1) * 0.9995
    x = x.bfloat16().float()  # exact in both
    answer = auto_diff(far, x, torch.bfloat16, "pure", backward=False)
    assert answer["verdict"] == "degraded"
    first = answer["first_bad"]
    line = far.__code__.co_firstlineno
    assert first["source"].endswith(f":{line + 1}")
    assert first["shows_at"]["source"].endswith(f":{line + 2}")
    assert first["shows_at"]["op"] == "aten.acos"


def test_a_cure_has_no_line_that_it_does_not_need():
    def ratio(x: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
        above = x * 3 - x
        below = size + 1e-8
        return above / below

    answer = auto_diff(
        ratio, (torch.zeros(16), torch.zeros(16)), torch.float16, "pure", backward=False
    )
    line = ratio.__code__.co_firstlineno
    assert answer["verdict"] == "broken"
    assert answer["first_bad"]["source"].endswith(f":{line + 2}")
    lines = [int(each.rpartition(":")[2]) - line for each in answer["cure"]["lines"]]
    assert lines == [2, 3]
