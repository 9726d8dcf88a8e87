"""Write the spec file. Its text is complete except for the paths that only the job knows."""

from __future__ import annotations

import os

from tao_sdk.net import atomic
from tao_sdk.net.failure import Failure
from tao_sdk.runner.template import fill_template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tao_sdk.runner.document import Template


def write_spec(spec: Template, values: Mapping[str, str], folder: str, suffix: str) -> str:
    """Write <folder>/spec.<suffix> and return its path. Raises Failure."""
    path = os.path.join(folder, "spec." + suffix)
    try:
        atomic.write(path, fill_template(spec, values).encode(), 0o600, atomic.no_sync)
    except UnicodeEncodeError as error:
        raise Failure(
            "spec.invalid", f"A path that is not UTF-8 cannot stand in a {suffix} spec."
        ) from error
    except OSError as error:
        raise Failure(
            "spec.unwritable", f"The spec cannot be written to {path}.", f"{error.strerror}."
        ) from error
    return path
