"""PreparedJob: a spec that has been read once, with the shell text to run and the data that it
names.

Here: the records that every backend plans from. Not here: how a spec is read
(payload/prepared_job.py).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field

from tao_sdk.model.spec import JobSpec

KeyAndValue = tuple[str, str]  # its place in the spec, and its value


@dataclass(frozen=True)
class NamedFiles:
    """The files of a folder that an annotation names: only these are fetched."""

    annotation: str  # the key of that input
    keys: tuple[str, ...]  # under which the paths stand in it


@dataclass(frozen=True)
class DataInput:
    """One input that the job needs in place, declared or not."""

    key: str  # of specs or args; without them the path in the job
    uri: str  # as the spec has it
    scheme: str = ""  # "" for a plain path
    path: str = ""  # the path that `uri` names; "" where it has to be fetched
    patterns: tuple[str, ...] = ()  # the files of a folder to fetch
    selective: NamedFiles | None = None  # only the files that another input names are fetched
    target: str = ""  # the path under which the job wants it; "" where any path will do
    is_archive: bool = False  # it is unpacked, by its name and its declaration

    @property
    def is_path(self) -> bool:
        """True if the input is used where it is: nothing has to be fetched."""
        return self.path != ""


@dataclass(frozen=True)
class JobData:
    """Every value of a spec that is data, by its use."""

    inputs: tuple[DataInput, ...] = ()
    outputs: tuple[str, ...] = ()  # absolute paths and addresses that the spec names for them
    output_keys: tuple[str, ...] = ()  # of specs or args; without them the paths that are declared
    shared: tuple[
        KeyAndValue, ...
    ] = ()  # (key, path) of lustre:// and slurm:// values that are no input or output
    passed_on: tuple[
        KeyAndValue, ...
    ] = ()  # (key, address) of s3:// values that are neither: the program reads them
    undeclared: tuple[
        KeyAndValue, ...
    ] = ()  # (key, path) of values that are absolute paths and that nothing declares

    @property
    def has_outputs(self) -> bool:
        """True if the spec declares an output."""
        return bool(self.output_keys)

    @property
    def chosen_outputs(self) -> tuple[str, ...]:
        """The absolute paths among the outputs: the user chose these places."""
        return tuple(place for place in self.outputs if posixpath.isabs(place))


@dataclass(frozen=True)
class PreparedJob:
    """The job for a backend to run. `command` is the shell text to run: the spec's own, or wrapped
    with its data.
    """

    spec: JobSpec
    command: str = field(repr=False)
    data: JobData = JobData()

    @property
    def brings_files(self) -> bool:
        """True if files travel with the job into its work folder. A relative path may name one of
        them.
        """
        return any(not posixpath.isabs(path) for path in self.spec.files)

    def absolute_inputs(self) -> dict[str, str]:
        """The inputs that do not travel with the job: key -> absolute path in the job."""
        return {
            each.key: posixpath.normpath(each.path)
            for each in self.data.inputs
            if posixpath.isabs(each.path) and not self.brings_path(each.path)
        }

    def brings_path(self, path: str) -> bool:
        """True if the file at a path, or something in the folder there, travels with the job."""
        return any(lies_in(each, path) for each in self.spec.files)

    def here_inputs(self) -> Iterator[DataInput]:
        """Yield the inputs that are paths and do not travel: the machine that runs the job must
        have them.
        """
        for each in self.data.inputs:
            if each.is_path and (posixpath.isabs(each.path) or not self.brings_files):
                yield each


def lies_in(path: str, folder: str) -> bool:
    """True if a path is the folder, or lies in it."""
    return f"{posixpath.normpath(path)}/".startswith(f"{posixpath.normpath(folder)}/")
