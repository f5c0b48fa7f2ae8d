"""Where a Python source can be changed, found by its syntax tree.

Strings, annotations and what is logged or warned of are never touched.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from mutation.mutant import Mutant, other_numbers

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
}
LOGS = re.compile(r"(log|logger|logging|warnings)\.\w+$")


class Places(ast.NodeVisitor):
    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Mutant] = []
        self.lines = [0]
        for line in text.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        # (start, end, text) of every token but strings and comments.
        self.tokens = [
            (self.lines[t.start[0] - 1] + t.start[1], self.lines[t.end[0] - 1] + t.end[1], t.string)
            for t in tokenize.generate_tokens(io.StringIO(text).readline)
            if t.type in (tokenize.OP, tokenize.NAME, tokenize.NUMBER)
        ]

    # --- positions ---
    def at(self, line: int, column: int) -> int:
        start = self.lines[line - 1]
        before = self.text[start : self.lines[line]].encode()[:column]
        return start + len(before.decode())

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self.at(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.at(node.end_lineno, node.end_col_offset)

    def put(self, node: ast.expr | ast.stmt, new: str) -> None:
        self.found.append(Mutant(self.start(node), self.end(node), new))

    def put_between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Between two operands: their brackets, comments and one operator."""
        words = old.split()
        inside = [t for t in self.tokens if self.end(left) <= t[0] and t[1] <= self.start(right)]
        for i in range(len(inside) - len(words) + 1):
            if [t[2] for t in inside[i : i + len(words)]] == words:
                self.found.append(Mutant(inside[i][0], inside[i + len(words) - 1][1], new))
                return

    # --- what is left alone ---
    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in [*node.defaults, *node.kw_defaults]:
            if default is not None:
                self.visit(default)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit(node.args)
        self.visit_all(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_all(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id in ("Callable", "Literal")):
            self.generic_visit(node)

    def visit_all(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self.visit(node)

    # --- what is changed ---
    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for i, operator in enumerate(node.ops):
            self.put_between(operands[i], operands[i + 1], *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.put_between(left, right, old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        change = ARITHMETIC.get(type(node.op))
        texts = [n for n in (node.left, node.right) if is_text(n)]
        if change and not texts:
            self.put_between(node.left, node.right, *change)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.found.append(Mutant(self.start(node), self.start(node.operand), ""))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.put(node, str(not node.value))
        elif isinstance(node.value, (int, float)):
            for new in other_numbers(self.text[self.start(node) : self.end(node)]):
                self.put(node, new)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            if not isinstance(node.value, ast.Constant) or node.value.value is not None:
                self.put(node.value, "None")
            self.visit(node.value)

    def put_condition(self, test: ast.expr) -> None:
        if ast.unparse(test) not in ("TYPE_CHECKING", "True", "False"):
            self.put(test, "True")
            self.put(test, "False")

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        self.put_condition(node.test)
        self.generic_visit(node)

    visit_IfExp = visit_If

    def visit_While(self, node: ast.While) -> None:
        self.put(node.test, "False")  # True would only hang
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.put_condition(test)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and LOGS.match(ast.unparse(node.value.func)):
            return
        if not isinstance(node.value, ast.Constant):
            self.put(node, "pass")
            self.generic_visit(node)

    def visit_taken_out(self, node: ast.stmt) -> None:
        self.put(node, "pass")
        self.generic_visit(node)

    visit_Continue = visit_Break = visit_Raise = visit_Delete = visit_taken_out

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit_taken_out(node)
        change = ARITHMETIC.get(type(node.op))
        if change and not is_text(node.value):
            self.put_between_target(node, *change)

    def put_between_target(self, node: ast.AugAssign, old: str, new: str) -> None:
        for start, end, text in self.tokens:
            if self.end(node.target) <= start < self.start(node.value) and text == old + "=":
                self.found.append(Mutant(start, end, new + "="))

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets):
            self.put(node, "pass")
        self.generic_visit(node)


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def mutants_of(text: str) -> list[Mutant]:
    places = Places(text)
    places.visit(ast.parse(text))
    return list(unique(places.found))


def unique(mutants: list[Mutant]) -> Iterator[Mutant]:
    yield from dict.fromkeys(mutants)
