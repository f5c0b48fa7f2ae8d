"""The conversation of bench/evaluations/conversation/ with a run recorded now: it leads to the
cause, and each answer fits a model's window.
"""

import importlib.util
import pathlib
import sys
from types import ModuleType

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/bin/mpnanny"


@pytest.fixture(scope="module")
def conversation() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "conversation", ROOT / "scripts" / "conversation.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["conversation"] = module
    spec.loader.exec_module(module)
    return module


def test_answers_lead_to_the_cause_and_fit(
    conversation: ModuleType, tmp_path: pathlib.Path
) -> None:
    conversation.train(tmp_path)
    said = conversation.converse(PROGRAM, tmp_path)
    assert [one.tool for one in said] == [
        "list_runs",
        "diagnose_run",
        "query_stats",
        "search_knowledge",
    ]
    for one in said:
        assert 0 < one.text_bytes <= conversation.LIMIT, one.tool
        assert 0 < one.structured_bytes <= conversation.LIMIT, one.tool
    listed, diagnosed, stats, searched = (one.structured for one in said)
    assert listed["runs"][0]["worst_alert"].startswith("ERROR")
    assert diagnosed["verdict"] == "broken"
    assert ".ffn" in diagnosed["first_bad"]["layer"]
    assert diagnosed["hypotheses"][0]["cause"] in diagnosed["hypotheses"][0]["cases"]
    # The numbers that the model asks for are those of the layer that was named.
    series = stats["series"]
    assert series and all(one["points"] for one in series)
    assert {one["layer"] for one in series} == {diagnosed["first_bad"]["layer"]}
    assert diagnosed["hypotheses"][0]["cause"] in [one["id"] for one in searched["results"]]
    text = conversation.document(said, tmp_path)
    assert str(tmp_path) not in text and all(one.text.splitlines()[0] for one in said)
