"""One server, and model files that nobody should have made: it answers each, and goes on."""

from __future__ import annotations

import io
import json
import os
import pathlib
import queue
import random
import re
import signal
import time
import zipfile
from collections import Counter
from typing import Any

import mutations
import pytest
import torch
import variants
from asking import Server, processor_time, text_of, wait_for, workers_below
from exported import EXPORTS, scripted

COUNT = int(os.environ.get("MPNANNY_MUTANTS", "260"))  # of each format
LONGEST = 30.0  # seconds until an answer
SOURCES = {
    ".pt": ["gan-script", "gru-script", "plain-masked-script", "control-script", "waves-script"],
    ".pt2": ["gan-program", "waves-program", "plain-masked-program", "regions-program"]
    + ["branches-program", "counting-program", "tied-program"],
}
GOOD = {"model": "good.pt2", "input": ["float32[5,8]"], "dtype": "bf16"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for ending, name in ((".pt", "nested-script"), (".pt2", "nested-program")):
        (folder / f"good{ending}").write_bytes(EXPORTS[name].write(folder).read_bytes())
    return folder


@pytest.fixture(scope="module")
def server(root, worker):
    made = Server(root, "--allow-exec")
    yield made
    made.close()


def is_good(server: Server) -> None:
    """Models that are right still get their answers."""
    for ending in (".pt", ".pt2"):
        found = server.call(**{**GOOD, "model": f"good{ending}"})
        assert not found.get("isError"), text_of(found)
        assert found["structuredContent"]["verdict"] == "clean"


def refused(server: Server, model: str, pattern: str, **more: Any) -> str:
    """The text of the error that `model` ends in, which `pattern` is found in."""
    found = server.call(**{"model": model, "input": ["float32[5,8]"], **more})
    text = text_of(found)
    assert found.get("isError"), text
    assert re.search(pattern, text, re.IGNORECASE | re.DOTALL), text
    assert len(text) < 4000
    return text


# --- mutated archives ---


@pytest.mark.parametrize("ending", SOURCES)
def test_packing_an_archive_again_breaks_nothing(ending, root):
    """Else a mutant would be refused for the way it is packed."""
    for name in SOURCES[ending]:
        again = io.BytesIO(
            mutations.packed(mutations.unpacked(EXPORTS[name].write(root).read_bytes()))
        )
        assert torch.jit.load(again) if ending == ".pt" else torch.export.load(again)


@pytest.mark.parametrize("ending", SOURCES)
def test_each_mutated_archive_gets_an_answer_and_the_server_goes_on(ending, server, root, capsys):
    draw = random.Random(f"mutants {ending}")
    seen: Counter[str] = Counter()
    sources = {name: EXPORTS[name].write(root).read_bytes() for name in SOURCES[ending]}
    for at in range(COUNT):
        name = draw.choice(SOURCES[ending])
        what, content = mutations.mutant(sources[name], ending, draw)
        (root / f"mutant{ending}").write_bytes(content)
        began = time.monotonic()
        where = f"mutant {at} of {name}, {what}"
        try:
            found = server.call(
                LONGEST,
                model=f"mutant{ending}",
                input=EXPORTS[name].words,
                dtype=draw.choice(["bf16", "fp16"]),
                policy=draw.choice(["pure", "cuda-autocast"]),
                timeout_s=10,
                memory_mb=2048,
            )
        except queue.Empty:
            pytest.fail(f"{where}: no answer in {LONGEST:.0f} s")
        assert time.monotonic() - began < LONGEST, where
        text = text_of(found)
        if found.get("isError"):
            assert text.strip() and len(text) < 4000, where
            assert "internal error" not in text.lower(), f"{where}: {text}"
            crash = re.search(r"signal \d+", text)
            seen[crash[0] if crash else "error"] += 1
        else:
            seen[found["structuredContent"]["verdict"]] += 1
        assert server.ask("ping", LONGEST)["result"] == {}, where
        if at % 50 == 49:
            is_good(server)
    is_good(server)
    assert not pathlib.Path("/tmp/of-model").exists(), "a pickle has run a command"
    with capsys.disabled():
        print(f"\n{ending}: {dict(seen.most_common())}")


# --- files that are something else ---


class Endless(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.numel() > 0):
            x = x * 1.0
        return x


class Greedy(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held: list[torch.Tensor] = []
        while len(held) < 1000000:
            held.append(torch.ones(1 << 24) * x.sum())
        return torch.stack(held)


def test_an_endless_loop_is_ended(server, root):
    torch.jit.save(scripted(Endless()), str(root / "endless.pt"))
    refused(server, "endless.pt", "longer than 3 s", timeout_s=3)
    is_good(server)


def test_too_much_memory_is_refused(server, root):
    torch.jit.save(scripted(Greedy()), str(root / "greedy.pt"))
    refused(server, "greedy.pt", "more than 1500 MB|memory", memory_mb=1500)
    is_good(server)


class Huge(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(1 << 40).sum()


def test_a_tensor_that_is_too_large_is_no_fault_of_the_model(server, root):
    torch.jit.save(scripted(Huge()), str(root / "huge.pt"))
    text = refused(server, "huge.pt", "not enough memory")
    assert "refuses" not in text and "stops in FP32" not in text
    is_good(server)


def edited(root: pathlib.Path, name: str, change: Any) -> str:
    """A program whose model.json `change` has changed."""
    members = mutations.unpacked(EXPORTS[name].write(root).read_bytes())
    made = []
    for member, content in members:
        if member.endswith("models/model.json"):
            document = json.loads(content)
            change(document["graph_module"]["graph"]["nodes"])
            content = json.dumps(document).encode()
        made.append((member, content))
    (root / "edited.pt2").write_bytes(mutations.packed(made))
    return "edited.pt2"


def line_of(node: dict[str, Any]) -> str:
    """file.py:7 of the innermost frame of ours."""
    found = re.findall(r'File "([^"]*variants\.py)", line (\d+)', node["metadata"]["stack_trace"])
    return f"{pathlib.Path(found[-1][0]).name}:{found[-1][1]}"


def test_an_operator_that_nobody_has_is_named_with_node_and_line(server, root):
    changed = {}

    def change(nodes: list[dict[str, Any]]) -> None:
        node = next(each for each in nodes if "aten.linear" in each["target"])
        node["target"] = "torch.ops.nobody.fused_linear.default"
        changed.update(node)

    text = refused(server, edited(root, "nested-program", change), r"nobody(::|\.)fused_linear")
    assert changed["name"] in text and line_of(changed) in text


def test_a_higher_order_operator_that_nobody_has_is_named_with_node_and_line(server, root):
    changed = {}

    def change(nodes: list[dict[str, Any]]) -> None:
        node = next(each for each in nodes if "higher_order" in each["target"])
        node["target"] = "torch.ops.higher_order.nobody_loop"
        changed.update(node)

    text = refused(server, edited(root, "branches-program", change), "nobody_loop")
    assert changed["name"] in text and line_of(changed) in text


def test_a_scripted_operator_that_nobody_has_is_named(server, root):
    members = mutations.unpacked(EXPORTS["nested-script"].write(root).read_bytes())
    made = [(name, re.sub(rb"torch\.argmax", b"ops.nobody.best", each)) for name, each in members]
    assert made != members
    (root / "custom.pt").write_bytes(mutations.packed(made))
    refused(server, "custom.pt", r"nobody(::|\.)best")


def test_an_aotinductor_package_is_told_how_to_export_instead(server, root):
    with zipfile.ZipFile(root / "compiled.pt2", "w") as made:
        made.writestr("compiled/archive_format", "pt2")
        made.writestr("compiled/archive_version", "0")
        made.writestr("compiled/data/aotinductor/model/x.so", b"\x7fELF" + bytes(64))
        made.writestr("compiled/data/aotinductor/model/x_metadata.json", "{}")
    refused(server, "compiled.pt2", r"AOTInductor.*torch\.export\.save")


def test_files_that_are_no_model_are_told_what_they_are(server, root):
    model = variants.Small()
    torch.save(model.state_dict(), root / "weights.pt")
    refused(server, "weights.pt", "weights|state_dict")
    torch.save(model, root / "pickled.pt")
    refused(server, "pickled.pt", "pickle|torch.save")
    torch.save(torch.ones(3), root / "tensor.pt2")
    refused(server, "tensor.pt2", r"torch\.export|no (exported|torch)")
    (root / "text.pt").write_text("import torch\n")
    refused(server, "text.pt", "zip|archive|TorchScript")
    (root / "empty.pt2").write_bytes(b"")
    refused(server, "empty.pt2", "empty|zip|archive")
    (root / "folder.pt2").mkdir()
    refused(server, "folder.pt2", "folder|directory|file")
    refused(server, "nowhere.pt2", r"nowhere\.pt2")
    (root / "swapped.pt").write_bytes((root / "good.pt2").read_bytes())
    found = server.call(
        **{**GOOD, "model": "swapped.pt"}
    )  # by what it is, or an error that says so
    assert not found.get("isError") or "pt2" in text_of(found)
    is_good(server)


def test_inputs_that_do_not_fit_are_said_in_words(server):
    refused(server, "good.pt2", "input|argument|shape|size", input=["float32[5,9]"])
    refused(server, "good.pt2", "input|argument", input=[])
    refused(server, "good.pt", "input|argument", input=["float32[5,8]", "float32[5,8]"])
    refused(server, "good.pt2", "float33", input=["float33[5,8]"])
    is_good(server)


def test_what_is_outside_of_the_root_is_not_opened(server, root):
    outside = root.parent / "outside.pt2"
    outside.write_bytes((root / "good.pt2").read_bytes())
    for words in ("../outside.pt2", str(outside)):
        assert server.call(**{**GOOD, "model": words})["isError"]


# --- workers that die ---


def killed(server: Server, model: str, how: signal.Signals) -> str:
    """The text of the error of a model that runs for ever, whose process somebody ends."""
    before = {each: processor_time(each) for each in workers_below(server.process.pid)}
    number = server.begin(model=model, input=["float32[5,8]"], timeout_s=60)

    def busy() -> list[int]:
        """Those that work now, the busiest first."""
        used = {
            each: processor_time(each) - before.get(each, 0.0)
            for each in workers_below(server.process.pid)
        }
        return sorted((each for each in used if used[each] > 1.5), key=lambda e: -used[e])

    wait_for(busy)
    victim = busy()[0]
    os.kill(victim, how)
    found = server.answer(number, LONGEST)["result"]
    text = text_of(found)
    assert found["isError"] and "internal error" not in text.lower()
    assert re.search(rf"signal {int(how)}|{how.name}", text), text
    wait_for(lambda: not busy())
    return text


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGABRT])
def test_a_worker_that_dies_while_a_model_runs_is_one_error(how, server, root):
    torch.jit.save(scripted(Endless()), str(root / "endless.pt"))
    killed(server, "endless.pt", how)
    is_good(server)


class Talking(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(1000):  # more than a buffer holds
            print("a word of the first")
        while bool(x.numel() > 0):
            x = x * 1.0
        return x


def test_what_one_model_prints_is_not_quoted_of_the_next(server, root):
    torch.jit.save(scripted(Endless()), str(root / "endless.pt"))
    torch.jit.save(scripted(Talking()), str(root / "talking.pt"))
    assert "a word of the first" in killed(server, "talking.pt", signal.SIGABRT)
    assert "a word of the first" not in killed(server, "endless.pt", signal.SIGABRT)


def test_without_leave_nothing_is_run(root, worker):
    made = Server(root)
    try:
        found = made.call(**GOOD)
        assert found["isError"] and "--allow-exec" in text_of(found)
        assert not workers_below(made.process.pid)
    finally:
        made.close()
