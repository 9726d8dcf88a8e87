"""`tao images`: the keys that stand for images, and where that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tao_sdk.cli.command import command
from tao_sdk.client.views import images_view

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output


@command("images")
def images(out: Output) -> None:
    """List the image keys, such as tao_toolkit.pyt, and the images that they stand for.

    They are read from $TAO_VERSIONS_FILE, $TAO_SKILL_BANK_PATH/versions.yaml, or the file in this
    package.
    """
    from tao_sdk.versions import image_keys, load_manifest, manifest_path

    path = manifest_path()
    found = image_keys(load_manifest(path))
    out.object(images_view(path, found))
    if found:
        out.table(("KEY", "IMAGE"), list(found.items()))
    out.note(f"As {path} says." if found else f"{path} names no images.")
