"""Versions: the image or the package that a key such as `tao_toolkit.pyt` stands for.

A manifest is a versions.yaml with two trees, `images` and `wheels`. The first of these that is
there is used: the path given, $TAO_VERSIONS_FILE, $TAO_SKILL_BANK_PATH/versions.yaml (without that
variable ~/tao-skills-external/versions.yaml), the one in this package. Never one in the current
directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tao_sdk.model.errors import TaoError
from tao_sdk.model.surroundings import Surroundings, surroundings_here

USUAL_BANK = "tao-skills-external"  # below the home
PACKAGED = Path(__file__).parent / "skill_bank" / "versions.yaml"

_WORD = re.compile(r"[^._-]+")
_LIKE = 0.6  # the similarity from which a word of a key counts as a mistyped one
_KEY = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+")

if TYPE_CHECKING:
    Manifest = Mapping[str, Any]


class ManifestNotFoundError(TaoError, FileNotFoundError):
    """A versions.yaml that was named is not there."""

    code = "versions.no_manifest"

    __str__ = TaoError.__str__


class ManifestError(TaoError, TypeError):
    """A versions.yaml that is there and does not say what it should."""

    code = "versions.manifest"


class KeyNotFoundError(TaoError, KeyError):
    """The manifest has no such key."""

    code = "versions.no_key"

    __str__ = TaoError.__str__


def looks_like_key(value: str) -> bool:
    """`tao_toolkit.pyt` does; `ubuntu`, `ubuntu:22.04` and `nvcr.io/nvidia/pytorch` are images."""
    return _KEY.fullmatch(value) is not None


def resolve_container_image(value: str, manifest: Manifest | None = None) -> str:
    """The image of a key; an image is returned as it is. Raises KeyNotFoundError, ManifestError."""
    check_text(value, "image", "an image such as ubuntu:22.04, or a key such as tao_toolkit.pyt")
    value = value.strip()
    return resolve_image(value, manifest) if looks_like_key(value) else value


def resolve_image(key: str, manifest: Manifest | None = None, file: str | Path = "") -> str:
    """The image that `tao_toolkit.pyt` or `images.tao_toolkit.pyt` stands for. `file` is the
    manifest's file, for errors. Raises KeyNotFoundError, ManifestError.
    """
    return _resolve("images", key, manifest, file)


def resolve_wheel(key: str, manifest: Manifest | None = None, file: str | Path = "") -> str:
    """The requirement that `tao_sdk_docker` or `wheels.tao_sdk_docker` stands for, in pip's form.
    Raises as resolve_image.
    """
    return _resolve("wheels", key, manifest, file)


def check_text(value: object, noun: str, wanted: str) -> None:
    """Raise KeyNotFoundError for a key that is empty or no text. An earlier lookup without a result
    gives None.
    """
    if not isinstance(value, str):
        what = "None" if value is None else f"a {type(value).__name__}"
        raise KeyNotFoundError(f"No {noun} is named: the value is {what}.", "", f"Give {wanted}.")
    if not value.strip():
        raise KeyNotFoundError(f"No {noun} is named.", "", f"Give {wanted}.")


def image_keys(manifest: Manifest) -> dict[str, str]:
    """Every image key of a manifest and the image that it stands for. Raises ManifestError if a key
    stands for none.
    """
    return {key: resolve_image(key, manifest) for key in sorted(_keys(manifest.get("images"), ()))}


def images_of(key: str, manifest: Manifest) -> dict[str, str]:
    """The image of `key`, or of every key below it. Raises KeyNotFoundError, ManifestError."""
    key = _without(tree="images", key=key.strip())
    below = {
        name: image for name, image in image_keys(manifest).items() if name.startswith(f"{key}.")
    }
    return below or {key: resolve_image(key, manifest)}


def load_manifest(path: str | Path | None = None, settings: Surroundings | None = None) -> Manifest:
    """The manifest at `path`, or the first one of the usual places. Raises ManifestNotFoundError,
    ManifestError.
    """
    found = manifest_path(path, settings)
    import yaml

    try:
        manifest: Any = yaml.safe_load(found.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ManifestError(
            f"{found} is not YAML.", str(error), "Mend it, or name another in TAO_VERSIONS_FILE."
        ) from None
    if not isinstance(manifest, Mapping):
        raise ManifestError(
            f"{found} holds no mapping.",
            "It should have the keys images and wheels.",
            "Mend it, or name another in TAO_VERSIONS_FILE.",
        )
    return cast("Manifest", manifest)


def manifest_path(path: str | Path | None = None, settings: Surroundings | None = None) -> Path:
    """The path of the manifest. Raises ManifestNotFoundError if one is named and is not there; no
    other is taken in its place.
    """
    settings = settings or surroundings_here()
    if named := path or settings.get("TAO_VERSIONS_FILE"):
        if not (found := Path(named).expanduser()).is_file():
            raise ManifestNotFoundError(
                f"There is no versions file at {found}.",
                "It is the path that was given." if path else "TAO_VERSIONS_FILE names it.",
                "Name one that is there, or none: then the skill bank's own is used.",
            )
        return found
    bank = Path(settings.get("TAO_SKILL_BANK_PATH") or settings.home / USUAL_BANK).expanduser()
    of_the_bank = bank / "versions.yaml"
    return of_the_bank if of_the_bank.is_file() else PACKAGED


def _resolve(tree: str, key: str, manifest: Manifest | None, file: str | Path) -> str:
    check_text(
        key,
        tree[:-1],
        "a key of versions.yaml, such as tao_toolkit.pyt or tao_sdk_docker",
    )
    if manifest is None:
        file = manifest_path()
        manifest = load_manifest(file)
    if not isinstance(manifest, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  a program may pass anything
        raise ManifestError(
            f"The manifest is a {type(manifest).__name__}.",
            "It has to be a mapping.",
            "Pass what load_manifest() gives.",
        )
    node: Any = manifest
    for part in [tree, *_without(tree, key).split(".")]:
        if not isinstance(node, Mapping) or part not in node:
            raise _no_key(tree, key, manifest, file)
        node = cast("Manifest", node)[part]
    if not isinstance(node, str) or not node.strip():
        raise ManifestError(
            f"{key!r} is no {tree[:-1]}: the manifest has {_kind(node)} there.",
            "",
            f"Known are: {_listed(sorted(_keys(manifest.get(tree), ())))}.",
        )
    return node.strip()


def _without(tree: str, key: str) -> str:
    """`tao_toolkit.pyt` of `images.tao_toolkit.pyt`."""
    start = f"{tree}."
    return key[len(start) :] if key.startswith(start) else key


def _no_key(tree: str, key: str, manifest: Manifest, file: str | Path) -> KeyNotFoundError:
    name = _without(tree, key)
    known = sorted(_keys(manifest.get(tree), ()))
    near = near_key(name, known)
    hint = f"Did you mean {near}?" if near else f"Known are: {_listed(known)}."
    image = f" If it is an image, write its tag: {key}:latest." if tree == "images" else ""
    why = f"{file} has none." if file else ""
    return KeyNotFoundError(f"no such {tree[:-1]} key: {name}", why, hint + image)


def near_key(name: str, known: Iterable[str]) -> str:
    """The known key that a mistyped one means; "" if none is near."""
    return next((key for key in known if _is_nearly(name, key)), "")


def _is_nearly(name: str, known: str) -> bool:
    """True if each word of a key is nearly that of the other. Two images of one group, such as
    `tao_toolkit.pyt` and `tao_toolkit.deploy`, are not one another mistyped.
    """
    import difflib

    words, others = _WORD.findall(name.lower()), _WORD.findall(known.lower())
    return len(words) == len(others) and all(
        difflib.SequenceMatcher(None, word, other).ratio() >= _LIKE
        for word, other in zip(words, others)  # noqa: B905  Python 3.8 has no strict
    )


def _keys(node: Any, above: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, Mapping):
        for name, below in cast("Mapping[Any, Any]", node).items():
            yield from _keys(below, (*above, str(name)))
    elif above:
        yield ".".join(above)


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _kind(node: Any) -> str:
    if isinstance(node, Mapping):
        return "a group of keys"
    return "nothing" if node in (None, "") else repr(node)
