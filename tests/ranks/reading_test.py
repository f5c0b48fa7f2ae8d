"""A training in a team's database is a run as its files are: one question, one answer."""

from __future__ import annotations

import pathlib
import shutil
import urllib.parse
from typing import Any

import pytest
from asked import BAD_RANK, BAD_STEP, Client, call, differences, handle, record
from conftest import Team, make_team, ran
from postgres import Postgres

WORLD = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    made = tmp_path_factory.mktemp("ranks")
    record(made, WORLD)
    return made


@pytest.fixture(scope="module")
def shipped(server: Postgres, folder: pathlib.Path) -> Team:
    """Read only."""
    team = make_team(server)
    team.ship(folder)
    return team


QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("run_summary", {}),
    ("diagnose_run", {}),
    ("query_alerts", {}),
    ("query_alerts", {"layer": "*mlp*"}),
    ("query_alerts", {"layer": "blocks.1.*"}),  # a stage that the deciding rank does not have
    ("query_alerts", {"severity": "ERROR", "steps": f"0..{BAD_STEP}"}),
    ("query_alerts", {"type": "GRAD_VANISH"}),  # one that some ranks told twice
    ("query_alerts", {"rank": 0}),
    ("query_stats", {}),
    ("query_stats", {"metric": "loss"}),
    ("query_stats", {"metric": "grad_norm", "steps": "100..130"}),
    ("query_stats", {"metric": "absmax", "layers": ["blocks.0.*"], "detail": "full"}),
    ("query_stats", {"metric": "nan", "aggregate": "step"}),
    ("query_stats", {"metric": "absmax", "layers": ["blocks.*"], "aggregate": "ranks"}),
    ("query_stats", {"metric": "gradient.absmax", "layers": ["head"], "aggregate": "ranks"}),
    ("query_stats", {"metric": "findings"}),
    ("query_stats", {"metric": "shadow_error"}),
    ("query_stats", {"metric": "distribution", "layers": ["head"]}),
    ("choose_precision", {}),
]


@pytest.mark.parametrize(("tool", "arguments"), QUESTIONS, ids=str)
def test_the_answer_is_that_of_the_files(
    shipped: Team, folder: pathlib.Path, tool: str, arguments: dict[str, Any]
) -> None:
    assert not differences(shipped, folder, tool, arguments)


@pytest.mark.parametrize("merged_to", [None, 0, BAD_STEP - 1, BAD_STEP, 150])
def test_steps_that_nobody_merged_yet_are_merged_on_reading(
    server: Postgres, folder: pathlib.Path, merged_to: int | None
) -> None:
    team = make_team(server)
    team.ship(folder)
    last = "NULL" if merged_to is None else merged_to
    team.sql(f"UPDATE mpnanny.training SET merged_to={last}")
    # What stands behind it is not to be trusted.
    team.sql(
        f"UPDATE mpnanny.step_all SET loss=77, bad_ranks='{{4}}' WHERE step>coalesce({last}, -1)"
    )
    for tool, arguments in [
        ("run_summary", {}),
        ("query_stats", {"metric": "loss", "steps": f"{BAD_STEP - 3}.."}),
    ]:
        assert not differences(team, folder, tool, arguments)
    listed = call("list_runs", {"path": team.url()}, team.url())["runs"][0]
    assert listed["steps"] == 200 and listed["last_loss"] == "nan"


def test_a_rank_that_never_came_is_said(
    server: Postgres, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    team = make_team(server)
    for rank in (0, 1, 4):
        shutil.copy(folder / f"metrics.rank{rank}.db", tmp_path)
    team.ship(tmp_path)
    answer = call("run_summary", {"run": team.url()}, team.url())
    notes = " ".join(answer["notes"])
    assert "Merged from ranks 0, 1 and 4" in notes and "Ranks 2 and 3 of 5 are not here" in notes
    told = call("run_summary", {"run": team.url(), "rank": 2}, team.url(), code=2)["error"]
    assert told["message"].startswith("Rank 2 of this run is not here.")


def test_a_single_process_and_one_rank_alone(
    server: Postgres, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    record(tmp_path, 1, name="alone.py")
    team = make_team(server)
    team.ship(tmp_path / "metrics.rank0.db")
    assert not differences(team, tmp_path, "run_summary", {})
    assert not differences(team, tmp_path, "diagnose_run", {})
    team.ship(folder)
    here = call("query_alerts", {"run": str(folder), "rank": 3}, folder)
    there = call("query_alerts", {"run": handle(team, 2), "rank": 3}, team.url())
    assert here["alerts"] == there["alerts"] and here["total"] == there["total"] > 0


def test_without_a_number_it_is_the_newest(
    server: Postgres, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    team = make_team(server)
    team.ship(folder)
    record(tmp_path, 2, name="newer.py")
    team.ship(tmp_path)
    assert call("run_summary", {"run": team.url()}, team.url())["name"] == "newer.py"
    names = [run["name"] for run in call("list_runs", {"path": team.url()}, team.url())["runs"]]
    assert names == ["newer.py", "train.py"]
    told = call("run_summary", {"run": handle(team, 9)}, team.url(), code=2)["error"]
    assert "Training 9 is not in" in told["message"]


def test_the_list_tells_what_the_list_of_files_tells(shipped: Team, folder: pathlib.Path) -> None:
    here = call("list_runs", {"path": str(folder)}, folder)["runs"][0]
    there = call("list_runs", {"path": shipped.url()}, shipped.url())["runs"][0]
    assert there["run"] == handle(shipped)
    for field in ("name", "status", "started_at", "steps", "last_loss", "precision", "ranks"):
        assert here[field] == there[field], field
    for field in ("worst_alert", "worst_rank", "world_size"):
        assert here[field] == there[field], field
    assert there["worst_rank"] == BAD_RANK


@pytest.mark.parametrize(
    ("reason", "beat", "status"),
    [("NULL", "now", "running"), ("NULL", "0", "killed"), ("'exception'", "now", "exception")],
)
def test_one_rank_decides_how_all_are(
    server: Postgres, folder: pathlib.Path, reason: str, beat: str, status: str
) -> None:
    team = make_team(server)
    team.ship(folder)
    when = "extract(epoch FROM now())" if beat == "now" else beat
    team.sql(
        f"UPDATE mpnanny.run SET end_reason={reason}, ended_at=NULL, heartbeat_at={when}"
        " WHERE rank=3"
    )
    assert call("list_runs", {"path": team.url()}, team.url())["runs"][0]["status"] == status
    assert call("run_summary", {"run": team.url()}, team.url())["status"] == status


def test_which_rank_stands_apart(shipped: Team) -> None:
    question = {"run": handle(shipped), "metric": "absmax", "layers": ["head"]}
    answer = call("query_stats", {**question, "aggregate": "ranks"}, shipped.url())
    for series in answer["series"]:
        assert series["ranks"] == WORLD
        outliers = series["outliers"]
        assert [one["rank"] for one in outliers] == [BAD_RANK]
        assert outliers[0]["first_step"] == 60 and outliers[0]["value"] == pytest.approx(108.02)
        by_step = {point[0]: point[1:] for point in series["points"]}
        assert by_step[0] == pytest.approx([8.02, 8.0, 8.04])
        assert by_step[60] == pytest.approx([8.03, 8.0, 108.02])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"metric": "loss"}, "is for figures of tensors"),
        ({"metric": "absmax"}, "lays one layer of all ranks side by side"),
        ({"metric": "absmax", "layers": ["head"], "rank": 1}, "needs all ranks"),
    ],
)
def test_what_cannot_be_laid_side_by_side(shipped: Team, more: dict[str, Any], said: str) -> None:
    question = {"run": handle(shipped), "aggregate": "ranks", **more}
    assert said in call("query_stats", question, shipped.url(), code=2)["error"]["message"]


def test_commands_take_the_url(shipped: Team, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    url = handle(shipped)
    assert "5 ranks" in ran("runs", shipped.url())
    assert "BROKEN" in ran("summary", "--db", url)
    assert "LOSS_NAN" in ran("alerts", "--db", url)
    assert "absmax" in ran("stats", "--db", url)
    assert f"step {BAD_STEP}" in ran("diagnose", url)
    assert ran("compare", url, folder)
    page = tmp_path / "page.html"
    ran("report", url, "-o", page)
    assert "blocks.0.attn" in page.read_text(encoding="utf-8")


def test_a_clients_resources_and_completions(shipped: Team) -> None:
    with Client(shipped.url()) as client:
        listed = client.ask("resources/list")["result"]["resources"]
        encoded = urllib.parse.quote(handle(shipped), safe="")
        uri = f"mpnanny://runs/{encoded}/summary"
        assert uri in [one["uri"] for one in listed]
        text = client.ask("resources/read", uri=uri)["result"]["contents"][0]["text"]
        assert text.startswith(handle(shipped)) and "BROKEN" in text
        values = client.ask(
            "completion/complete",
            ref={"type": "ref/resource", "uri": "mpnanny://runs/{run}/summary"},
            argument={"name": "run", "value": "postgresql:"},
        )["result"]["completion"]["values"]
        assert handle(shipped) in values
