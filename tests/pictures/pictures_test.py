"""PNGs of answers over MCP, and mpnanny.plot, of the runs that make_runs.py recorded."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import struct
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "release" / "bin" / "mpnanny"
sys.path.insert(0, str(ROOT / "build" / "release" / "python"))
VERMILION = (213, 94, 0)
ALL = ["broken.db", "bf16.db", "healthy.db", "distributed", "empty.db", "one.db", "nan.db",
       "hostile.db", "long.db"]  # fmt: skip


@pytest.fixture(scope="module")
def runs() -> pathlib.Path:
    """The folder of recorded runs: run_pictures.sh names it."""
    return pathlib.Path(os.environ["MPNANNY_RUNS"])


def call(runs: pathlib.Path, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of one call over stdio."""
    client = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    with subprocess.Popen(
        [PROGRAM, "serve", "--root", runs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin and server.stdout
        server.stdin.write(lines)
        server.stdin.flush()
        for line in server.stdout:
            answer = json.loads(line)
            if answer.get("id") == 2:
                server.stdin.close()
                result: dict[str, Any] = answer["result"]
                return result
    raise AssertionError("no answer")


def image_of(result: dict[str, Any]) -> bytes | None:
    images = [part for part in result["content"] if part["type"] == "image"]
    assert all(part["mimeType"] == "image/png" for part in images)
    return base64.b64decode(images[0]["data"]) if images else None


def words_of(result: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in result["content"] if part["type"] == "text")


def count(png: bytes, colour: tuple[int, int, int]) -> int:
    import io

    from matplotlib import image

    pixels = (image.imread(io.BytesIO(png))[..., :3] * 255).round().astype(int)
    return int(np.all(pixels == colour, axis=-1).sum())


TOOLS = [
    ("diagnose_run", {}),
    ("run_summary", {}),
    ("query_stats", {}),
    ("query_stats", {"metric": "loss"}),
    ("query_stats", {"metric": "distribution", "layers": ["*"]}),
]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("tool", "more"), TOOLS)
def test_a_picture_or_why_there_is_none(runs, name, tool, more):
    result = call(runs, tool, {"run": str(runs / name), "picture": True, **more})
    assert not result.get("isError"), words_of(result)
    png, words = image_of(result), words_of(result)
    if png is None:
        assert "No picture: " in words
        return
    width, height = struct.unpack(">II", png[16:24])
    assert width == 1000 and 100 < height <= 1300
    assert len(png) <= 150_000
    assert "The picture: " in words and "No picture" not in words


def test_the_runs_that_recorded_something_have_pictures(runs):
    for name in set(ALL) - {"empty.db"}:
        for tool in ("diagnose_run", "run_summary", "query_stats"):
            assert image_of(call(runs, tool, {"run": str(runs / name), "picture": True})), name


def test_without_being_asked_there_is_none(runs):
    for arguments in ({}, {"picture": False}):
        result = call(runs, "diagnose_run", {"run": str(runs / "broken.db"), **arguments})
        assert image_of(result) is None and "icture" not in words_of(result)


def test_the_wish_for_a_picture_changes_nothing_else(runs):
    run = {"run": str(runs / "broken.db")}
    plain = call(runs, "diagnose_run", run)
    drawn = call(runs, "diagnose_run", {**run, "picture": "true"})  # as models send it
    assert drawn["structuredContent"] == plain["structuredContent"]
    assert drawn["content"][0] == plain["content"][0]


def test_the_broken_run_has_cells_of_nan_and_the_healthy_one_has_not(runs):
    cells = {}
    for name in ("broken.db", "healthy.db"):
        png = image_of(call(runs, "diagnose_run", {"run": str(runs / name), "picture": True}))
        assert png
        cells[name] = count(png, VERMILION)
    assert cells["healthy.db"] < 300  # the legend's
    assert cells["broken.db"] > 10_000


def test_the_words_tell_what_the_picture_shows(runs):
    result = call(runs, "diagnose_run", {"run": str(runs / "broken.db"), "picture": True})
    bad = result["structuredContent"]["first_bad"]
    shown = words_of(result).split("The picture: ")[1]
    assert f"first bad step {bad['step']} marked" in shown and bad["layer"] in shown


def test_two_runs_and_a_pasted_log(runs):
    both = {"a": str(runs / "broken.db"), "b": str(runs / "bf16.db"), "picture": True}
    result = call(runs, "compare_runs", both)
    assert image_of(result) and "b: scripts/demo_training: loss over 30 steps" in words_of(result)
    log = "step 1 loss 2.5\nstep 2 loss 2.4\nstep 3 loss nan\n"
    result = call(runs, "diagnose_run", {"log_text": log, "picture": True})
    assert image_of(result) is None and "No picture: A pasted log" in words_of(result)


def test_the_command_makes_the_same_picture(runs, tmp_path):
    target = tmp_path / "x.png"
    made = subprocess.run(
        [PROGRAM, "report", runs / "broken.db", "-o", target], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    png = image_of(call(runs, "diagnose_run", {"run": str(runs / "broken.db"), "picture": True}))
    assert target.read_bytes() == png


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("what", ["curves", "heatmap", "histogram"])
def test_plots_of_all_runs(runs, name, what):
    import mpnanny

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # matplotlib's font has no Chinese
            figure = mpnanny.plot(runs / name, what)
            figure.canvas.draw()
    except ValueError as error:
        assert name == "empty.db", error
        return
    assert all(axis.get_xlabel() or axis.get_ylabel() for axis in figure.axes)


def test_a_heat_map_holds_the_recorded_figures(runs):
    import mpnanny

    made = subprocess.run(
        [PROGRAM, "report", runs / "broken.db", "-o", "-"], capture_output=True, check=True
    )
    heat = json.loads(made.stdout)["runs"][0]["heat"]
    chosen = next(each for each in heat["maps"] if each["figure"] == "underflow")
    axis = mpnanny.plot(runs / "broken.db", "heatmap", figure="underflow").axes[0]
    drawn = axis.images[0].get_array().filled(np.nan)
    recorded = np.array(
        [row for row in chosen["rows"] if any(cell is not None for cell in row)], dtype=float
    )
    np.testing.assert_array_equal(drawn, recorded)


@pytest.mark.parametrize(
    ("run", "what", "more", "told"),
    [
        ("broken.db", "pie", {}, "curves, heatmap, histogram"),
        ("broken.db", "heatmap", {"kind": "weight", "figure": "rms"}, "activation absmax"),
        ("broken.db", "histogram", {"layer": "nowhere"}, "blocks.0.attn.out"),
        ("none.db", "curves", {}, "none.db"),
    ],
)
def test_a_wrong_wish_is_told_what_there_is(runs, run, what, more, told):
    import mpnanny

    with pytest.raises(ValueError, match=told):
        mpnanny.plot(runs / run, what, **more)


def test_without_the_program_it_says_how_to_name_it(runs, monkeypatch):
    import mpnanny
    from mpnanny import _program

    monkeypatch.delenv("MPNANNY_PROGRAM", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(_program, "__file__", "/nowhere/else/mpnanny/_program.py")
    with pytest.raises(FileNotFoundError, match="MPNANNY_PROGRAM"):
        mpnanny.plot(runs / "broken.db")
