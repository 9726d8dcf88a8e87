"""The table of reasons in docs/failures.md. `PYTHONPATH=tests python -m support.reason_table`
writes it anew.
"""

from __future__ import annotations

import ast
from itertools import pairwise

from support.pages import ROOT

PAGE = ROOT / "docs" / "failures.md"
SOURCE = ROOT / "src" / "tao_sdk" / "model" / "reasons.py"
BEGIN, END = "<!-- reasons: begin -->\n", "<!-- reasons: end -->\n"


def meanings() -> dict[str, str]:
    """Reason -> the line below it in the source."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef))
    found: dict[str, str] = {}
    for member, line in pairwise(body):
        if isinstance(member, ast.Assign) and isinstance(line, ast.Expr):
            found[ast.literal_eval(member.value)] = ast.literal_eval(line.value)
    return found


def table() -> str:
    rows = [f"| `{reason}` | {meaning} |\n" for reason, meaning in meanings().items()]
    return "| code | meaning |\n|---|---|\n" + "".join(rows)


def parts() -> tuple[str, str, str]:
    """What stands before the table, the table, and what stands behind it."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    return before, shown, after


if __name__ == "__main__":
    before, _, after = parts()
    PAGE.write_text(f"{before}{BEGIN}{table()}{END}{after}", encoding="utf-8")
