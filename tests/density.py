"""Measure how dense code is: ``python -m tests.density [FOLDER...]``.

Without a folder, it measures ``rt_frames``. It counts neither comments and docstrings
nor tables, which are displays assigned at the level of a module.
"""

from __future__ import annotations

import ast
import bisect
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import NamedTuple

LARGE = 220  # tokens of a function
_LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)
_DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.Tuple)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Place = tuple[int, int]


class Function(NamedTuple):
    """A function and its number of tokens."""

    tokens: int
    statements: int
    name: str


class Measures(NamedTuple):
    """Counts of some files."""

    tokens: int
    statements: int
    tuples: int
    comprehensions: int
    functions: list[Function]


def main(folders: list[str]) -> None:
    """Print the measures of each folder, and the tokens of each subfolder."""
    if "--help" in folders:
        print(__doc__)
        return
    for folder in folders or ["rt_frames"]:
        files = sorted(Path(folder).rglob("*.py"))
        if not files:
            raise SystemExit(f"{folder} is not a folder with Python files")
        by_folder = Counter[str]()
        found = []
        for file in files:
            measures = measure(file.read_text(), str(file))
            by_folder[str(file.parent)] += measures.tokens
            found.append(measures)
        _print(folder, found)
        for name, tokens in sorted(by_folder.items()):
            print(f"  {tokens:7,} tokens in {name}")


def _print(folder: str, found: list[Measures]) -> None:
    tokens = sum(one.tokens for one in found)
    statements = sum(one.statements for one in found)
    functions = sorted(function for one in found for function in one.functions)
    large = [function for function in functions if function.tokens > LARGE]
    comprehensions = sum(one.comprehensions for one in found)
    print(
        f"{folder}: {tokens:,} tokens in {statements:,} statements, {len(found)} files"
    )
    print(f"  {tokens / statements:7.1f} tokens per statement")
    print(
        f"  {sum(one.tuples for one in found):7} assignments of unrelated values to several names"
    )
    in_100 = 100 * comprehensions / statements
    print(
        f"  {in_100:7.1f} comprehensions and conditional expressions in 100 statements"
    )
    print(
        f"  {10_000 * len(large) / tokens:7.1f} functions over {LARGE} tokens in 10,000 tokens"
    )
    print("  the largest functions, and those with most tokens per statement:")
    for function in [*functions[:-11:-1], *sorted(functions, key=_density)[:-11:-1]]:
        density = _density(function)
        print(
            f"  {function.tokens:7} tokens, {density:4.1f} per statement: {function.name}"
        )


def _density(function: Function) -> float:
    return function.tokens / max(function.statements, 3)


def measure(source: str, name: str = "") -> Measures:
    """Measure a file."""
    tree = ast.parse(source)
    left_out = [_span(node) for node in ast.walk(tree) if _is_docstring(node)]
    tables = [node for node in tree.body if _is_table(node)]
    left_out += [_span(node) for node in tables]
    starts = _token_starts(source, left_out)
    inside_tables = {id(inside) for node in tables for inside in ast.walk(node)}
    nodes = [node for node in ast.walk(tree) if id(node) not in inside_tables]
    docstrings = len(left_out) - len(tables)
    functions = []
    for node in nodes:
        if isinstance(node, _FUNCTIONS):
            inside = _count_statements(list(ast.walk(node))) - bool(
                ast.get_docstring(node)
            )
            functions.append(
                Function(
                    _count(starts, _span(node)),
                    inside,
                    f"{name}:{node.lineno} {node.name}",
                )
            )
    return Measures(
        len(starts),
        _count_statements(nodes) - docstrings,
        sum(map(_is_unrelated, nodes)),
        sum(isinstance(node, _COMPREHENSIONS) for node in nodes),
        functions,
    )


def _token_starts(source: str, left_out: list[tuple[Place, Place]]) -> list[Place]:
    """Return where each token starts.

    An f-string is one token, as it was before Python 3.12.
    """
    starts = []
    inside = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        inside -= kind in ("FSTRING_END", "TSTRING_END")
        counts = (
            not inside
            and token.type not in _LAYOUT
            and kind not in ("FSTRING_END", "TSTRING_END")
        )
        if counts and not any(start <= token.start < end for start, end in left_out):
            starts.append(token.start)
        inside += kind in ("FSTRING_START", "TSTRING_START")
    return starts


def _count(starts: list[Place], span: tuple[Place, Place]) -> int:
    first, last = span
    return bisect.bisect_left(starts, last) - bisect.bisect_left(starts, first)


def _count_statements(nodes: list[ast.AST]) -> int:
    return sum(isinstance(node, ast.stmt) for node in nodes)


def _span(node: ast.AST) -> tuple[Place, Place]:
    """Return the start and end of a node, in the positions of tokens.

    Tokens count characters and nodes count bytes: equal for ASCII, as most lines are.
    """
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_table(node: ast.stmt) -> bool:
    value = (
        node.value
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        else None
    )
    return isinstance(value, _DISPLAYS)


def _is_unrelated(node: ast.AST) -> bool:
    """Return whether several names are given values that are no permutation of them."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    (target, *_) = node.targets
    if not isinstance(target, ast.Tuple) or len(target.elts) != len(node.value.elts):
        return False
    return sorted(map(ast.unparse, target.elts)) != sorted(
        map(ast.unparse, node.value.elts)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
