"""Short names for the local variables and the positional parameters of packed functions.

Nobody outside a function sees them, so a packed module may call one `a` while its file calls it
`retained_files`: long names in the files cost a job no bytes. Names that others can see stay as
they are: parameters that a call may pass by keyword, attributes, imports, functions, and whatever
the module or Python itself has under that name.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from string import ascii_letters

BUILTINS = frozenset(dir(builtins))
WORD = re.compile(r"\b[A-Za-z_]\w*")
# a keyword of a call, or a text that may be a key of what a call passes with **
KEYWORD = re.compile(r"""\b(\w+)=|["'](\w+)["']""")

Use = ast.Name | ast.arg


def positional_names(texts: Iterable[str]) -> frozenset[str]:
    """The names in these modules that none of their calls can pass as a keyword."""
    everything = "\n".join(texts)
    keywords = {keyword for match in KEYWORD.findall(everything) for keyword in match}
    return frozenset(WORD.findall(everything)) - keywords


def shortened(tree: ast.Module, text: str, positional: Set[str]) -> Iterator[tuple[Use, str]]:
    """Each use of a local variable of the module, with the letter that replaces it there.

    A parameter whose name is in `positional` counts as a local variable.
    """
    lines = [line.encode() for line in text.splitlines()]
    shared = BUILTINS.union(*(names_bound_by(node) for node in module_level(tree)))
    for function in outermost_functions(tree):
        yield from shortened_in(function, shared, positional, lines)


def shortened_in(
    function: ast.FunctionDef, shared: frozenset[str], positional: Set[str], lines: list[bytes]
) -> Iterator[tuple[Use, str]]:
    """The same for one function and all functions inside it. Frequent names get letters first."""
    uses: dict[str, list[Use]] = defaultdict(list)
    variables: set[str] = set()
    visible = set(shared)
    for node in ast.walk(function):
        if isinstance(node, ast.arg) and node.arg in positional:
            uses[node.arg].append(node)
            variables.add(node.arg)
        elif isinstance(node, ast.Name):
            uses[node.id].append(node)
            if not isinstance(node.ctx, ast.Load):
                variables.add(node.id)
            if not stands_in(lines, node):
                visible.add(node.id)
        else:
            visible |= names_bound_by(node)
    frequent = sorted(variables - visible, key=lambda name: (-len(uses[name]), name))
    letters = iter(free_letters(visible.union(uses)))
    for name in frequent:
        letter = name
        if len(name) > 1:
            letter = next(letters, name)
        yield from ((node, letter) for node in uses[name])


def free_letters(taken: Set[str]) -> list[str]:
    """The letters that are not yet a name, small ones first."""
    return [letter for letter in ascii_letters if letter not in taken]


def names_bound_by(node: ast.AST) -> set[str]:
    """The names that a statement or a parameter gives a value."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.ExceptHandler(name=str(name)):
            return {name}
        case ast.alias():
            return {(node.asname or node.name).partition(".")[0]}
        case ast.Global() | ast.Nonlocal():
            return set(node.names)
        case _:
            return set()


def module_level(parent: ast.AST) -> Iterator[ast.AST]:
    """Every node that is not inside a function."""
    for node in ast.iter_child_nodes(parent):
        yield node
        if not isinstance(node, ast.FunctionDef):
            yield from module_level(node)


def outermost_functions(parent: ast.AST) -> Iterator[ast.FunctionDef]:
    """Functions and methods, without the functions inside them."""
    return (node for node in module_level(parent) if isinstance(node, ast.FunctionDef))


def stands_in(lines: list[bytes], node: ast.Name) -> bool:
    """True if the name is at the parser's position. Before Python 3.12 the parser may err inside
    f-strings.
    """
    return lines[node.lineno - 1].startswith(node.id.encode(), node.col_offset)
