"""The READMEs against the program: each command, option, tool and folder that they name exists, and
no command or tool is left out."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("MPNANNY_PROGRAM", ROOT / "build/release/bin/mpnanny"))
READMES = ["README.md", "README.zh-CN.md"]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


@functools.cache
def help_of(*words: str) -> str:
    """The command's help; empty where there is no such command."""
    command = [str(PROGRAM), *words, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else ""


def commands() -> list[str]:
    """All that `mpnanny --help` lists: lines of two spaces and a word below a heading."""
    found = re.findall(r"^  ([a-z]+)(?:, [a-z]+)* {2,}\S", help_of(), re.M)
    assert len(found) > 15, help_of()
    return found


def snippets(readme: str) -> list[str]:
    """Each line of the blocks, and each code span, that runs the program; without its comment."""
    text = (ROOT / readme).read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    spans = [span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", prose)]
    told = [part.split(" #")[0].strip() for part in [*lines, *spans]]
    return [part for part in told if re.match(r"mpnanny [a-zA-Z]", part)]


@pytest.mark.parametrize("readme", READMES)
def test_every_command_and_option_of_the_readme_exists(readme):
    found = snippets(readme)
    assert len(found) > 15
    wrong = []
    for snippet in found:
        words = snippet.split(" -- ")[0].replace("[", " ").replace("]", " ").split()[1:]
        if words[0].isupper():  # `mpnanny COMMAND --help`
            continue
        named = [words[0]]
        if len(words) > 1 and help_of(words[0], words[1]) and words[0] == "knowledge":
            named.append(words[1])
        text = help_of(*named)
        if not text or words[0] not in commands():
            wrong.append(f"{snippet}: no command {' '.join(named)}")
            continue
        known = set(OPTION.findall(text)) | {"--help"}
        wrong += [
            f"{snippet}: {' '.join(named)} has no {option}"
            for option in OPTION.findall(" ".join(words))
            if option not in known
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("readme", READMES)
def test_every_option_in_the_prose_is_one_of_the_program(readme):
    text = re.sub(r"^```.*?^```", "", (ROOT / readme).read_text(), flags=re.M | re.S)
    spans = re.findall(r"`([^`]+)`", text)
    known = {option for name in commands() for option in OPTION.findall(help_of(name))}
    for span in spans:
        if not span.startswith("./scripts/"):
            assert set(OPTION.findall(span)) <= known, span


@pytest.mark.parametrize("readme", READMES)
def test_every_command_stands_in_the_readme(readme):
    named = {snippet.split()[1] for snippet in snippets(readme)}
    assert [name for name in commands() if name not in named] == []


@pytest.mark.parametrize("readme", READMES)
def test_every_tool_stands_in_the_readme_by_its_name_or_its_command(readme):
    listed = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]  # fmt: skip
    asked = "".join(json.dumps(message) + "\n" for message in listed)
    done = subprocess.run([PROGRAM, "serve", "--root", ROOT], input=asked, capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    tools = json.loads(done.stdout.splitlines()[-1])["result"]["tools"]
    assert len(tools) > 5
    text = (ROOT / readme).read_text()
    left_out = []
    for tool in tools:
        snapshot = json.loads((ROOT / f"tests/snapshots/tools/{tool['name']}.json").read_text())
        command = f"mpnanny {snapshot['command']['name']}"
        if tool["name"] not in text and command not in text:
            left_out.append(tool["name"])
    assert left_out == []


@pytest.mark.parametrize("readme", READMES)
def test_every_file_and_folder_of_the_readme_exists(readme):
    text = (ROOT / readme).read_text()
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    folders = re.findall(r"`([a-z]+/)`", text)
    scripts = re.findall(r"(?<![\w.])\./(scripts/\w+)", text)
    for path in [*links, *(name for name in folders), *scripts]:
        assert (ROOT / path).exists(), path
