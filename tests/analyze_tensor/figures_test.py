"""`analyze_tensor` against numpy and ml_dtypes in float64, for every format and every reader."""

from __future__ import annotations

import json
import math
import pathlib
import subprocess

import ml_dtypes
import numpy as np
import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / "build" / "release" / "bin" / "mpnanny"
FORMATS = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": None,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
LARGEST = {"fp16": 65504.0, "bf16": 3.3895313892515355e38, "e4m3": 448.0, "e5m2": 57344.0}
LEAST = {"fp16": 2.0**-14, "bf16": 2.0**-126, "tf32": 2.0**-126, "e4m3": 2.0**-6, "e5m2": 2.0**-14}


def analyze(path, *words):
    done = subprocess.run(
        [PROGRAM, "analyze", path, "--format", "json", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_values_that_have_been_16_bits_are_named(tmp_path):
    rng = np.random.default_rng(0)
    exact = rng.normal(0, 0.02, 4096).astype(np.float32)
    half = exact.astype(np.float16).astype(np.float32)
    brain = exact.astype(ml_dtypes.bfloat16).astype(np.float32)
    file = tmp_path / "all.npz"
    np.savez(file, exact=exact, half=half, brain=brain, ones=np.ones(64, np.float32))
    found = analyze(file)
    grids = {row["key"]: row.get("grid") for row in found["tensors"]}
    assert grids == {"exact": None, "half": "fp16", "brain": "bf16", "ones": None}
    assert len(found["advice"]) == 2 and "1 of 4" in found["advice"][0]
    for key, grid in (("exact", "none"), ("half", "fp16"), ("brain", "bf16"), ("ones", "trivial")):
        one = analyze(file, "--key", key)
        assert one["stats"]["grid"] == grid
        said = any("is a number of" in text for text in one["advice"])
        assert said is (grid in ("fp16", "bf16"))


def to_tf32(x):
    """FP32 values to 10 bits of mantissa, ties to even."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    kept = bits + 0x0FFF + ((bits >> 13) & 1)
    return (kept & ~np.uint64(0x1FFF)).astype(np.uint32).view(np.float32)


def rounded(x, name, scale):
    """As float64, divided by the scale again. `x`: float64 with values that float32 can hold."""
    with np.errstate(over="ignore"):
        scaled = np.ldexp(x, scale).astype(np.float32)
        low = to_tf32(scaled) if name == "tf32" else scaled.astype(FORMATS[name])
    return np.ldexp(low.astype(np.float64), -scale)


def reference(values, name, scale=0):
    """Counts and errors by their definitions."""
    x = values.astype(np.float64)
    x = x[np.isfinite(x) & (x != 0)]
    q = rounded(x, name, scale)
    fits = np.isfinite(q)
    held = np.abs(np.ldexp(q, scale))
    errors = np.abs(q[fits] - x[fits]) / np.abs(x[fits])
    lost = np.sum((q[fits] - x[fits]) ** 2)
    found = {
        "underflow": int(np.sum(q == 0)),
        "subnormal": int(np.sum((held > 0) & (held < LEAST[name]))),
        "overflow": int(np.sum(~fits)),
    }
    if name in LARGEST:
        found["saturated"] = int(np.sum(np.abs(np.ldexp(x, scale)) > 0.9 * LARGEST[name]))
    if errors.size:
        found["rel_error"] = (errors.mean(), np.percentile(errors, 99), errors.max())
        found["sqnr_db"] = 10 * math.log10(np.sum(x[fits] ** 2) / lost) if lost > 0 else math.inf
    return found


def number(value):
    return {"inf": math.inf, "nan": math.nan}.get(value, value)


def expect_same(row, expected, numel):
    for name in ("underflow", "subnormal", "overflow", "saturated"):
        if name in expected:
            assert round(row[name] * numel) == expected[name], name
            assert math.isclose(row[name] * numel, expected[name], abs_tol=1e-6)
    if "rel_error" in expected:
        got = [number(row["rel_error"][each]) for each in ("mean", "p99", "max")]
        np.testing.assert_allclose(got, expected["rel_error"], rtol=1e-6, atol=1e-15)
        np.testing.assert_allclose(number(row["sqnr_db"]), expected["sqnr_db"], rtol=1e-6)


def tensors():
    draw = np.random.default_rng(5)
    wide = draw.normal(size=(64, 33)) * np.exp2(draw.uniform(-40, 40, (64, 33)))
    corners = np.array([65504, 65519.9, 65520, 2**-25, 2**-24, 464, 464.1, 448, 61440, 0, -0.0])
    return {
        "plain": draw.normal(size=(128, 64)).astype(np.float32),
        "wide": wide.astype(np.float32),
        "skewed": draw.lognormal(0, 4, (7, 5, 11)).astype(np.float32),
        "tiny": (draw.normal(size=500) * 1e-7).astype(np.float32),
        "corners": corners.astype(np.float32),
        "broken": np.array([1.0, np.nan, np.inf, -np.inf, 1e5, 0.0], dtype=np.float32),
        "half": draw.normal(size=(16, 16)).astype(np.float16),
        "double": wide.astype(np.float32).astype(np.float64),
        "one": np.array(0.1, dtype=np.float32),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "fortran": np.asfortranarray(draw.normal(size=(6, 8)).astype(np.float32)),
        "swapped": draw.normal(size=10).astype(">f4"),
        "whole": np.arange(-300, 300, dtype=np.int32),
    }


@pytest.mark.parametrize("name", tensors())
def test_every_format(name, tmp_path):
    values = tensors()[name]
    np.save(tmp_path / "x.npy", values)
    answer = analyze(tmp_path / "x.npy")
    assert answer["tensor"]["shape"] == list(values.shape)
    assert answer["tensor"]["numel"] == values.size
    for row in answer["formats"]:
        expect_same(row, reference(values, row["format"]), values.size)
        scale = round(math.log2(row["best_scale"]))
        expect_same(row["scaled"], reference(values, row["format"], scale), values.size)
    finite = values.astype(np.float64)[np.isfinite(values)]
    stats = answer["stats"]
    assert stats["nan"] == int(np.isnan(values).sum())
    assert stats["posinf"] == int(np.isposinf(values).sum())
    assert stats["zeros"] == int((values == 0).sum())
    if finite.size:
        for key, value in {
            "min": finite.min(),
            "max": finite.max(),
            "mean": finite.mean(),
            "std": finite.std(),
            "rms": np.sqrt((finite**2).mean()),
            "l2": np.linalg.norm(finite),
        }.items():
            size = np.abs(finite).max()
            np.testing.assert_allclose(stats[key], value, rtol=1e-6, atol=1e-9 * size)


def reduced(values, axis, name):
    """Sum, mean and norm over an axis with an accumulator of the format."""
    low = FORMATS[name]
    x = values.astype(np.float64)
    total = squares = np.zeros(np.delete(x.shape, axis))

    def into(y):
        return y.astype(np.float32).astype(low).astype(np.float64)

    for each in np.moveaxis(x, axis, 0):
        total = into(total + into(each))
        squares = into(squares + into(into(each) ** 2))
    exact, norm = x.sum(axis), np.sqrt((x**2).sum(axis))
    held = (total, into(total / x.shape[axis]), into(np.sqrt(squares)))
    wanted = (exact, exact / x.shape[axis], norm)
    return [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(held, wanted, strict=True)]


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "e4m3", "e5m2"])
def test_reductions_over_each_dimension(dtype, tmp_path):
    values = np.random.default_rng(3).uniform(0.5, 1.5, (9, 20, 5)).astype(np.float32)
    values[:, 3] *= 1e-3
    np.save(tmp_path / "x.npy", values)
    answer = analyze(tmp_path / "x.npy", "--target-dtype", dtype)
    assert [row["size"] for row in answer["dims"]] == [9, 20, 5]
    for axis, row in enumerate(answer["dims"]):
        got = [row["reduce_error"][each] for each in ("sum", "mean", "norm")]
        np.testing.assert_allclose(got, reduced(values, axis, dtype), rtol=1e-6)
        slices = np.abs(values).max(tuple(a for a in range(3) if a != axis))
        np.testing.assert_allclose(row["imbalance"], slices.max() / slices.min(), rtol=1e-6)


def test_every_reader_gives_the_same(tmp_path):
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    values = tensors()["wide"]
    x = torch.from_numpy(values)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "b.npz", x=values, y=values[:2])
    np.savez_compressed(tmp_path / "c.npz", x=values, y=values[:2])
    torch.save({"model": {"x": x, "y": x[:2]}, "step": 3}, tmp_path / "d.pt")
    torch.save({"x": x.T.contiguous().T}, tmp_path / "e.pth")
    torch.save({"x": x}, tmp_path / "f.pt", _use_new_zipfile_serialization=False)
    safetensors.save_file({"x": x, "y": x[:2].clone()}, tmp_path / "g.safetensors")
    expected = analyze(tmp_path / "a.npy")
    for name, key in {
        "b.npz": "x",
        "c.npz": "x",
        "d.pt": "model.x",
        "e.pth": "x",
        "f.pt": "x",
        "g.safetensors": "x",
    }.items():
        answer = analyze(tmp_path / name, "--key", key)
        for part in ("stats", "formats", "dims", "advice"):
            assert answer[part] == expected[part], (name, part)


def test_dtypes_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    values = torch.linspace(-3, 3, 50)
    held = {
        "bfloat16": values.bfloat16(),
        "float8_e4m3fn": values.to(torch.float8_e4m3fn),
        "float8_e5m2": values.to(torch.float8_e5m2),
        "float16": values.half(),
    }
    torch.save(held, tmp_path / "x.pt")
    for name, tensor in held.items():
        answer = analyze(tmp_path / "x.pt", "--key", name)
        assert answer["tensor"]["dtype"] == name
        back = tensor.to(torch.float64).numpy()
        for row in answer["formats"]:
            expect_same(row, reference(back, row["format"]), 50)


def test_a_file_is_ranked_the_worst_first(tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    torch.save(
        {
            "fine": torch.randn(50, 50),
            "large": torch.randn(50) * 1e6,
            "small": torch.randn(50) * 1e-9,
            "nan": torch.tensor([1.0, float("nan")]),
            "optimizer": {"state": {0: {"exp_avg_sq": torch.rand(40) * 1e-12}}},
        },
        tmp_path / "x.pt",
    )
    answer = analyze(tmp_path / "x.pt", "--target-dtype", "fp16")
    keys = [row["key"] for row in answer["tensors"]]
    assert keys[:2] == ["nan", "large"] and keys[-1] == "fine" and answer["total"] == 5
    assert {"small", "optimizer.state.0.exp_avg_sq"} == set(keys[2:4])
    in_bf16 = analyze(tmp_path / "x.pt", "--target-dtype", "bf16")
    assert all(row["worst"] == "rounding only" for row in in_bf16["tensors"][1:])


def test_what_a_pickle_would_execute_is_named_and_not_run(tmp_path):
    torch = pytest.importorskip("torch")

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "made"), "w"))

    torch.save({"x": torch.ones(3), "evil": Evil()}, tmp_path / "x.pt")
    answer = analyze(tmp_path / "x.pt", "--key", "x")
    assert answer["stats"]["max"] == 1
    assert "open" in " ".join(answer["notes"])
    assert not (tmp_path / "made").exists()


def test_errors_say_what_to_do(tmp_path):
    (tmp_path / "x.pt").write_bytes(b"PK\x03\x04 no zip at all")
    for path, words, what in (
        (tmp_path / "x.pt", [], "x.pt"),
        (tmp_path / "nothing.npy", [], "no such file"),
    ):
        done = subprocess.run(
            [PROGRAM, "analyze", path, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode not in (0, 1) and what in done.stderr


def test_the_tool_gives_what_the_command_gives(tmp_path):
    np.save(tmp_path / "x.npy", tensors()["skewed"])
    done = subprocess.run(
        [
            *(PROGRAM, "call", "analyze_tensor", "--root", tmp_path),
            *("--args", json.dumps({"path": "x.npy", "target_dtype": "float8_e4m3fn"})),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    called = json.loads(done.stdout)
    assert called["formats"] == analyze(tmp_path / "x.npy", "--target-dtype", "e4m3")["formats"]
    outside = json.dumps({"path": "/etc/passwd"})
    done = subprocess.run(
        [PROGRAM, "call", "analyze_tensor", "--root", tmp_path, "--args", outside],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and "outside" in done.stdout + done.stderr


def test_pythons_function_gives_what_the_tool_gives(tmp_path):
    torch = pytest.importorskip("torch")
    mpnanny = pytest.importorskip("mpnanny")
    for name in ("wide", "broken", "half", "one", "empty", "fortran"):
        values = tensors()[name]
        np.save(tmp_path / "x.npy", values)
        expected = analyze(tmp_path / "x.npy")
        found = mpnanny.analyze_tensor(torch.from_numpy(values))
        assert found["tensor"] == {k: v for k, v in expected["tensor"].items() if k != "key"}
        for part in ("stats", "formats", "dims"):
            same(found[part], expected[part])
    only = mpnanny.analyze_tensor(torch.ones(3), torch.bfloat16)
    assert [row["format"] for row in only["formats"]] == ["bf16"] == [only["reduced_in"]]
    with pytest.raises(ValueError, match="floating-point"):
        mpnanny.analyze_tensor(torch.arange(3))
    with pytest.raises(ValueError, match="not judged"):
        mpnanny.analyze_tensor(torch.ones(3), torch.int8)


def same(found, expected):
    """Equal but for the digits that answers are rounded to."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, float) and isinstance(found, float):
        assert math.isclose(found, expected, rel_tol=1e-7, abs_tol=1e-12)
    else:
        assert found == expected
