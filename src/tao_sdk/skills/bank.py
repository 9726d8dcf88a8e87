"""Banks: folders of skills. One is chosen, and nothing that it lacks is taken from another.

Two layouts: `skills/NAME/`, as in the public repository, and `skills/GROUP/NAME/`.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tao_sdk.model.printable import printable
from tao_sdk.model.surroundings import Surroundings, surroundings_here
from tao_sdk.skills.errors import BankError, BankNotFound
from tao_sdk.versions import USUAL_BANK

PACKAGED = Path(__file__).parents[1] / "skill_bank"
BANK_VARIABLE = "TAO_SKILL_BANK_PATH"
# folder of a group -> the kind of its skills
GROUPS = {
    "models": "model",
    "platform": "platform",
    "data": "data",
    "applications": "application",
    "core": "core",
}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MOST_ENTRIES = 5000  # in one folder
INFO = "skill_info.yaml"
SIDE_INFO = f".{INFO}"  # the end of a file for a further skill of the same folder


@dataclass(frozen=True)
class Entry:
    """The location of a skill in a bank. Nothing of the skill has been read."""

    name: str  # the name of its folder, or of its side file
    kind: str  # by its group; model where there are no groups
    folder: Path
    path: Path | None  # its skill_info.yaml; None if it has none

    @property
    def is_side(self) -> bool:
        """True for a further skill of another's folder, such as the TensorRT half of a model."""
        return self.name != self.folder.name


@dataclass(frozen=True)
class Bank:
    """A skill bank, and the setting that named it."""

    root: Path
    named_by: str

    @property
    def skills(self) -> Path:
        return self.root / "skills"

    @property
    def versions_file(self) -> Path | None:
        """The bank's own list of images; None if it has none."""
        path = self.root / "versions.yaml"
        return path if path.is_file() else None

    def entries(self) -> Iterator[Entry]:
        """All skills, by name. Raises BankError if a folder cannot be listed."""
        folders = [folder for group in self.groups() for folder in self.folders(group)]
        for folder in sorted(folders, key=lambda path: path.name):
            yield from self.entries_of(folder)

    def entries_of(self, folder: Path) -> Iterator[Entry]:
        """The skills of one folder: the folder's own skill, and those of its side files."""
        kind = self.kind_of(folder)
        if not NAME.fullmatch(folder.name):
            return
        yield Entry(folder.name, kind, folder, info_file(folder))
        for path in side_files(folder):
            yield Entry(path.name[: -len(SIDE_INFO)], kind, folder, path)

    def holds_nothing(self, folder: Path) -> bool:
        """True for a folder that was copied without its files."""
        has_text = os.path.lexists(folder / "SKILL.md")
        return not has_text and all(entry.path is None for entry in self.entries_of(folder))

    def kind_of(self, folder: Path) -> str:
        return GROUPS.get(folder.parent.name if folder.parent != self.skills else "", "model")

    def groups(self) -> list[Path]:
        """The folders that hold folders of skills."""
        named = [self.skills / name for name in GROUPS]
        return [self.skills, *(group for group in named if is_group(group))]

    def folders(self, group: Path) -> list[Path]:
        """The folders of skills in a group."""
        groups = set(self.groups())
        return [path for path in list_folder(group) if path.is_dir() and path not in groups]

    def folders_named(self, name: str) -> list[Path]:
        """The folders of one skill, found without listing any: one, unless two groups have it."""
        if not NAME.fullmatch(name):
            return []
        places = [group / name for group in self.groups()]
        groups = set(self.groups())
        return [place for place in places if place.is_dir() and place not in groups]


def is_group(folder: Path) -> bool:
    """True unless the folder is a skill itself, which may be called `data`."""
    return folder.is_dir() and info_file(folder) is None and not (folder / "SKILL.md").exists()


def info_file(folder: Path) -> Path | None:
    """The skill's file. A link counts as a file here: its target is checked when it is read."""
    candidates = (folder / "references" / INFO, folder / INFO)
    return next((path for path in candidates if os.path.lexists(path)), None)


def side_files(folder: Path) -> list[Path]:
    references = folder / "references"
    if not references.is_dir():
        return []
    found = [path for path in list_folder(references) if path.name.endswith(SIDE_INFO)]
    return [path for path in found if NAME.fullmatch(path.name[: -len(SIDE_INFO)])]


def list_folder(folder: Path) -> list[Path]:
    """The entries of a folder, by name. Raises BankError."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, MOST_ENTRIES + 1)]
    except OSError as error:
        raise BankError(
            f"{folder} cannot be listed: {error.strerror}.", "", "Check its permissions."
        ) from None
    if len(names) > MOST_ENTRIES:
        raise BankError(
            f"{folder} has more than {MOST_ENTRIES} entries.",
            "No skill bank has so many.",
            "Name the folder of a skill bank.",
        )
    return [folder / name for name in sorted(names)]


def choose_bank(named: str | Path | None = None, settings: Surroundings | None = None) -> Bank:
    """The bank that is named, else that of $TAO_SKILL_BANK_PATH, else ~/tao-skills-external if it
    is there, else the one in this package. Raises BankError, BankNotFound.
    """
    settings = settings or surroundings_here()
    if named:
        return open_bank(Path(named), "--skill-bank")
    if variable := settings.get(BANK_VARIABLE):
        return open_bank(Path(variable), BANK_VARIABLE)
    usual = settings.home / USUAL_BANK
    if os.path.lexists(usual):
        return open_bank(usual, f"~/{USUAL_BANK}")
    return Bank(PACKAGED, "this package")


def open_bank(path: Path, named_by: str) -> Bank:
    """The bank at a path. Raises BankNotFound if nothing is there, BankError if it is no bank."""
    root = expanded(path, named_by).absolute()
    try:
        refuse_no_bank(root, named_by)
    except OSError as error:
        raise BankError(
            f"{printable(str(root))} cannot be opened: {error.strerror}.",
            f"{named_by} names it.",
            "Name another folder, or check its permissions.",
        ) from None
    return Bank(root, named_by)


def refuse_no_bank(root: Path, named_by: str) -> None:
    """Raise BankNotFound or BankError for a path that is no bank."""
    shown = printable(str(root))
    if not root.exists():
        raise BankNotFound(
            f"There is no skill bank at {shown}.",
            f"{named_by} names it.",
            "Name one that is there, or write ours there:",
            "tao skills install",
        )
    if not (root / "skills").is_dir():
        above = root.name == "skills" and root.is_dir()
        hint = (
            f"Name the folder above it: {root.parent}" if above else "Copy the bank again, whole."
        )
        raise BankError(
            f"{shown} is no skill bank: it has no folder skills.", f"{named_by} names it.", hint
        )


def expanded(path: Path, named_by: str) -> Path:
    """The path with `~` as the home."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise BankNotFound(
            f"{printable(str(path))} names the home of nobody.",
            f"{named_by} names it.",
            "Write the path out.",
        ) from None
