"""On the server is what the files hold, however often, and by whom, it was shipped."""

from __future__ import annotations

import json
import pathlib
import sqlite3
import subprocess

import pytest
from conftest import PROGRAM, Team, ran
from recording import Recording, in_file, tables


def full(recording: Recording) -> None:
    """Rows in every table."""
    recording.describe()
    recording.steps(50)
    recording.alert(3)
    recording.event(None)
    recording.event(7)
    run = recording.run
    recording.insert("shadow_step", run_id=run, step=4, why="first", seconds=0.25, detail="{}")
    recording.insert(
        "shadow_finding",
        run_id=run,
        step=4,
        kind="range",
        severity="ERROR",
        operator="aten.exp",
        precision="proven",
        share=0.3,
    )
    recording.insert("shadow_profile", run_id=run, step=4, layer_id=1, phase=0, error=1e-300)
    for table in tables(recording.path):
        if not in_file(recording.path, table, run):  # of a later schema
            recording.fill(table)


@pytest.fixture
def recording(tmp_path: pathlib.Path) -> Recording:
    made = Recording(tmp_path / "metrics.db")
    full(made)
    return made


def test_the_server_holds_what_the_file_holds(team: Team, recording: Recording) -> None:
    recording.close()
    said = team.ship(recording.path)
    assert "#1  train" in said and "all is there" in said
    assert not team.differences(recording)
    assert team.sql("SELECT ended, steps_to FROM mpnanny.part") == [["t", "49"]]


def test_shipping_again_changes_nothing(team: Team, recording: Recording) -> None:
    recording.close()
    team.ship(recording.path)
    before = team.sql("SELECT ctid, xmin, * FROM mpnanny.step")
    alerts = team.sql("SELECT ctid, xmin, * FROM mpnanny.alert")
    said = team.ship(recording.path)
    assert ": 0 rows went now" in said
    assert team.sql("SELECT ctid, xmin, * FROM mpnanny.step") == before
    assert team.sql("SELECT ctid, xmin, * FROM mpnanny.alert") == alerts
    assert not team.differences(recording)
    assert team.number("SELECT count(*) FROM mpnanny.training") == 1


def test_only_what_is_new_goes_and_what_changed_is_changed(
    team: Team, recording: Recording
) -> None:
    team.ship(recording.path)
    recording.steps(20)
    recording.db.execute("UPDATE alert SET repeats=9, last_step=44, message='other'")
    recording.db.execute("UPDATE layer SET position=5 WHERE layer_id=2")
    recording.db.execute("UPDATE shadow_finding SET repeats=3")
    recording.alert(60)
    recording.event(61)
    recording.close("exception")
    said = team.ship(recording.path)
    # 20 steps, 2 samples of 3 layers, 2 alerts, 1 layer, 1 finding, 1 event, the run.
    assert ": 32 rows went now" in said
    assert not team.differences(recording)


def test_rows_that_came_late_are_found_at_the_end(team: Team, recording: Recording) -> None:
    team.ship(recording.path)
    recording.insert("step", run_id=recording.run, step=-5, flags=256)
    recording.insert(
        "tensor_stats", run_id=recording.run, step=5, layer_id=1, kind=0, slot=0, numel=1
    )
    team.ship(recording.path)
    recording.close()
    team.ship(recording.path)
    assert not team.differences(recording)


def test_thinned_samples_stay_on_the_server(team: Team, recording: Recording) -> None:
    team.ship(recording.path)
    samples = "SELECT count(*) FROM mpnanny.tensor_stats"
    before = team.number(samples)
    recording.db.execute("DELETE FROM tensor_stats WHERE step=10")
    recording.event(50, "thinned")
    recording.close()
    team.ship(recording.path)
    assert team.number(samples) == before
    said = team.differences(recording)
    assert len(said) == 1 and said[0].startswith("tensor_stats: 12 in the file, 15 on the server")


def test_text_that_a_server_cannot_hold(team: Team, recording: Recording) -> None:
    recording.alert(9, "zero\0byte")
    recording.db.execute("UPDATE layer SET type=CAST(x'41ff42' AS TEXT) WHERE layer_id=1")
    recording.close()
    team.ship(recording.path)
    assert team.sql("SELECT message FROM mpnanny.alert WHERE step=9") == [["zero\ufffdbyte"]]
    assert team.sql("SELECT type FROM mpnanny.layer WHERE layer_id=1") == [["A\ufffdB"]]


def test_large_files_go_in_batches(team: Team, tmp_path: pathlib.Path) -> None:
    large = Recording(tmp_path / "metrics.db")
    large.describe(300)
    large.steps(2000, sample=20)  # 30,000 samples, about 10 MB
    large.close()
    team.ship(large.path)
    assert not team.differences(large)


def test_files_of_earlier_schemas(team: Team, tmp_path: pathlib.Path) -> None:
    old = Recording(tmp_path / "metrics.db")
    old.describe()
    old.steps(20)
    old.alert(3)
    old.event(4)
    for table in ("shadow_step", "shadow_finding", "shadow_profile"):
        old.db.execute(f"DROP TABLE {table}")
    old.db.execute("ALTER TABLE alert DROP COLUMN detail")
    old.close()
    assert "all is there" in team.ship(old.path)
    assert team.sql("SELECT step, detail FROM mpnanny.alert") == [["3", "<null>"]]
    assert team.number("SELECT count(*) FROM mpnanny.step") == 20


def make_ranks(folder: pathlib.Path, world: int, started: float, name: str = "train") -> list:
    made = []
    for rank in range(world):
        one = Recording(
            folder / f"metrics.rank{rank}.db",
            name=name,
            rank=rank,
            world=world,
            started=started + rank,
        )
        one.describe()
        one.steps(20 + rank)
        made.append(one)
    return made


def test_ranks_beside_a_file_are_one_training(team: Team, tmp_path: pathlib.Path) -> None:
    ranks = make_ranks(tmp_path, 4, 1e9)
    for one in ranks:
        one.close()
    said = team.ship(tmp_path / "metrics.rank2.db")
    assert "4 of 4 ranks" in said
    for rank, one in enumerate(ranks):
        assert not team.differences(one, 1, rank)


def test_folders_patterns_and_handles(team: Team, tmp_path: pathlib.Path) -> None:
    names = ["a/metrics.db", "b/metrics.db", "c/other.db"]
    for i, name in enumerate(names):
        one = Recording(tmp_path / name, name=name, started=1e9 + i)
        one.steps(3)
        one.close()
    two = Recording(tmp_path / "a/metrics.db", name="second", started=2e9)
    two.steps(5)
    two.close()
    trainings = "SELECT name FROM mpnanny.training ORDER BY training_id"
    team.ship(f"{tmp_path}/a/metrics.db#2")
    assert team.sql(trainings) == [["second"]]
    team.ship(f"{tmp_path}/c/*.db")
    assert team.sql(trainings) == [["second"], ["c/other.db"]]
    team.ship(tmp_path)
    assert sorted(team.sql(trainings)) == [
        ["a/metrics.db"],
        ["b/metrics.db"],
        ["c/other.db"],
        ["second"],
    ]
    assert "names no database" in team.ship(tmp_path / "nothing.db", code=2)
    assert "names no database" in team.ship(tmp_path / "a/x*.db", code=2)


def test_a_run_that_starts_again_is_another_training(team: Team, tmp_path: pathlib.Path) -> None:
    for i, started in enumerate((1e9, 1e9 + 30)):  # the second brings the ranks a second time
        for one in make_ranks(tmp_path / str(i), 2, started):
            one.close()
    team.ship(tmp_path)
    counts = team.sql("SELECT training_id, count(*) FROM mpnanny.part GROUP BY 1 ORDER BY 1")
    assert counts == [["1", "2"], ["2", "2"]]


def test_shippers_of_ranks_at_once_find_one_training(team: Team, tmp_path: pathlib.Path) -> None:
    for trial in range(5):
        ranks = []
        for rank in range(4):  # each in a folder of its own, as on machines of their own
            one = Recording(
                tmp_path / f"{trial}" / f"host_{rank}" / "metrics.db",
                name=f"t{trial}",
                rank=rank,
                world=4,
                started=1e9 + rank,
            )
            one.steps(10)
            one.close()
            ranks.append(one)
        shippers = [
            subprocess.Popen([PROGRAM, "ship", one.path, "--to", team.url()]) for one in ranks
        ]
        assert [shipper.wait(60) for shipper in shippers] == [0] * 4
    counts = team.sql(
        "SELECT name, count(*) FROM mpnanny.part JOIN mpnanny.training USING"
        " (training_id) GROUP BY training_id, name ORDER BY name"
    )
    assert counts == [[f"t{trial}", "4"] for trial in range(5)]


def test_two_shippers_of_one_file_do_each_others_work(team: Team, recording: Recording) -> None:
    recording.steps(3000, sample=5)
    recording.close()
    both = [
        subprocess.Popen([PROGRAM, "ship", recording.path, "--to", team.url()]) for _ in range(2)
    ]
    assert [one.wait(60) for one in both] == [0, 0]
    assert not team.differences(recording)


def test_json_tells_the_handles(team: Team, recording: Recording) -> None:
    recording.close()
    told = json.loads(team.ship(recording.path, "--format", "json"))
    assert told["whole"] and told["notes"] == []
    assert [run["name"] for run in told["runs"]] == ["train"]
    assert told["runs"][0]["run"].endswith("#1")
    assert told["rows"] > 60


def merged(ranks: list[Recording]) -> dict[int, tuple]:
    """The steps of all ranks, as engines/runs/step_cursor.h says that they are merged."""
    rows: dict[int, list[tuple]] = {}
    for rank, one in enumerate(ranks):
        with sqlite3.connect(one.path) as db:
            for row in db.execute("SELECT step, loss, lr, loss_scale, grad_norm, flags FROM step"):
                rows.setdefault(row[0], []).append((rank, *row[1:]))
    out = {}
    for step, parts in rows.items():
        flags = 0
        for part in parts:
            flags |= part[5]
        first = next((part for part in parts if part[3] is not None), None)
        if first:
            flags = flags & ~48 | first[5] & 48
        losses = [part[1] for part in parts if part[1] is not None]
        bad = any(part[1] is None and part[5] & 1 for part in parts)
        loss = float("nan") if bad else sum(losses) / len(losses) if losses else None
        norms = [part[4] for part in parts if part[4] is not None]
        if any(part[4] is None and part[5] & 4 for part in parts):
            norms = [float("nan")]
        ranks_bad = [part[0] for part in parts if part[5] & 3] or [
            part[0] for part in parts if part[5] & 4
        ]
        lr = next((part[2] for part in parts if part[2] is not None), None)
        out[step] = (len(parts), loss, lr, max(norms, default=None), flags, ranks_bad or None)
    return out


def on_the_server(team: Team) -> dict[int, tuple]:
    number = lambda text: None if text == "<null>" else float(text)  # noqa: E731
    return {
        int(row[0]): (
            int(row[1]),
            number(row[2]),
            number(row[3]),
            number(row[4]),
            int(row[5]),
            None if row[6] == "<null>" else [int(one) for one in row[6].strip("{}").split(",")],
        )
        for row in team.sql(
            "SELECT step, ranks, loss, lr, grad_norm, flags, bad_ranks FROM mpnanny.step_all"
        )
    }


def same(a: dict[int, tuple], b: dict[int, tuple]) -> bool:
    def rounded(rows: dict[int, tuple]) -> str:
        return repr(
            {
                step: tuple(f"{one:.12g}" if isinstance(one, float) else one for one in row)
                for step, row in sorted(rows.items())
            }
        )

    return rounded(a) == rounded(b)


def test_steps_of_all_ranks_are_merged(team: Team, tmp_path: pathlib.Path) -> None:
    ranks = make_ranks(tmp_path, 3, 1e9)
    # What differs between ranks: one loss is not finite, one scale falls, one logs no rate.
    ranks[1].db.execute("UPDATE step SET loss=NULL, flags=flags|1 WHERE step=8")
    ranks[2].db.execute("UPDATE step SET flags=flags|32|4, grad_norm=NULL WHERE step=9")
    ranks[0].db.execute("UPDATE step SET lr=NULL WHERE step<4")
    ranks[0].db.execute("UPDATE step SET loss_scale=NULL WHERE step=6")
    team.ship(tmp_path)
    # They go on: merged as far as the last of them has come.
    assert team.sql("SELECT merged_to FROM mpnanny.training") == [["19"]]
    want = {step: row for step, row in merged(ranks).items() if step <= 19}
    assert same(on_the_server(team), want)
    ranks[0].steps(10)
    for one in ranks:
        one.close()
    team.ship(tmp_path)
    assert team.sql("SELECT merged_to FROM mpnanny.training") == [["29"]]
    assert same(on_the_server(team), merged(ranks))


def test_a_rank_that_comes_later_is_merged_as_well(team: Team, tmp_path: pathlib.Path) -> None:
    ranks = make_ranks(tmp_path / "all", 3, 1e9)
    for one in ranks:
        one.close()
    for rank in (1, 0, 2):
        folder = tmp_path / str(rank)
        folder.mkdir()
        target = folder / "metrics.db"
        target.write_bytes(ranks[rank].path.read_bytes())
        team.ship(target)
    assert team.number("SELECT count(*) FROM mpnanny.training") == 1
    assert same(on_the_server(team), merged(ranks))


def test_setup_again_brings_new_columns_and_keeps_rows(team: Team, recording: Recording) -> None:
    recording.close()
    team.ship(recording.path)
    team.sql("ALTER TABLE mpnanny.alert DROP COLUMN detail")
    team.sql("DROP TABLE mpnanny.shadow_profile")
    ran("ship", "--setup", team.url())
    assert team.sql("SELECT detail FROM mpnanny.alert") == [["<null>"]]
    assert team.number("SELECT count(*) FROM mpnanny.shadow_profile WHERE training_id=1") == 0
    team.ship(recording.path)
    assert team.number("SELECT count(*) FROM mpnanny.step") == 50
