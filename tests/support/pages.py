"""Pages: the Markdown files that people read, as blocks and links.

Here: how a page is read. Not here: how a block is run (clone.py) and where links may lead
(test_doc_links.py, test_bank_pages.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
# the texts of the packaged skill bank, which agents read
BANK = ROOT / "src" / "tao_sdk" / "skill_bank"
BANK_PAGES = sorted(BANK.rglob("*.md"))

SHELL = frozenset({"sh", "bash", "shell"})
PYTHON = frozenset({"python", "py"})
SHOWN = frozenset({"text", "yaml", "json", "toml", "markdown", "diff"})  # nothing to run

_FENCE = re.compile(r"^ *```+ *([\w-]*) *$")
_MARK = re.compile(r"<!-- *(not run here|prints)(?:: *(.+?))? *-->")
_LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block. `why_not_run` is the reason that the page gives; `printed`: it shows what the
    block before it prints.
    """

    language: str
    text: str
    line: int
    why_not_run: str = ""
    printed: bool = False

    @property
    def runnable(self) -> bool:
        return self.language in SHELL | PYTHON


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order. A mark stands in the last line with
    text before it.
    """
    found: list[Block] = []
    inside: list[str] | None = None
    language, begun, before = "", 0, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if inside is None and fence:
            inside, language, begun = [], fence[1], number
        elif inside is not None and fence and not fence[1]:
            found.append(_block(language, inside, begun, before))
            inside, before = None, ""
        elif inside is not None:
            inside.append(line)
        elif line.strip():
            before = line.strip()
    assert inside is None, f"{page.name}:{begun}: this block has no end"
    return found


def _block(language: str, lines: list[str], line: int, before: str) -> Block:
    mark = _MARK.fullmatch(before)
    word, reason = (mark[1], mark[2] or "") if mark else ("", "")
    indent = min((len(each) - len(each.lstrip()) for each in lines if each.strip()), default=0)
    text = "".join(f"{each[indent:]}\n" for each in lines)
    return Block(language, text, line, reason if word == "not run here" else "", word == "prints")


def links(page: Path) -> Iterator[tuple[int, str]]:
    """(line, target) of every link outside of blocks."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield from (
                (number, match[1]) for match in _LINK.finditer(re.sub(r"`[^`]*`", "", line))
            )


def anchors(page: Path) -> set[str]:
    """The names under which the headings of a page can be linked to."""
    fenced, found = False, set[str]()
    for line in page.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (heading := re.match(r"#+ +(.+?) *#*$", line)):
            found.add(re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-"))
    return found
