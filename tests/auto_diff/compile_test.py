"""Eager against compiled: what is planted is named with its stage, its line and what removes it;
what only rounds otherwise is clean.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

import compiled_programs as programs
import pytest
import torch
from mpnanny import auto_diff
from mpnanny.compiled.comparing import part
from mpnanny.compiled.noise import Noise
from mpnanny.diff import Problem, _compiled

HERE = os.path.dirname(os.path.abspath(__file__))
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


def inputs(rows: int = 16, columns: int = 32) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))


def place(answer: dict) -> tuple[str, int]:
    file, _, line = answer["first_bad"]["source"].rpartition(":")
    return os.path.basename(file), int(line)


# --- what counts as another result ---


def noisy_of(function, *given, count: int = 4) -> list[torch.Tensor]:
    made = []
    for seed in range(count):
        with Noise(seed):
            made.append(function(*given))
    return made


def test_an_order_of_a_sum_is_no_difference_and_one_element_is():
    x = inputs(64, 1000)
    plain = x.sum(-1)
    noisy = noisy_of(lambda each: each.sum(-1), x)
    assert part("y", "forward", plain, x.flip(-1).sum(-1), noisy) is None
    wrong = plain.clone()
    wrong[3] += 0.01
    found = part("y", "forward", plain, wrong, noisy)
    assert found is not None and found.share == 1 / 64 and found.what == "values"


def test_a_rounding_to_16_bits_is_no_difference_and_a_cast_is_none_of_noise():
    x = inputs().to(torch.bfloat16)
    noisy = noisy_of(lambda each: each.exp() * each, x)
    fused = (x.float().exp() * x.float()).to(torch.bfloat16)
    assert part("y", "forward", x.exp() * x, fused, noisy) is None
    y = inputs()
    noisy = noisy_of(lambda each: each - each.bfloat16().float(), y)
    found = part("y", "forward", y - y.bfloat16().float(), torch.zeros_like(y), noisy)
    assert found is not None and found.is_broken


def test_a_choice_that_a_rounding_changes_does_not_count():
    x = inputs() * 3
    near = torch.stack([x, x * (1 + 2**-24)])

    def choose(each):
        return (each * 1.1).argmax(0)

    noisy = noisy_of(choose, near, count=12)
    plain = choose(near)
    other = plain.clone()
    other[0, 0] = 1 - other[0, 0]
    assert part("y", "forward", plain, other, noisy) is None
    far = torch.stack([x, x + 1])
    noisy = noisy_of(choose, far, count=12)
    found = part("y", "forward", choose(far), 1 - choose(far), noisy)
    assert found is not None and found.what == "whole_numbers"


def test_what_is_not_finite_in_one_of_both_counts_but_at_the_edge():
    x = torch.tensor([1.0, 2.0])
    found = part("y", "forward", x, torch.tensor([1.0, float("inf")]), [x, x])
    assert found is not None and found.kind == "range" and found.is_broken
    edge = torch.tensor([1.0, float("inf")])
    assert part("y", "forward", x, edge, [x, edge]) is None


def test_another_dtype_counts():
    x = torch.ones(3)
    found = part("y", "forward", x, x.double(), [x])
    assert found is not None and found.what == "dtype"


# --- with the compiler ---


@needs_compiler
def test_what_is_right_is_clean_and_nothing_is_changed():
    torch.manual_seed(3)
    model = programs.Healthy()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    state = torch.get_rng_state()
    answer = auto_diff(model, inputs(8, 16), policy="compile", steps=2)
    assert answer["verdict"] == "clean", answer
    assert answer["compile"]["graphs"] == 1 and answer["compile"]["compared"] > 8
    assert len(answer["steps"]) == 2
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


@needs_compiler
def test_a_cast_that_fusion_leaves_out_is_named_and_what_brings_it_back():
    answer = auto_diff(programs.rounding_left_out, inputs(), policy="compile")
    assert answer["verdict"] == "broken"
    assert answer["compile"]["stage"] == "inductor"
    assert answer["compile"]["nearer"] == "compiled"  # the difference is 0 in FP64
    assert answer["first_bad"]["way"] == "fusion"
    file, line = place(answer)
    marked = programs.line_of("rounding_left_out")
    assert file == "compiled_programs.py" and line in (marked - 1, marked)
    switch = answer["compile"]["switch"]
    assert "emulate_precision_casts" in switch["what"]
    assert switch["error_before"] > 0.5 and switch["error_after"] < 1e-5


@contextlib.contextmanager
def decomposed(operator, wrongly):
    from torch._inductor.decomposition import decompositions

    known = decompositions.get(operator)
    decompositions[operator] = wrongly
    try:
        yield
    finally:
        if known is None:
            del decompositions[operator]
        else:
            decompositions[operator] = known


@needs_compiler
def test_a_wrong_decomposition_is_named_and_taken_out():
    def wrongly(x, approximate="none"):
        return x * 0.5 * (1 + torch.erf(x * 0.7071)) * 1.001

    with decomposed(torch.ops.aten.gelu.default, wrongly):
        answer = auto_diff(programs.gated, inputs(), policy="compile")
    assert answer["verdict"] == "degraded"
    assert answer["compile"]["stage"] == "decompositions"
    assert answer["compile"]["nearer"] == "eager"
    assert answer["first_bad"]["op"] == "aten.gelu.default"
    assert place(answer) == ("compiled_programs.py", programs.line_of("gated"))
    assert answer["compile"]["switch"]["error_after"] < 1e-5


@needs_compiler
def test_a_write_that_an_operator_does_not_declare_is_missing_when_compiled():
    answer = auto_diff(programs.writes_unsaid, inputs(), policy="compile", backward=False)
    assert answer["verdict"] == "broken" and answer["compile"]["nearer"] == "eager"
    assert place(answer)[1] == programs.line_of("writes_unsaid")


@needs_compiler
def test_what_one_of_both_has_lost_to_roundings_is_named_by_its_line():
    answer = auto_diff(programs.long_angles, inputs(), policy="compile", backward=False)
    assert answer["verdict"] == "broken" and answer["compile"]["nearer"] == "compiled"
    assert answer["first_bad"]["way"] == "rounding"
    assert place(answer)[1] == programs.line_of("long_angles")
    assert "emulate_precision_casts" in answer["compile"]["switch"]["what"]


IN_PIECES = "x.unflatten(-1, (4, -1)).sum(-1).exp()"
FOR_CUDA = 'x.cuda() * torch.ones(1, device="cuda")'


@pytest.mark.parametrize("result", [IN_PIECES, FOR_CUDA])
@needs_compiler
def test_what_stands_in_for_a_gpu_is_in_the_compilers_way_only_where_it_must_be(result, tmp_path):
    (tmp_path / "asked.py").write_text(f"import torch\n\n\ndef made(x):\n    return {result}\n")
    request = {"function": f"{tmp_path}/asked.py:made", "input": ["float32[4,16]~normal(0,1)"]}
    answer = _compiled({**request, "backward": False}, lambda done, what: None)
    assert answer["verdict"] == "clean"
    assert answer["compile"]["graphs"] == 1


@needs_compiler
def test_where_there_is_a_gpu_nothing_stands_in_for_it(tmp_path, monkeypatch):
    (tmp_path / "asked.py").write_text("def made(x):\n    raise ValueError('never')\n")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("mpnanny.diff.CudaOnCpu", lambda: pytest.fail("a stand-in was made"))
    request = {"function": f"{tmp_path}/asked.py:made", "input": ["float32[4]"]}
    with pytest.raises(Problem, match="as it is written already"):
        _compiled({**request, "backward": False}, lambda done, what: None)


@pytest.mark.slow
@needs_compiler
def test_16_bits_that_are_rounded_once_instead_of_thrice_are_clean():
    answer = auto_diff(programs.in_half, inputs(), policy="compile", backward=False)
    assert answer["verdict"] == "clean"


@pytest.mark.slow
@needs_compiler
def test_a_line_that_runs_only_when_it_is_compiled_is_named():
    answer = auto_diff(programs.otherwise_when_compiled, inputs(), policy="compile")
    assert answer["verdict"] == "degraded" and answer["compile"]["stage"] == "dynamo"
    assert answer["first_bad"]["way"] == "only_compiled"
    assert place(answer)[1] == programs.line_of("otherwise_when_compiled")


@contextlib.contextmanager
def lowered(packet, wrongly):
    from torch._inductor.lowering import lowerings

    known = {each: lowerings.get(each) for each in (packet, packet.default)}
    for each in known:
        lowerings[each] = wrongly
    try:
        yield
    finally:
        for each, before in known.items():
            if before is None:
                del lowerings[each]
            else:
                lowerings[each] = before


@pytest.mark.slow
@needs_compiler
def test_a_kernel_that_is_wrong_by_itself_is_named():
    from torch._inductor.lowering import lowerings

    tanh = lowerings[torch.ops.aten.tanh]
    with lowered(torch.ops.aten.erfinv, lambda x: tanh(x)):
        answer = auto_diff(programs.own_kernel, inputs(), policy="compile")
    assert answer["compile"]["stage"] == "inductor"
    assert answer["first_bad"]["way"] == "kernel"
    assert answer["first_bad"]["op"] == "aten.erfinv.default"
    assert place(answer)[1] == programs.line_of("own_kernel")
    assert "disable" in answer["compile"]["switch"]["what"]
    assert answer["compile"]["switch"]["error_after"] < 1e-5


@pytest.mark.slow
@needs_compiler
def test_what_stops_only_when_it_is_compiled_is_broken():
    def stops(x):
        raise NotImplementedError("not on Tuesdays")

    with lowered(torch.ops.aten.erfinv, stops):
        answer = auto_diff(programs.stops_when_compiled, inputs(), policy="compile")
    assert answer["verdict"] == "broken" and answer["first_bad"]["what"] == "raised"
    assert answer["compile"]["stage"] == "inductor"
    assert "aot_eager" in answer["compile"]["switch"]["what"]


@pytest.mark.slow
@needs_compiler
def test_where_dynamo_leaves_the_program_is_said():
    answer = auto_diff(programs.left_twice, inputs(), policy="compile")
    assert answer["verdict"] == "clean" and answer["compile"]["graphs"] == 2
    assert len(answer["compile"]["graph_breaks"]) == 1
    assert answer["compile"]["graph_breaks"][0]["source"].endswith(
        f"compiled_programs.py:{programs.line_of('left_twice')}"
    )


def test_what_does_not_run_as_it_is_written_is_a_problem():
    def stops(x):
        raise ValueError("never")

    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    with pytest.raises(Problem, match="as it is written already"):
        auto_diff(stops, inputs(), policy="compile")


def test_without_a_compiler_what_is_missing_is_said():
    import torch._inductor.config as config

    with (
        config.patch({"cpp.cxx": ("no-such-compiler",)}),
        pytest.raises(Problem, match="no-such-compiler is not in PATH") as refused,
    ):
        auto_diff(programs.gated, inputs(), policy="compile")
    assert refused.value.kind == "Unavailable" and "install" in refused.value.advice


@pytest.mark.slow
@needs_compiler
def test_a_setting_of_the_program_that_makes_the_difference_is_taken_back():
    import torch._inductor.config as config

    def swapped(graph):
        for node in graph.nodes:
            if node.target is torch.ops.aten.tanh.default:
                node.target = torch.ops.aten.sigmoid.default

    with config.patch(joint_custom_post_pass=swapped):
        answer = auto_diff(programs.gated, inputs(), policy="compile")
    assert answer["verdict"] == "broken" and answer["compile"]["stage"] == "decompositions"
    assert place(answer)[1] == programs.line_of("gated") - 1
    assert "joint_custom_post_pass = None" in answer["compile"]["switch"]["what"]
    assert answer["compile"]["switch"]["error_after"] < 1e-5


@pytest.mark.slow
@needs_compiler
def test_the_command_says_it_from_within_the_sandbox_and_leaves_nothing():
    program = os.path.join(HERE, "..", "..", "build", "release", "bin", "mpnanny")
    before = {each for each in os.listdir(tempfile.gettempdir()) if "mpnanny" in each}
    done = subprocess.run(
        [
            *(program, "diff", "--compile", "--python", sys.executable),
            *("--function", f"{HERE}/compiled_programs.py:rounding_left_out"),
            *("--input", "float32[16,32]"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 1, done.stderr
    assert "compiled beside as it is written: broken." in done.stdout
    assert "It comes in with Inductor's kernels." in done.stdout
    assert "Removed by torch._inductor.config.emulate_precision_casts = True" in done.stdout
    left = {each for each in os.listdir(tempfile.gettempdir()) if "mpnanny" in each} - before
    assert not {each for each in left if each.startswith("mpnanny-compile-")}
