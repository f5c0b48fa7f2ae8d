"""The child of the server's tool choose_precision: as that of auto_diff."""

from __future__ import annotations

from typing import Any

from ..diff.__main__ import Say, serve


def _answer(request: dict[str, Any], say: Say) -> dict[str, Any]:
    from . import choose_request

    return choose_request(request, say)


if __name__ == "__main__":
    serve("choose_precision", _answer)
