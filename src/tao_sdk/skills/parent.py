"""Values of a spec that come from an earlier job: its checkpoint, its exported model.

Nothing is guessed: if a job left several that fit, the user says which.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tao_sdk.model.errors import PathNotFound, SpecError
from tao_sdk.model.status import Status
from tao_sdk.skills.skill import Action, Skill

if TYPE_CHECKING:
    from tao_sdk.client import Client, Results
    from tao_sdk.model.checkpoints import Checkpoint

BEST, LATEST = "best", "latest"
RESUMED = "resume_model"  # the word for a key by which a training goes on
# the end of a key -> the ends of the files that it takes; any other key takes a trained checkpoint
EXPORTED: Mapping[str, tuple[str, ...]] = {
    "onnx_file": (".onnx",),
    "trt_engine": (".engine", ".trt"),
}
NAMED = 5  # files that an error names
HOW = "Write best, latest, epoch:12, step:900 or a path."


class NothingLeft(SpecError):
    """The parent left no file of the kind that a key takes."""


def values_from_parent(
    client: Client, skill: Skill, action: Action, parent: str, checkpoint: str = ""
) -> dict[str, str]:
    """The keys of the action's spec that the parent job fills, and their values.

    `checkpoint` is best, latest, epoch:N, step:N or a path. Without it the best is taken, and to
    resume a training the newest. Raises SpecError, JobNotFound, PathNotFound.
    """
    return values_from_results(complete_results(client, parent), skill, action, parent, checkpoint)


def values_from_results(
    results: Results, skill: Skill, action: Action, parent: str, checkpoint: str = ""
) -> dict[str, str]:
    """The same, from the results of a parent. Raises SpecError, PathNotFound."""
    keys = parent_keys(skill, action)
    if checkpoint and is_path(checkpoint):
        keys = keys_of_file(keys, checkpoint, f"{skill.name} {action.name}")
    try:
        found = filled(results, keys, checkpoint)
    except PathNotFound as error:
        command = f"tao results {parent}"
        raise PathNotFound(error.what, error.why, "What it left:", command) from error
    return {key: path for key, path in found.items() if fits(key, path, keys)}


def filled(results: Results, keys: Mapping[str, str], checkpoint: str) -> dict[str, str]:
    """The parent's value for each key. A key without one is left out; raises the first error if
    that is all of them. Raises SpecError, PathNotFound.
    """
    found: dict[str, str] = {}
    nothing: list[NothingLeft] = []
    for key, param in keys.items():
        try:
            found[key] = FILLERS[param](results, key, checkpoint)
        except NothingLeft as error:
            nothing.append(error)
    if nothing and not found:
        raise nothing[0]
    return found


def values_of_checkpoint(skill: Skill, action: Action, path: str) -> dict[str, str]:
    """The keys of the action's spec that take a checkpoint, with the one at this address or
    absolute path. Raises SpecError.
    """
    if "://" not in path and not path.startswith("/"):
        what = f"checkpoint {path!r} is one of a parent, and none is named."
        advice = "Name the parent (--parent JOB), or the path of a file that is there."
        raise SpecError(what, "", advice)
    keys = parent_keys(skill, action)
    if not keys:
        what = f"{skill.name} {action.name} takes no checkpoint."
        raise SpecError(what, f"As {skill.path} says.", "Leave it out.")
    return dict.fromkeys(keys_of_file(keys, path, f"{skill.name} {action.name}"), path)


# Which key takes which file


def parent_keys(skill: Skill, action: Action) -> dict[str, str]:
    """Keys of the action's spec that an earlier job fills, each with its word in FILLERS.

    A training that starts from another job's model by a key of its own is not resumed as well: it
    would load both.
    """
    keys = {
        key: param
        for key, param in skill.spec_params.get(action.name, {}).items()
        if isinstance(param, str) and param in FILLERS
    }
    starts_from_model = any(param != RESUMED for param in keys.values())
    return {key: param for key, param in keys.items() if param != RESUMED or not starts_from_model}


def keys_of_file(keys: Mapping[str, str], path: str, title: str) -> dict[str, str]:
    """The keys that take a file of this name. Raises SpecError if none does."""
    found = {key: param for key, param in keys.items() if fits(key, path, keys)}
    if keys and not found:
        takes = "; ".join(f"{key} takes {' or '.join(endings(key))}" for key in keys)
        name = posixpath.basename(path)
        raise SpecError(f"checkpoint {name!r} is no file for {title}.", "", f"Its {takes}.")
    return found


def fits(key: str, path: str, keys: Iterable[str]) -> bool:
    """True if the key takes files with this ending. A key for a trained checkpoint takes any ending
    that no other of the `keys` is made for.
    """
    if own := endings(key):
        return path.endswith(own)
    return not any(path.endswith(endings(other)) for other in keys)


def endings(key: str) -> tuple[str, ...]:
    """The name endings of the exported files that a key takes; empty for a key of a trained
    checkpoint.
    """
    return next((ends for last, ends in EXPORTED.items() if key.endswith(last)), ())


def complete_results(client: Client, parent: str) -> Results:
    """The results of a job that is Complete. Raises SpecError for any other."""
    job = client.get_job(parent)
    if job.status is not Status.COMPLETE:
        raise SpecError(
            f"The parent {job.id} is {job.status.value}, not Complete.",
            "Its results may not be whole.",
            "Wait for it, or name another:",
            f"tao status {job.id}",
        )
    return client.results(job.id)


def parent_model(results: Results, key: str, checkpoint: str) -> str:
    """The path of the model that a key takes."""
    if suffixes := endings(key):
        return exported_file(results, suffixes, checkpoint)
    return chosen_checkpoint(results, checkpoint or BEST)


def parent_folder(results: Results, key: str, checkpoint: str) -> str:
    """The checkpoint if it is a folder, else the folder that it lies in."""
    path = parent_model(results, key, checkpoint)
    is_folder = any(each.is_dir and each.path == path for each in results.checkpoints)
    return path if is_folder else posixpath.dirname(path)


def resumed_model(results: Results, key: str, checkpoint: str) -> str:  # noqa: ARG001  as FILLERS has it
    return chosen_checkpoint(results, checkpoint or LATEST)


FILLERS: Mapping[str, Callable[[Results, str, str], str]] = {
    "parent_model": parent_model,
    "parent_model_or_ptm": parent_model,
    "parent_model_folder": parent_folder,
    RESUMED: resumed_model,
}


def exported_file(results: Results, suffixes: Sequence[str], choice: str) -> str:
    """The one exported file of this kind that the job left, or the path that was chosen."""
    if choice and is_path(choice):
        return below_results(results, choice)
    found = [file.path for file in results.files if file.path.endswith(tuple(suffixes))]
    if len(found) == 1:
        return found[0]
    kind = " or ".join(suffixes)
    advice = "Name one by its path, or another parent."
    if not found:
        what = f"The parent left no files that end with {kind}."
        raise NothingLeft(what, f"Its results are in {results.dir}.", advice)
    raise SpecError(
        f"The parent left {len(found)} files that end with {kind}.",
        f"They are: {', '.join(found[:NAMED])}.",
        advice,
    )


def chosen_checkpoint(results: Results, choice: str) -> str:
    """The path of the checkpoint for best, latest, epoch:N, step:N or a path."""
    if choice in (BEST, LATEST):
        return known_checkpoint(results, choice)
    word, colon, number = choice.partition(":")
    if colon and word in ("epoch", "step"):
        return numbered_checkpoint(results, word, number)
    if is_path(choice):
        return below_results(results, choice)
    raise SpecError(f"checkpoint {choice!r} names none.", "", HOW)


def known_checkpoint(results: Results, choice: str) -> str:
    path = results.best if choice == BEST else results.newest
    if path is None:
        names = [relative(results, each) for each in results.checkpoints if each.complete]
        if not names:
            raise NothingLeft(
                f"The parent left no complete checkpoint in {results.dir}.",
                "",
                "Name another parent (--parent JOB), or the file (--checkpoint PATH). "
                "A job's files: tao results JOB",
            )
        if len(results.checkpoints) == 1:
            return results.checkpoints[0].path
        left = ", ".join(names[-NAMED:])
        raise SpecError(
            f"It is not known which checkpoint of the parent is the {choice}.",
            f"Complete checkpoints: {left}.",
            HOW,
        )
    return path


def numbered_checkpoint(results: Results, word: str, number: str) -> str:
    """The checkpoint of an epoch, as the job's log counts them, or of a step."""
    if not (number.isascii() and number.isdigit() and len(number) < 13):
        raise SpecError(f"checkpoint {word}:{number} has no number.", "", HOW)
    if word == "epoch":
        return whole(results.of_shown_epoch(int(number)))
    found = [each for each in results.checkpoints if each.step == int(number)]
    if len(found) == 1:
        return whole(found[0])
    steps = sorted({each.step for each in results.checkpoints if each.step is not None})
    known = ", ".join(map(str, steps[-NAMED:])) or "none"
    raise SpecError(
        f"The parent has {len(found) or 'no'} checkpoints of step {number}.",
        f"The last steps: {known}.",
        HOW,
    )


def whole(checkpoint: Checkpoint) -> str:
    """The path of a checkpoint. Raises SpecError for one that may be half written."""
    if checkpoint.complete:
        return checkpoint.path
    what = f"{checkpoint.path} may not be written to its end."
    raise SpecError(what, "The job ended while it was new.", "Name an earlier checkpoint.")


def is_path(choice: str) -> bool:
    return "/" in choice or "." in choice


def below_results(results: Results, choice: str) -> str:
    """An address or an absolute path as it is; else a path below the parent's results."""
    if "://" in choice or choice.startswith("/"):
        return choice
    if ".." in choice.split("/"):
        raise SpecError(
            f"checkpoint {choice!r} leads out of the parent's results.", "", "Write the whole path."
        )
    return f"{results.dir.rstrip('/')}/{choice}"


def relative(results: Results, checkpoint: Checkpoint) -> str:
    return checkpoint.path.removeprefix(results.dir).lstrip("/")
