"""Arguments of a constructor in words: `16`, `1e-5`, `(3, 4)`, `None`, `n=64`. A command line has
words only; what reads as a literal of Python is one.
"""

from __future__ import annotations

import ast
import re
from typing import Any

_NAMED = re.compile(r"([A-Za-z_]\w*)=(.+)$", re.DOTALL)


def literal(word: Any) -> Any:
    """What `word` means; itself where it is no literal."""
    if not isinstance(word, str):
        return word
    try:
        return ast.literal_eval(word.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return word


def called_with(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments: `name=value` among the first is one of the second."""
    plain: list[Any] = []
    named: dict[str, Any] = {}
    for each in args:
        found = _NAMED.match(each) if isinstance(each, str) else None
        if found is None:
            plain.append(literal(each))
        else:
            named[found[1]] = literal(found[2])
    return plain, named | {name: literal(each) for name, each in kwargs.items()}
