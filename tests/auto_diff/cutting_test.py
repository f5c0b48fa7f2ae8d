"""The shortest stretch that parts when it alone is compiled: it is the line that was planted, in
the backward pass and of what is written too, and a stretch that is compiled right changes nothing.
"""

from __future__ import annotations

import os
import shutil

import compiled_programs as programs
import pytest
import torch
from mpnanny import auto_diff
from mpnanny.compiled.cutting import Cut, regions_as_before
from mpnanny.compiled.noise import Noise
from mpnanny.compiled.outcome import parted, run
from mpnanny.compiled.search import Budget
from mpnanny.compiled.settings import compiling
from mpnanny.compiled.stretch import nearest
from mpnanny.programs.program import Options, Program
from mpnanny.programs.specification import make_inputs
from mpnanny.programs.target import Target

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


def inputs(rows: int = 16, columns: int = 32) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))


def is_cut_at(answer: dict, name: str) -> bool:
    first = answer["first_bad"]
    file, _, line = first["source"].rpartition(":")
    assert os.path.basename(file) == "compiled_programs.py"
    assert first["way"] == "cut" and first["fusion"]
    return int(line) == programs.line_of(name)


def test_the_last_point_is_found_from_both_sides_and_what_cannot_be_tried_is_passed_over():
    asked = []

    def parts_from_7(at):
        asked.append(at)
        return None if at in (5, 8, 10) else at >= 7

    assert nearest(parts_from_7, 20, 0, Budget(60)) == 7
    assert len(asked) == len(set(asked)) < 10
    assert nearest(lambda at: at <= 7, 0, 20, Budget(60)) == 7
    assert nearest(lambda at: None, 20, 0, Budget(60)) == 20
    assert nearest(lambda at: True, 20, 0, Budget(-1)) == 20


def test_what_stops_in_a_region_leaves_it():
    from torch.amp.autocast_mode import _enter_autocast

    before = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    with pytest.raises(ValueError, match="within"), regions_as_before():
        _enter_autocast("cpu", torch.float16, True, None)
        _enter_autocast("cpu", torch.bfloat16, True, None)
        torch.set_grad_enabled(False)
        raise ValueError("within")
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    assert torch.autocast_increment_nesting() == before
    torch.autocast_decrement_nesting()


@needs_compiler
def test_a_derivative_that_is_traced_otherwise_is_named():
    answer = auto_diff(programs.derived_otherwise, inputs(), policy="compile")
    assert answer["verdict"] == "degraded" and answer["compile"]["stage"] == "autograd"
    assert answer["compile"]["graphs"] == 2
    assert answer["first_bad"]["value"] == "gradient of input 0"
    assert answer["first_bad"]["phase"] == "backward"
    assert is_cut_at(answer, "derived_otherwise")
    assert answer["first_bad"]["fusion"] == ["mpnanny_tests.squash"]


@needs_compiler
def test_a_pass_that_changes_only_the_backward_pass_is_named():
    import torch._inductor.config as config

    def swapped(graph):
        for node in graph.nodes:
            if node.target is torch.ops.aten.cos.default:
                node.target = torch.ops.aten.sigmoid.default

    with config.patch(joint_custom_post_pass=swapped):
        answer = auto_diff(programs.bent, inputs(), policy="compile")
    assert answer["compile"]["stage"] == "decompositions"
    assert answer["first_bad"]["phase"] == "backward"
    assert is_cut_at(answer, "bent")
    assert "joint_custom_post_pass = None" in answer["compile"]["switch"]["what"]


@needs_compiler
def test_a_derivative_under_autocast_that_the_program_left_is_named():
    torch.manual_seed(3)
    answer = auto_diff(programs.LeavesAutocast(), inputs(), policy="compile")
    if answer["verdict"] == "clean":
        pytest.skip("this torch derives it as it is written")
    assert answer["first_bad"]["phase"] == "backward"
    assert is_cut_at(answer, "LeavesAutocast")


@needs_compiler
def test_rows_that_are_shifted_in_one_buffer_are_named_where_they_are_written():
    answer = auto_diff(programs.Shifted(), inputs(), policy="compile")
    if answer["verdict"] == "clean":
        pytest.skip("this torch shifts them as it is written")
    assert answer["first_bad"]["value"] == "rows afterwards"
    assert is_cut_at(answer, "Shifted")
    assert "torch.compiler.disable around" in answer["compile"]["switch"]["what"]


@needs_compiler
def test_a_stretch_that_is_compiled_right_changes_nothing():
    torch.manual_seed(3)
    model = programs.Regions()
    program = Program(
        Target("regions", lambda: model, ""), make_inputs(["float32[4,8]"], 1), Options()
    )
    eager = run(program)
    noisy = [run(program, noise=Noise(at)) for at in range(4)]

    def compiled(cut):
        with compiling():
            return run(program, wrap=lambda target: torch.compile(target, backend=cut))

    whole = Cut("autograd")
    made = compiled(whole)
    assert made.raised is None and not parted(eager, made, noisy)
    assert len(whole.points) > 40
    ran = 0
    for at in range(0, len(whole.points) - 1, 3):
        for end in (at + 1, min(at + 9, len(whole.points) - 1)):
            made = compiled(Cut("autograd", whole.points[at], whole.points[end]))
            ran += made.raised is None
            if made.raised is None:
                assert not parted(eager, made, noisy), (at, end)
    assert ran > 20
