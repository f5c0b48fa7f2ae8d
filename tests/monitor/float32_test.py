"""TF32 is off for a moment, and the program's own way of allowing it works as before."""

from __future__ import annotations

import pytest
import torch
from mpnanny.base.float32 import full_float32
from mpnanny.programs.policy import full_precision

MATMUL, CUDNN = torch.backends.cuda.matmul, torch.backends.cudnn
newer = pytest.mark.skipif(not hasattr(MATMUL, "fp32_precision"), reason="before torch 2.9")


@pytest.fixture(autouse=True)
def as_before():
    yield
    if hasattr(MATMUL, "fp32_precision"):
        MATMUL.fp32_precision, CUDNN.conv.fp32_precision = "none", "tf32"
    MATMUL.allow_tf32, CUDNN.allow_tf32 = False, True


@newer
@pytest.mark.parametrize("way", [full_float32, lambda: full_precision("cuda")])
def test_a_program_that_allows_it_the_newer_way(way):
    MATMUL.fp32_precision = "tf32"
    with way():
        assert (MATMUL.fp32_precision, CUDNN.conv.fp32_precision) == ("ieee", "ieee")
    assert (MATMUL.fp32_precision, CUDNN.conv.fp32_precision) == ("tf32", "tf32")


@pytest.mark.parametrize("allowed", [True, False])
def test_a_program_that_allows_it_the_older_way(allowed):
    MATMUL.allow_tf32 = CUDNN.allow_tf32 = allowed
    with full_float32():
        if hasattr(MATMUL, "fp32_precision"):
            assert (MATMUL.fp32_precision, CUDNN.conv.fp32_precision) == ("ieee", "ieee")
    assert (MATMUL.allow_tf32, CUDNN.allow_tf32) == (allowed, allowed)


def test_it_is_as_before_behind_an_error():
    MATMUL.allow_tf32 = True
    with pytest.raises(KeyError), full_float32():
        raise KeyError
    assert MATMUL.allow_tf32
