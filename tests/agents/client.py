"""A small MCP client over stdin and stdout: starts a server, asks it, ends it."""

import json
import subprocess
import threading
from types import TracebackType
from typing import Any

REVISION = "2025-06-18"  # of the protocol


class Client:
    """One session with the server that `command` starts; it is killed after `seconds`."""

    def __init__(self, command: list[str], seconds: float) -> None:
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._timer = threading.Timer(seconds, self._server.kill)
        self._timer.start()
        self._id = 0
        hello = self._ask(
            "initialize",
            {
                "protocolVersion": REVISION,
                "capabilities": {},
                "clientInfo": {"name": "agents", "version": "1"},
            },
        )
        self.instructions: str = hello.get("instructions", "")
        self._send({"method": "notifications/initialized"})

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        self._server.kill()
        self._server.communicate()

    def tools(self) -> list[dict[str, Any]]:
        """All pages of tools/list."""
        page = self._ask("tools/list", {})
        found: list[dict[str, Any]] = page["tools"]
        while page.get("nextCursor"):
            page = self._ask("tools/list", {"cursor": page["nextCursor"]})
            found += page["tools"]
        return found

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result of tools/call; an error of the protocol comes back as an error of the tool."""
        return self._ask("tools/call", {"name": name, "arguments": arguments})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._server.stdin.flush()

    def _ask(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        self._send({"id": self._id, "method": method, "params": parameters})
        assert self._server.stdout is not None
        for line in self._server.stdout:
            message = json.loads(line)
            if message.get("id") != self._id or "method" in message:
                continue  # a notification; nothing was offered that the server could ask for
            if "error" in message:
                text = message["error"]["message"]
                return {"content": [{"type": "text", "text": text}], "isError": True, "tools": []}
            result: dict[str, Any] = message["result"]
            return result
        raise SystemExit("the server ended without an answer")
