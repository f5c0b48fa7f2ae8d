"""Writes the fuzzer's first inputs into a folder: what the transcripts and the corpora send."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
LONGEST = 600  # bytes: short ones run often, and the fuzzer grows them itself
KINDS = {None: b"0", "2024-11-05": b"1", "2025-03-26": b"2", "2025-06-18": b"3", "2025-11-25": b"4"}
NAMES = {  # of the product -> of the fuzzed server
    "search_knowledge": "echo",
    "static_check": "ask",
    "review_model_code": "greet",
    '"query"': '"text"',
    '"path"': '"name"',
    "mpnanny://knowledge/": "fuzz://item/",
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "roots": {}},
}
SMALL = {
    b"e": ["1-2", "0-0", "18446744073709551615-1", "1", "-", "01-1", "1-2-3"],
    b"s": ["", "AAAA", "A" * 80, "=?base64?"],
    b"u": [
        "fuzz://item/a%20b",
        "fuzz://item/%2f%zz",
        "fuzz://run/x%231/summary",
        "a#b#12",
        "#",
        "%",
    ],
    b"c": [
        "tools:200",
        "tools:400",
        "tools:0",
        "prompts:200",
        "tools:-1",
        "tools:99999999999999999999",
    ],
}


def text_of(send: Any) -> bytes | None:
    """The bytes of a corpus line's `send`; None for one that is generated at length."""
    if isinstance(send, str):
        return send.encode()
    if isinstance(send, dict):
        return json.dumps(send, ensure_ascii=False, separators=(",", ":")).encode()
    parts = b""
    for part in send:
        if isinstance(part, str):
            parts += part.encode()
        elif "hex" in part:
            parts += bytes.fromhex(part["hex"])
        elif "repeat" in part:
            parts += part["repeat"].encode() * min(part["times"], 70)
        else:
            return None
    return parts


def modern(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}


def inputs() -> list[bytes]:
    found: list[bytes] = []
    for path in sorted(TESTS.glob("transcripts/*.jsonl")):
        session = b""
        for line in path.read_text(encoding="utf-8").strip().split("\n"):
            step = json.loads(line or "{}")
            sent = step.get("raw", step.get("send"))
            if sent is None:
                continue
            message = text_of(sent) or b""
            found.extend(kind + message for kind in (b"0", b"2", b"4"))
            session += message + b"\n"
        found.append(b"0" + session)
    for line in (TESTS / "hostile/stdio.jsonl").read_text(encoding="utf-8").strip().split("\n"):
        case = json.loads(line)
        sent = [text_of(each) for each in case.get("lines", [case.get("send")])]
        if None not in sent:
            kind = KINDS[case.get("initialized", "2025-11-25")]
            found.append(kind + b"\n".join(each for each in sent if each is not None))
    for line in (TESTS / "hostile/http.jsonl").read_text(encoding="utf-8").strip().split("\n"):
        case = json.loads(line)
        body = text_of(case.get("post", ""))
        if body is not None and case.get("headers"):
            headers = "".join(
                f"{name}:{value}\n" for name, value in case["headers"].items() if value
            )
            found.append(b"h" + headers.encode() + b"\n" + body)
    for call in (
        modern(
            "tools/call", name="ask", arguments={}, inputResponses={"answer": {"action": "accept"}}
        ),
        modern(
            "tools/call",
            name="echo",
            arguments={"text": "a", "count": "3", "words": ["x"], "mode": "LOUD"},
        ),
        modern("resources/read", uri="fuzz://item/b%20c"),
        modern(
            "subscriptions/listen",
            notifications={"toolsListChanged": True, "resourceSubscriptions": ["fuzz://fixed"]},
        ),
        modern(
            "completion/complete",
            ref={"type": "ref/prompt", "name": "greet"},
            argument={"name": "tone", "value": "w"},
        ),
    ):
        body = json.dumps(call)
        name = call["params"].get("name", call["params"].get("uri", ""))
        head = (
            "Host:localhost:1\nAuthorization:Bearer secret\nMCP-Protocol-Version:2026-07-28\n"
            f"Mcp-Method:{call['method']}\nMcp-Name:{name}\nMcp-Param-Text:=?base64?YQ==?=\n"
        )
        found += [
            b"0" + body.encode(),
            b"h" + (head + "\n" + body).encode(),
        ]
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask"}}
    session = [ask]
    session += [
        {"jsonrpc": "2.0", "id": f"mpnanny-{n}", "result": {"action": "accept"}}
        for n in range(1, 5)
    ]
    found.append(b"4" + b"\n".join(json.dumps(each).encode() for each in session))
    found += [kind + text.encode() for kind, texts in SMALL.items() for text in texts]
    return found


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    for seed in inputs():
        text = seed
        for name, other in NAMES.items():
            text = text.replace(name.encode(), other.encode())
        for each in (seed, text):
            if len(each) <= LONGEST:
                written.add(each)
    for each in written:
        (folder / hashlib.sha1(each).hexdigest()).write_bytes(each)
    print(f"{len(written)} seeds")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
