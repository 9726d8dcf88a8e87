"""Images of a bank: the images that its skills' image keys stand for, by its own versions.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tao_sdk.model.errors import TaoError
from tao_sdk.model.surroundings import Surroundings, surroundings_here
from tao_sdk.skills.bank import PACKAGED, Bank
from tao_sdk.skills.bank_file import read_bank_document
from tao_sdk.skills.errors import BankError, SkillError
from tao_sdk.versions import (
    load_manifest,
    looks_like_key,
    manifest_path,
    resolve_image,
    resolve_wheel,
)

if TYPE_CHECKING:
    from tao_sdk.versions import Manifest


def bank_versions(bank: Bank, settings: Surroundings | None = None) -> Path:
    """The versions.yaml for the bank: the file that TAO_VERSIONS_FILE names, else the bank's own.
    Raises BankError if it has none: no other bank's is taken.
    """
    settings = settings or surroundings_here()
    if settings.get("TAO_VERSIONS_FILE"):
        return manifest_path(settings=settings)
    if path := bank.versions_file:
        return path
    raise no_versions(bank)


def no_versions(bank: Bank) -> BankError:
    what = f"The skill bank {bank.root} has no versions.yaml."
    why = "Its image keys stand for nothing."
    packaged = PACKAGED / "versions.yaml"
    if not packaged.is_file():
        return BankError(what, why, "Copy the bank again, whole.")
    return BankError(
        what, why, "To use this package's list:", f"export TAO_VERSIONS_FILE={packaged}"
    )


def bank_manifest(bank: Bank, settings: Surroundings | None = None) -> Manifest:
    """Read the manifest: what the keys of a bank stand for. Raises TaoError."""
    path = bank_versions(bank, settings)
    if path != bank.versions_file:
        return load_manifest(path)
    value = read_bank_document(bank.root, path)
    if not isinstance(value.data, dict):
        raise SkillError(
            value.place,
            f"this is {value.shape}; a mapping with the keys images and wheels is needed.",
            "",
            "Copy the bank again, or name another file in TAO_VERSIONS_FILE.",
        )
    return value.plain()


def resolve_bank_image(bank: Bank, image: str, settings: Surroundings | None = None) -> str:
    """The image of a key; an image is returned as it is. Raises TaoError if the key stands for
    nothing.
    """
    if not looks_like_key(image):
        return image
    return resolve_image(image, bank_manifest(bank, settings), bank_versions(bank, settings))


def resolve_bank_key(bank: Bank, key: str, settings: Surroundings | None = None) -> str:
    """The image or wheel for a key of either tree: `wheels.tao_sdk_docker`,
    `images.tao_toolkit.pyt`, or these without the tree. Raises TaoError.
    """
    manifest = bank_manifest(bank, settings)
    is_wheel = key.startswith("wheels.") or "." not in key
    resolve = resolve_wheel if is_wheel else resolve_image
    return resolve(key, manifest, bank_versions(bank, settings))


def image_if_known(bank: Bank, image: str, settings: Surroundings | None = None) -> str:
    """The image of a key; "" if it stands for nothing."""
    try:
        return resolve_bank_image(bank, image, settings) if image else ""
    except TaoError:
        return ""
