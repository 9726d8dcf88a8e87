"""Choose the path of each output before the command starts, and check that it is writable."""

from __future__ import annotations

import os

from tao_sdk.net.address import path_of, scheme
from tao_sdk.net.failure import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.document import Output
    from tao_sdk.runner.results_folder import ResultsFolder


def make_places(outputs: list[Output], results: ResultsFolder) -> dict[str, str]:
    """Create the folder of each output: key -> absolute path. Raises Failure if one is not
    writable.
    """
    values: dict[str, str] = {}
    for output in outputs:
        path = values[output["key"]] = output_path(output, results)
        make_writable(
            os.path.dirname(path) if output["file"] else path, f"The output {output['key']}"
        )
    return values


def is_explicit(output: Output) -> bool:
    """True if the spec has an absolute path for the output: then that path is used as it is."""
    return os.path.isabs(path_of(output["value"]))


def in_bucket(output: Output) -> bool:
    """True if the spec has a bucket address for the output: then exactly that prefix is used."""
    return scheme(output["value"]) == "s3"


def output_path(output: Output, results: ResultsFolder) -> str:
    """The path in the spec, else {root}/<job>/<key>/. An output for a bucket is sent from there."""
    given = path_of(output["value"])
    if is_explicit(output):
        return given
    folder = os.path.join(results.folder, output["key"].replace("/", "_"))
    if not output["file"]:
        return folder
    return os.path.join(
        folder, os.path.basename(given) or output["key"].rpartition(".")[2].replace("/", "_")
    )


def never_written(path: str) -> dict[str, str]:
    """The warning about an output that is still empty after the command's end."""
    return {
        "code": "output.missing",
        "what": f"The output {path} was never written.",
        "why": "The command ended, and nothing is there: it may have written elsewhere.",
        "next": "Check where the command writes, or declare the output with optional: true.",
    }


def make_writable(folder: str, who: str) -> None:
    """Create the folder. Raises Failure if it is not writable, so that the job ends now and not
    after its work.
    """
    why = ""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}."
    if not why and not os.access(folder, os.W_OK | os.X_OK):
        why = f"User {os.geteuid()} may not write there."
    if why:
        raise Failure(
            "output.unwritable",
            f"{who} cannot be kept: {folder} is not writable.",
            why,
            "Mount a writable folder and set TAO_RESULTS_ROOT to it, or name another path.",
        )
