"""Old runs are thinned, and runs dropped, by commands."""

from __future__ import annotations

import pathlib
import sqlite3
import time

from conftest import Team, ran
from recording import Recording

DAY = 86400


def recorded(path: pathlib.Path, name: str, age: float) -> Recording:
    one = Recording(path, name=name, started=time.time() - age)
    one.describe(2)
    one.steps(2000)
    one.alert(1000)
    one.db.execute("UPDATE tensor_stats SET nan=0, absmax=step%997")
    one.db.execute("UPDATE tensor_stats SET nan=1 WHERE step=330")
    one.close()
    return one


def test_thin(team: Team, tmp_path: pathlib.Path) -> None:
    old = recorded(tmp_path / "old.db", "old", 40 * DAY)
    new = recorded(tmp_path / "new.db", "new", 40 * DAY)
    team.ship(old.path)
    team.ship(new.path)
    past = time.time() - 35 * DAY
    team.sql(f"UPDATE mpnanny.run SET heartbeat_at={past}, ended_at={past} WHERE name='old'")
    said = ran("ship", "--thin", team.url(), "--older-than", "30d", "--keep-every", "10")
    assert "1 of 1 runs older than 30d were thinned" in said
    rows = team.sql(
        "SELECT DISTINCT step FROM mpnanny.tensor_stats WHERE training_id=1 AND"
        " layer_id=1 ORDER BY 1"
    )
    steps = {int(row[0]) for row in rows}
    assert steps == (
        set(range(0, 2000, 100))  # one sample in ten
        | set(range(800, 1201, 10))  # near the alert
        | {330}  # not finite
        | {1990, 0}  # largest (996) and smallest absmax
    )
    assert team.number("SELECT count(*) FROM mpnanny.step WHERE training_id=1") == 2000
    assert not team.differences(new, training=2)
    # Once more changes nothing, and the file's shipper brings back nothing.
    assert "0 of 1" in ran("ship", "--thin", team.url(), "--older-than", "30d")
    before = team.number("SELECT count(*) FROM mpnanny.tensor_stats WHERE training_id=1")
    team.ship(old.path)
    assert team.number("SELECT count(*) FROM mpnanny.tensor_stats WHERE training_id=1") == before
    # Nor does it where the monitor has thinned the file as well.
    with sqlite3.connect(old.path) as db:
        db.execute("DELETE FROM tensor_stats WHERE step=500")
    team.ship(old.path)
    assert team.number("SELECT count(*) FROM mpnanny.tensor_stats WHERE training_id=1") == before
    for age in ("30", "d", "-1d", "3 weeks"):
        assert "30d, 12h" in ran("ship", "--thin", team.url(), "--older-than", age, code=2)


def test_drop(team: Team, tmp_path: pathlib.Path) -> None:
    for i in range(2):
        one = Recording(tmp_path / f"{i}.db", name=str(i))
        one.describe()
        one.steps(20)
        one.close()
        team.ship(one.path)
    assert "is gone" in ran("ship", "--drop", f"{team.url()}#1")
    assert team.sql("SELECT name FROM mpnanny.training") == [["1"]]
    left = team.sql("SELECT relname FROM pg_class WHERE relname LIKE '%\\_1' AND relkind='r'")
    assert left == []
    assert not team.differences(one, training=2)
    assert "no run 1" in ran("ship", "--drop", f"{team.url()}#1", code=2)
    assert "Which run" in ran("ship", "--drop", team.url(), code=2)
    # It may come again, as another one.
    team.ship(tmp_path / "0.db")
    assert team.number("SELECT count(*) FROM mpnanny.step WHERE training_id=3") == 20
