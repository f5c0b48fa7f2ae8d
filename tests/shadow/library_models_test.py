"""Healthy models of public libraries: shadow steps change no bit of their training and find nothing
to warn of. Takes long (--slow); a model whose library is not installed is skipped:
pip install torchvision timm transformers diffusers.
"""

from __future__ import annotations

import pytest
from library_models import MODELS
from library_training import DTYPES, STEPS, compare

SECONDS = 15.0  # a training that is slow stops after so many


@pytest.mark.slow
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_a_healthy_library_model_is_trained_to_the_same_bits_and_left_alone(name, precision):
    try:
        MODELS[name]()
    except ImportError as error:
        pytest.skip(str(error))
    row = compare(name, precision, STEPS, SECONDS, ["auto", "every=20"])
    assert row["error"] == ""
    assert row["steps"] >= 20
    for seen in row["watched"].values():
        assert seen["shadows"] >= 2
        assert seen["differences"] == []
        assert seen["troubles"] == []
        assert seen["findings"] == []
