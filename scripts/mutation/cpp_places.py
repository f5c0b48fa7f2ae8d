"""Where a C++ source can be changed, found by its tokens.

What the code says in strings, comments, directives and static_assert is never touched, nor what it
logs. clang-format has put spaces around every binary operator and around no template's brackets,
which tells the two apart. A change that does not compile costs a compilation and is not counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mutation.mutant import Mutant, other_numbers

TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<string>(?:u8|u|U|L)?R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"
             | (?:u8|u|U|L)?"(?:[^"\\\n]|\\.)*" | (?:u8|u|U|L)?'(?:[^'\\\n]|\\.)*')
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<operator><=>|<<=|>>=|->\*|\.\.\.|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\|
               | [-+*/%&|^]=|[^\s\w])
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
OTHER = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "&&": "||",
    "||": "&&",
    "+": "-",
    "-": "+",
    "*": "/",
    "/": "*",
    "%": "*",
    "+=": "-=",
    "-=": "+=",
    "*=": "/=",
    "/=": "*=",
}
CLOSES = {"(": ")", "[": "]", "{": "}"}
LOGS = re.compile(r"(log::\w+|spdlog::\w+|LOG\w*|assert)$")
# A statement that opens with one of these declares, or holds other statements.
NO_STATEMENTS = set(
    "if for while switch do else try catch case default return using namespace template class "
    "struct enum union typedef public private protected const constexpr static extern auto goto "
    "friend operator static_assert".split()
)


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


class Source:
    """The tokens of a text that are code, and which bracket closes which."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [
            Token(found.lastgroup or "string", found.group(), found.start(), found.end())
            for found in TOKEN.finditer(text)
            if found.group("comment") is None and found.group("directive") is None
        ]
        self.closing: dict[int, int] = {}
        open_brackets: list[int] = []
        for i, token in enumerate(self.tokens):
            if token.kind != "operator":
                continue
            if token.text in CLOSES:
                open_brackets.append(i)
            elif token.text in CLOSES.values() and open_brackets:
                self.closing[open_brackets.pop()] = i
        self.opening = {close: opened for opened, close in self.closing.items()}

    def is_(self, i: int, *texts: str) -> bool:
        return 0 <= i < len(self.tokens) and self.tokens[i].text in texts

    def is_spaced(self, token: Token) -> bool:
        around = self.text[token.start - 1 : token.start], self.text[token.end : token.end + 1]
        return all(side.isspace() for side in around)

    def end_of_statement(self, i: int) -> int | None:
        """The index of the `;` that ends what begins at `i`."""
        while i < len(self.tokens) and not self.is_(i, ";"):
            if self.is_(i, *CLOSES.values()):
                return None
            i = self.closing.get(i, i) + 1
        return i if i < len(self.tokens) else None

    def callee(self, i: int) -> str:
        """The qualified name that is called at `i`, with what stands before it: `log::Warn`."""
        end = i
        while self.is_(end + 1, "::") and end + 2 < len(self.tokens):
            end += 2
        return self.text[self.tokens[i].start : self.tokens[end].end]


def spared(source: Source) -> set[int]:
    """The tokens of static_assert and of what is logged."""
    left_out: set[int] = set()
    for i, token in enumerate(source.tokens):
        if token.kind != "name" or source.is_(i - 1, "::", ".", "->"):
            continue
        if token.text == "static_assert" or LOGS.match(source.callee(i)):
            end = source.end_of_statement(i)
            left_out.update(range(i, len(source.tokens) if end is None else end + 1))
    return left_out


def condition(source: Source, i: int) -> list[Mutant]:
    """`if (…)` at `i` made true and false, `while (…)` false: true would only hang."""
    close = source.closing.get(i + 1)
    if not source.is_(i + 1, "(") or close is None:
        return []
    first = j = i + 2
    declares = False  # what the branch uses
    while j < close:
        if source.is_(j, ";"):
            first, declares = j + 1, False
        declares = declares or source.is_(j, "=")
        j = source.closing.get(j, j) + 1
    if declares or first >= close or source.is_(first, "true", "false"):
        return []
    start, end = source.tokens[first].start, source.tokens[close - 1].end
    values = ("true", "false") if source.tokens[i].text == "if" else ("false",)
    return [Mutant(start, end, value) for value in values]


def returned(source: Source, i: int) -> list[Mutant]:
    end = source.end_of_statement(i + 1)
    if end is None or end == i + 1 or source.is_(i + 1, "{", "true", "false", "nullptr"):
        return []
    start, stop = source.tokens[i + 1].start, source.tokens[end - 1].end
    found = [Mutant(start, stop, "{}")]
    if any(source.is_(j, "&&", "||", "==", "!=", "!", "<", ">", "<=", ">=") for j in range(i, end)):
        found.append(Mutant(start, stop, "true"))
    return found


def statement(source: Source, i: int) -> list[Mutant]:
    """The statement at `i` taken out, where one begins that is not a declaration."""
    before = i - 1
    heads = False
    if source.is_(before, ")"):
        opened = source.opening.get(before, 0)
        heads = source.is_(opened - 1, "if", "for", "while", "constexpr")
    if not heads and not source.is_(before, ";", "{", "}", "else", ":"):
        return []
    token = source.tokens[i]
    if token.text in NO_STATEMENTS or (token.kind != "name" and token.text not in "(*"):
        return []
    end = source.end_of_statement(i)
    if end is None:
        return []
    # `Type name` has a space before what it is given, `name = …` and `Call(…)` have not.
    head = source.text[token.start : source.tokens[end].start]
    if token.text not in "(*" and re.search(r"\s", re.split(r"\s?[-+*/|&]?=[^=]|[(;]", head)[0]):
        return []
    return [Mutant(token.start, source.tokens[end].end, ";")]


def mutants_of(text: str) -> list[Mutant]:
    source = Source(text)
    left_out = spared(source)
    found: list[Mutant] = []
    for i, token in enumerate(source.tokens):
        if i in left_out:
            continue
        if token.kind == "number":
            found += [Mutant(token.start, token.end, new) for new in other_numbers(token.text)]
        elif token.text in ("true", "false"):
            found.append(
                Mutant(token.start, token.end, "false" if token.text == "true" else "true")
            )
        elif token.text in OTHER and token.kind == "operator" and source.is_spaced(token):
            found.append(Mutant(token.start, token.end, OTHER[token.text]))
        elif token.text in ("++", "--"):
            found.append(Mutant(token.start, token.end, "--" if token.text == "++" else "++"))
        elif token.text == "!" and not source.is_(i + 1, "="):
            found.append(Mutant(token.start, token.end, ""))
        elif token.text in ("if", "while"):
            found += condition(source, i)
        elif token.text == "return":
            found += returned(source, i)
        found += statement(source, i)
    return found
