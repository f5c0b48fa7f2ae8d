"""What a user of auto_diff can do something about."""

from __future__ import annotations


class Problem(Exception):
    """What is wrong, and what to try. `kind`: as in the answers of the server."""

    def __init__(self, message: str, advice: str = "", kind: str = "InvalidInput") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.kind = kind
