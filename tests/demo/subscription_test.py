"""Clients that subscribed to a run hear of its new alerts: a training under the monitor goes on
while the built server is asked over stdio, in both eras.
"""

import json
import pathlib
import queue
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from mpnanny import MixedPrecisionNanny

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/bin/mpnanny"
PATIENCE = 60  # seconds; the server looks once a second
QUIET = 3


class Client:
    """The server's other end: what it says lands in a queue."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--root", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(json.loads(line))

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        return self.said.get(timeout=PATIENCE)

    def is_silent(self) -> bool:
        time.sleep(QUIET)
        return self.said.empty()


class Training:
    """Two layers; a step is healthy, or the second layer gives Inf."""

    def __init__(self, db: pathlib.Path) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.nanny = MixedPrecisionNanny(
            self.model, optimizer=self.optimizer, db=str(db), trace_interval=5, quiet=True
        )
        self.count = 0

    def step(self, broken: bool = False) -> None:
        if broken:
            with torch.no_grad():
                self.model[1].bias.fill_(float("inf"))
        with self.nanny.step(self.count) as record:
            loss = self.model(torch.ones(2, 4)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            record.log(loss=loss)
        self.count += 1


@pytest.fixture
def training(tmp_path: pathlib.Path) -> Iterator[Training]:
    going_on = Training(tmp_path / "metrics.db")
    for _ in range(10):
        going_on.step()
    time.sleep(1)  # written by now
    yield going_on
    going_on.nanny.close()


@pytest.fixture
def client(tmp_path: pathlib.Path) -> Iterator[Client]:
    one = Client(tmp_path)
    yield one
    assert one.process.stdin is not None
    one.process.stdin.close()
    assert one.process.wait(timeout=PATIENCE) == 0


@pytest.fixture
def uri(tmp_path: pathlib.Path) -> str:
    handle = urllib.parse.quote(f"{tmp_path}/metrics.db#1", safe="")
    return f"mpnanny://runs/{handle}/summary"


def test_legacy_client_hears_of_new_alerts_and_of_the_end(
    training: Training, client: Client, uri: str
) -> None:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    client.send({"id": 1, "method": "initialize", "params": params})
    assert client.read()["result"]["capabilities"]["resources"]["subscribe"] is True
    client.send({"method": "notifications/initialized"})
    client.send({"id": 2, "method": "resources/subscribe", "params": {"uri": uri}})
    assert client.read() == {"jsonrpc": "2.0", "id": 2, "result": {}}
    for _ in range(10):
        training.step()
    assert client.is_silent(), "steps are no news"
    training.step(broken=True)
    told = client.read()
    assert told["method"] == "notifications/resources/updated"
    assert told["params"]["uri"] == uri
    client.send({"id": 3, "method": "resources/read", "params": {"uri": uri}})
    answer = client.read()
    while "id" not in answer:  # more alerts of the same step may have come
        answer = client.read()
    assert "ERROR" in answer["result"]["contents"][0]["text"]
    assert client.is_silent() or client.said.get()["method"].endswith("updated")
    training.nanny.close()
    assert client.read()["params"]["uri"] == uri
    client.send({"id": 4, "method": "resources/unsubscribe", "params": {"uri": uri}})
    assert client.read()["result"] == {}


def test_modern_client_hears_of_new_alerts(training: Training, client: Client, uri: str) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    outside = "mpnanny://runs/%2Fetc%2Fpasswd/summary"
    params = {"notifications": {"resourceSubscriptions": [uri, outside]}, "_meta": meta}
    client.send({"id": "watch", "method": "subscriptions/listen", "params": params})
    assert client.read()["method"] == "notifications/subscriptions/acknowledged"
    for _ in range(10):
        training.step()
    assert client.is_silent(), "steps are no news"
    training.step(broken=True)
    told = client.read()
    assert told["method"] == "notifications/resources/updated"
    assert told["params"]["uri"] == uri
    assert told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "watch"
