"""`build_entrypoint`: a job's command, spec, inputs, outputs and files as one shell command.

Everything that can be known before submit is decided and refused here; the runner only carries it
out.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal, TypedDict, cast

from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.prepared_job import JobData, lies_in
from tao_sdk.model.spec import JobSpec
from tao_sdk.payload import commands, declared, formats, job_paths, pack
from tao_sdk.payload.declarations import Declared, plain_declared
from tao_sdk.payload.placeholders import CONFIG_PATH
from tao_sdk.payload.values import Tree, plain_mapping, refuse_flat_keys
from tao_sdk.runner.document import Document, Input, Template

Mode = Literal["config", "args", "passthrough"]
MODE_NEEDS = {"config": "specs=", "args": "args=", "passthrough": "neither specs= nor args="}
FORMATS = ("toml", "yaml", "json")
NO_NAME = frozenset("\n\0")  # characters that no file's name has
LONGEST_PATH = 4096  # characters; a longer text is no path
# the documented default of this function; a skill's action names its own, mostly yaml
DEFAULT_FORMAT = "toml"


class Entrypoint(TypedDict):
    """The result of build_entrypoint. `command` is for `/bin/bash -c` or any POSIX shell, also as a
    file.
    """

    command: str
    args_template: str


def build_entrypoint(
    *,
    command: str,
    specs: Mapping[str, object] | None = None,
    args: Mapping[str, object] | None = None,
    inputs: Declared = None,
    outputs: Declared = None,
    config_format: str | None = None,
    upload_excludes: Sequence[str] | None = None,
    mount_path: str | os.PathLike[str] | None = None,
    flags: Sequence[str] | None = None,
    mode: str | None = None,
    files: Mapping[str, bytes | str] | None = None,
    job_id: str | None = None,
    bucket: bool | None = None,  # noqa: ARG001  earlier versions asked for it
    resume_key: str | None = None,
) -> Entrypoint:
    """Wrap a command so that, inside the job, its inputs are in place, its spec is written and its
    outputs are kept.

    specs: nested mapping, written as `config_format` (toml when not given) where the command says
    {config_path}. args: {name} in the command is replaced; an argument that is not named there is
    appended as --name value. inputs: keys of specs or args (`a.b[0].c`) with {type, optional,
    container_path, extract, extract_to_parent, selective,
        patterns}; without specs and args {job path: address}.
    mount_path: an absolute path in the job, on a mount; fetched inputs are kept there for all jobs
    that use it. outputs: keys likewise; without specs and args a list of paths in the job.
    upload_excludes: prefixes below the results that are not kept account of, such as "inputs/".
    files: path in the job -> content; relative paths lie in the job's work folder, where the
    command then starts. resume_key: the key of specs or args that a further attempt's checkpoint
    fills, where it is empty; not given, resume_training_checkpoint_path wherever they have it.
    bucket: accepted and not needed: the job's environment decides whether outputs go to a bucket.
    Raises SpecError (a ValueError) naming the field, the value and what is allowed.
    """
    wrapping = Wrapping(
        command=command,
        specs=specs,
        args=args,
        inputs=inputs,
        outputs=outputs,
        config_format=config_format,
        upload_excludes=upload_excludes or (),
        mount_path=mount_path,
        flags=flags or (),
        mode=mode,
        files=files or {},
        job_id=job_id,
        resume_key=resume_key or "",
    )
    return {"command": wrapping.pack()[0], "args_template": ""}


def packed_job(spec: JobSpec) -> tuple[str, JobData]:
    """The shell text that runs a job, and the data that its spec names. The spec is read once for
    both.
    """
    wrapping = Wrapping(
        command=spec.command,
        specs=spec.specs,
        args=spec.args,
        inputs=spec.inputs,
        outputs=spec.outputs,
        config_format=spec.config_format,
        upload_excludes=spec.upload_excludes,
        mount_path=spec.mount_path or None,
        mode=spec.mode,
        files=spec.files,
        resume_key=spec.resume_key or "",
    )
    return wrapping.pack()


@dataclass(frozen=True)
class Wrapping:
    """The arguments of `build_entrypoint`."""

    command: str
    specs: Mapping[str, object] | None
    args: Mapping[str, object] | None
    inputs: Declared
    outputs: Declared
    config_format: str | None
    upload_excludes: Sequence[str]
    mount_path: str | os.PathLike[str] | None
    mode: str | None
    files: Mapping[str, bytes | str]
    resume_key: str
    flags: Sequence[str] = ()
    job_id: str | None = None

    def pack(self) -> tuple[str, JobData]:
        """(the shell text, the data that the spec names)"""
        chosen = chosen_mode(self.mode, self.specs, self.args, self.flags or None)
        if self.resume_key and chosen == "passthrough":
            why = "It is a key of specs or args, and there are none."
            raise FieldError(
                "resume_key", f"resume_key is {self.resume_key!r}.", why, "Leave it out."
            )
        document = empty_document(text("command", self.command), self.job_id, self.mount_path)
        plain = replace(
            self,
            inputs=plain_declared(self.inputs, "inputs"),
            outputs=plain_declared(self.outputs, "outputs"),
        )
        document["excludes"] = [prefix(each) for each in self.upload_excludes]
        contents = carried(document, self.files)
        data = FILLED[chosen](document, plain)
        refuse_covered_files(document)
        return pack.shell_text(document, contents), data


def chosen_mode(mode: str | None, specs: object, args: object, flags: object) -> Mode:
    """The mode that the arguments mean. A mode that was named has to agree with it."""
    if specs is not None and args is not None:
        raise FieldError(
            "specs",
            "specs and args are both given.",
            "A command gets a config file or arguments.",
            "Pass one of them.",
        )
    if specs is not None and flags:
        raise FieldError(
            "specs",
            "specs and flags are both given.",
            "Flags are arguments.",
            "Write them into the command.",
        )
    meant = meant_mode(specs, args, flags)
    if mode is not None and mode != meant:
        raise wrong_mode(mode, meant)
    return meant


def meant_mode(specs: object, args: object, flags: object) -> Mode:
    """The mode that goes with the given arguments."""
    if specs is not None:
        return "config"
    if args is not None or flags:
        return "args"
    return "passthrough"


def wrong_mode(mode: str, meant: Mode) -> FieldError:
    if mode not in MODE_NEEDS:
        return FieldError("mode", f"mode is {mode!r}.", "It can be config, args or passthrough.")
    return FieldError(
        "mode",
        f"mode is {mode!r}, but what is passed means {meant!r}.",
        next=f"mode={mode!r} goes with {MODE_NEEDS[mode]}",
    )


def empty_document(
    command: str, job_id: str | None, mount_path: str | os.PathLike[str] | None
) -> Document:
    mount = os.fspath(mount_path) if mount_path is not None else ""
    if mount and not posixpath.isabs(mount):
        raise FieldError(
            "mount_path",
            f"mount_path is {mount!r}.",
            "It is a path in the job, so it has to be absolute.",
        )
    return Document(
        command=Template(parts=[command], holes=[]),
        spec=None,
        format="",
        inputs=[],
        outputs=[],
        copies=[],
        excludes=[],
        files=[],
        resume="",
        job_id=checked_job_id(job_id or ""),
        mount_path=mount,
    )


def checked_job_id(job_id: str) -> str:
    if "/" in job_id or job_id in (".", ".."):
        raise SpecError(
            f"job_id is {job_id!r}.",
            "It names a folder, so it holds no slash.",
            "Leave it out, or give another.",
        )
    return job_id


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise FieldError(name, f"{name} is a {type(value).__name__}.", "It has to be a string.")
    if "\0" in value:
        raise FieldError(
            name, f"{name} holds a NUL character.", "No shell command can.", "Remove it."
        )
    return value


def prefix(value: object) -> str:
    """The prefix in one form: `inputs/` and `inputs` both mean everything below inputs."""
    return posixpath.normpath(text("upload_excludes", value).strip().lstrip("/")).removesuffix("/*")


def checked_format(config_format: object) -> str:
    if config_format is None:
        return DEFAULT_FORMAT
    if config_format not in FORMATS:
        raise FieldError(
            "config_format",
            f"config_format is {config_format!r}.",
            f"It can be {', '.join(FORMATS)}.",
        )
    return cast("str", config_format)


def carried(document: Document, files: Mapping[str, bytes | str]) -> list[bytes]:
    """The contents of the files that travel. Their paths go into the document."""
    document["files"] += places_of(files)
    return [file_bytes(path, content) for path, content in files.items()]


def places_of(paths: Iterable[str]) -> list[str]:
    """The places of the files in the job. Raises SpecError if two have the same place, or one lies
    below another.
    """
    places: dict[str, str] = {}
    for path in paths:
        place = file_path(path)
        if place in places:
            raise FieldError(
                "files",
                f"files has two files for {place}: {places[place]!r} and {path!r}.",
                "One would write over the other.",
                "Leave one out.",
            )
        places[place] = path
    for place, path in places.items():
        refuse_below_file(place, path, places)
    return list(places)


def refuse_below_file(place: str, path: str, places: Mapping[str, str]) -> None:
    """Raise FieldError for a file that is to lie below another. `places`: place -> path."""
    for parent in map(str, PurePosixPath(place).parents):
        if parent in places:
            raise FieldError(
                "files",
                f"files has {places[parent]!r}, and {path!r} below it.",
                "A file is no folder.",
                "Rename one.",
            )


def refuse_covered_files(document: Document) -> None:
    """Raise SpecError if an input would lie on a file that travels, or below or above one."""
    for wanted in document["inputs"]:
        target = input_place(wanted)
        if not target or posixpath.normpath(wanted["uri"]) == target:
            continue
        for place in document["files"]:
            if overlap(place, target):
                raise covered_file(wanted["target"], place)


def covered_file(target: str, place: str) -> FieldError:
    return FieldError(
        "inputs",
        f"inputs has {target!r}, and files has {place!r}: one place in the job.",
        "One would write over the other.",
        "Give one another name in the job, or leave one out.",
    )


def input_place(wanted: Input) -> str:
    """The path of an input in the job; "" if any place will do."""
    target = wanted["target"]
    if not target:
        return ""
    if not target.endswith("/"):
        return posixpath.normpath(target)
    return posixpath.join(target, posixpath.basename(wanted["uri"].rstrip("/")))


def overlap(one: str, other: str) -> bool:
    """True if two paths are one, or one lies in the other."""
    return lies_in(one, other) or lies_in(other, one)


def file_path(path: object) -> str:
    name = text("files", path)
    normal = posixpath.normpath(name)
    if is_file_path(name, normal):
        return normal
    raise FieldError(
        "files",
        f"files has the path {name!r}.",
        "A relative path is a file inside the job's work folder.",
        "Write an absolute path to leave it.",
    )


def is_file_path(name: str, normal: str) -> bool:
    """True for a path that ends in a name, and does not leave the work folder by `..`."""
    if not name or name.endswith("/"):
        return False
    return normal not in (".", "..") and not normal.startswith("../")


def file_bytes(path: str, content: object) -> bytes:
    """The content of one file. Raises SpecError for a path in its place."""
    if isinstance(content, str):
        refuse_file_name(path, content)
        return content.encode("utf-8", "surrogateescape")
    if isinstance(content, bytes | bytearray):
        return bytes(content)
    raise FieldError(
        "files",
        f"files[{path!r}] is a {type(content).__name__}.",
        "The content of a file is bytes or text.",
        "Of a file here: Path(...).read_bytes().",
    )


def refuse_file_name(path: str, content: str) -> None:
    """Raise SpecError for a text that is the name of a file on this machine."""
    if not names_file(content):
        return
    raise FieldError(
        "files",
        f"files[{path!r}] is the text {content!r}, and not the file of that name.",
        "A text is the content of the file.",
        f"To send the file, write Path({content!r}); from build_entrypoint "
        f"Path({content!r}).read_bytes(). To send the text, write {content!r}.encode().",
    )


def names_file(content: str) -> bool:
    """True if a file of that name is on this machine."""
    if not content or len(content) > LONGEST_PATH or not NO_NAME.isdisjoint(content):
        return False
    try:
        return Path(content).exists()
    except (OSError, ValueError):  # a part of it is too long for a name
        return False


def config(document: Document, wrapping: Wrapping) -> JobData:
    """Config mode: the spec is written where the command says {config_path}."""
    config_format = checked_format(wrapping.config_format)
    tree = plain_mapping(wrapping.specs or {}, "specs")
    refuse_flat_keys(tree)
    keys = declared.SpecKeys(tree, "specs")
    data = read_keys(document, keys, wrapping)
    if config_format == "toml":
        keys.drop_absent()
    document["spec"] = formats.template(tree, config_format)
    document["format"] = config_format
    document["command"] = commands.with_config_path(document["command"]["parts"][0])
    return data


def arguments(document: Document, wrapping: Wrapping) -> JobData:
    """Args mode: arguments stand in the command or behind it."""
    words = [text("flags", each) for each in wrapping.flags]
    tree: dict[str, Tree] = plain_mapping(wrapping.args or {}, "args")
    command = document["command"]["parts"][0]
    if CONFIG_PATH in command and "config_path" not in tree:
        raise SpecError(
            "The command names {config_path}, but args write no config file.",
            next="Pass specs=, or args with a config_path.",
        )
    keys = declared.ArgumentKeys(tree, "args")
    data = read_keys(document, keys, wrapping)
    document["command"] = commands.with_arguments(command, tree, words)
    return data


def paths(document: Document, wrapping: Wrapping) -> JobData:
    """Passthrough mode: inputs and outputs are paths in the job."""
    document["inputs"] = declared.apart(job_paths.path_inputs(wrapping.inputs))
    document["copies"] = job_paths.path_outputs(wrapping.outputs)
    return declared.data_of_paths(document["inputs"], wrapping.outputs)


def read_keys(document: Document, keys: declared.SpecKeys, wrapping: Wrapping) -> JobData:
    """Fill in the values of the keys. A value that only the job knows becomes a hole in their
    tree.
    """
    document["inputs"], document["outputs"] = keys.read(wrapping.inputs, wrapping.outputs)
    data = declared.data_of(keys, document["inputs"], document["outputs"], wrapping.files)
    keys.put_shared()
    document["resume"] = keys.resume(wrapping.resume_key)
    return replace(data, output_keys=declared.output_keys(wrapping.outputs))


FILLED: Mapping[Mode, Callable[[Document, Wrapping], JobData]] = {
    "config": config,
    "args": arguments,
    "passthrough": paths,
}
