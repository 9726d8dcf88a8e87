"""`tao images`: the keys that stand for images, and where that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tao_sdk.cli.command import command
from tao_sdk.client.views import images_view

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output


@command("images")
@click.argument("key", required=False)
def images(out: Output, key: str | None) -> None:
    """List the image keys, such as tao_toolkit.pyt, and the images that they stand for; with a KEY,
    show the image of that key alone.

    They are read from $TAO_VERSIONS_FILE, $TAO_SKILL_BANK_PATH/versions.yaml, or the file in this
    package.
    """
    from tao_sdk.versions import image_keys, images_of, load_manifest, manifest_path

    key = "" if key in (None, "ls") else key.removeprefix("images.")
    path = manifest_path()
    manifest = load_manifest(path)
    shown = images_of(key, manifest) if key else image_keys(manifest)
    out.object(images_view(path, shown))
    if key in shown:
        out.line(shown[key])
    elif shown:
        out.table(("KEY", "IMAGE"), list(shown.items()))
        out.note(f"As {path} says.")
    else:
        out.note(f"{path} names no images.")
