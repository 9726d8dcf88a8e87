"""Images of a bank: what the image keys of its skills stand for, by its own versions.yaml."""

from __future__ import annotations

from pathlib import Path

from tao_sdk.model.errors import TaoError
from tao_sdk.model.settings import Settings
from tao_sdk.skills.bank import PACKAGED, Bank
from tao_sdk.skills.errors import BankError
from tao_sdk.versions import load_manifest, looks_like_key, manifest_path, resolve_image


def bank_versions(bank: Bank, settings: Settings | None = None) -> Path:
    """The versions.yaml that holds for the bank: the one that TAO_VERSIONS_FILE names, else the
    bank's own. Raises BankError where it has none: no other bank's is taken.
    """
    settings = settings or Settings.load()
    if settings.get("TAO_VERSIONS_FILE"):
        return manifest_path(settings=settings)
    if path := bank.versions_file:
        return path
    raise BankError(
        f"The skill bank {bank.root} has no versions.yaml.",
        "Its image keys stand for nothing.",
        "To use this package's list:",
        f"export TAO_VERSIONS_FILE={PACKAGED / 'versions.yaml'}",
    )


def resolve_bank_image(bank: Bank, image: str, settings: Settings | None = None) -> str:
    """The image of a key; an image is returned as it is. Raises TaoError where the key stands for
    nothing.
    """
    if not looks_like_key(image):
        return image
    return resolve_image(image, load_manifest(bank_versions(bank, settings)))


def image_if_known(bank: Bank, image: str, settings: Settings | None = None) -> str:
    """The image of a key; "" where it stands for nothing."""
    try:
        return resolve_bank_image(bank, image, settings) if image else ""
    except TaoError:
        return ""
