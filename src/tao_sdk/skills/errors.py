"""Errors of a skill bank: the bank, one of its files, or a name that it does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tao_sdk.client.document import DocumentError, Place
from tao_sdk.model.errors import TaoError
from tao_sdk.model.printable import printable

if TYPE_CHECKING:
    from pathlib import Path


class BankError(TaoError):
    """A folder that is no skill bank, or cannot be used as one."""

    code = "skill_bank.invalid"


class BankNotFound(BankError):
    """A skill bank that was named is not there."""

    code = "skill_bank.missing"


class SkillNotFound(TaoError, LookupError):
    """The bank has no skill of that name, or several."""

    code = "skill.not_found"


class ActionNotFound(TaoError, LookupError):
    """The skill has no such action."""

    code = "skill.no_action"


class SkillError(DocumentError):
    """A file of a bank that cannot be used; `place` and `key` say where it is wrong.

    The file is somebody else's: quotes from it are made printable.
    """

    code = "skill.invalid"

    def __init__(
        self,
        place: Place,
        what: str,
        why: str = "",
        next: str = "",
        command: str = "",
        key: str = "",
    ) -> None:
        super().__init__(place, printable(what), printable(why), printable(next), command)
        self.key = printable(key)

    @classmethod
    def of_document(cls, error: DocumentError) -> SkillError:
        """The document reader's error, as one of a bank's file."""
        own = cls(error.place, "", error.why, error.next, error.command, error.key)
        own.what = printable(error.what)
        return own


def incomplete_skill(folder: Path) -> SkillError:
    """The error of a skill's folder that was copied without its files. A skill may have no
    skill_info.yaml; then it has a SKILL.md.
    """
    what = "this has neither SKILL.md nor references/skill_info.yaml."
    return SkillError(Place(str(folder)), what, "", "Copy the bank again, whole.")
