"""Names of images: what none can be called is refused before a daemon is asked."""

from __future__ import annotations

import pytest

from tao_sdk.backends.image_name import refuse_malformed
from tao_sdk.model.errors import Refused

NAMES = [
    "ubuntu",
    "ubuntu:24.04",
    "nvcr.io/nvidia/tao/tao-toolkit:6.26.3-pyt",
    "localhost:5000/a__b/c-d.e:V1_x",
    "[::1]:5000/x",
    "Registry.Example/x@sha256:" + "0" * 64,
    "sha256:" + "0" * 64,
    "0123456789ab",
]


@pytest.mark.parametrize("image", NAMES)
def test_what_images_are_called_is_taken(image: str) -> None:
    refuse_malformed(image)


@pytest.mark.parametrize(
    "image", ["my image", "x:a b", "https://nvcr.io/x", "x//y", "-x", "x@sha256:1", "x\n", "é"]
)
def test_what_no_image_can_be_called_is_refused_by_its_name(image: str) -> None:
    with pytest.raises(Refused) as refused:
        refuse_malformed(image)
    assert repr(image) in refused.value.what and refused.value.why and refused.value.next


def test_upper_case_is_told_with_what_was_meant() -> None:
    with pytest.raises(Refused) as refused:
        refuse_malformed("MyTrainer:1")
    assert refused.value.next == "Did you mean mytrainer:1?"
