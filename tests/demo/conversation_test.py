"""The conversation of bench/evaluations/conversation/ with a run recorded now: it leads to the
cause, and each answer fits a model's window.
"""

import pathlib
from types import ModuleType

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/bin/mpnanny"


def test_answers_lead_to_the_cause_and_fit(
    conversation: ModuleType, broken_folder: pathlib.Path
) -> None:
    said = conversation.converse(PROGRAM, broken_folder)
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
    text = conversation.document(said, broken_folder)
    assert str(broken_folder) not in text and all(one.text.splitlines()[0] for one in said)
