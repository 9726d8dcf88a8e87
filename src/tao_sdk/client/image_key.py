"""Image keys: `tao_toolkit.pyt` as a job's image, replaced by the image that it stands for.

Not here: where keys are written and how one is looked up (versions.py).
"""

from __future__ import annotations

from dataclasses import replace

from tao_sdk.model.spec import JobSpec


def with_image(spec: JobSpec) -> tuple[JobSpec, tuple[str, ...]]:
    """The spec with the image that its key stands for, and notes. Text that is no key stays: it may
    be an image's name.

    Raises ManifestError if the list of keys cannot be read.
    """
    if not spec.image:
        return spec, ()
    from tao_sdk.versions import image_keys, load_manifest, looks_like_key, near_key

    if not looks_like_key(spec.image):
        return spec, ()
    images = image_keys(load_manifest())
    key = spec.image.removeprefix("images.")
    if key in images:
        return replace(spec, image=images[key]), (f"{spec.image} is {images[key]}.",)
    near = near_key(key, images)
    meant = f" Did you mean {near}?" if near else ""
    return spec, (f"no such image key: {spec.image}; it is taken as the name of an image.{meant}",)
