"""Links lead somewhere: to a page, a heading of it, or a file of the repository. Nothing outside is
asked.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import PAGES, ROOT, anchors, links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = [
        f"{page.name}:{line}: {target}"
        for line, target in links(page)
        if not leads_somewhere(page, target)
    ]
    assert not broken


def leads_somewhere(page: Path, target: str) -> bool:
    if target.startswith(("https://", "mailto:")):
        return True
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    inside = there.is_relative_to(ROOT) and there.exists()
    return inside and (not anchor or anchor in anchors(there))


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = [(page.parent / target.partition("#")[0]).resolve() for _, target in links(page)]
        ahead += [target for target in targets if target.suffix == ".md" and target.is_file()]
    assert not [page.name for page in PAGES if page not in reached]
