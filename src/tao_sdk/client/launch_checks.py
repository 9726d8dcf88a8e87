"""Launch checks: a job's needs beyond the checks of its plan. A check that could not be made is an
error here; a plan warns.

Not here: what is read of a dataset and of an annotation file (preflight/), and what a plan is
checked for (engine/prepare.py).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tao_sdk.backends.by_name import backend_class
from tao_sdk.backends.contract import MapsPaths, SeesMachines
from tao_sdk.backends.image_name import read as read_image
from tao_sdk.backends.mounts import mount_of, read_mounts
from tao_sdk.engine.input_findings import ONLY_FROM_HERE
from tao_sdk.engine.place_facts import NOT_ASKED
from tao_sdk.model.errors import PathNotFound, SpecError, TaoError, UsageError, join_sentences
from tao_sdk.model.finding import Finding, Severity, error
from tao_sdk.model.prepared_job import NamedFiles
from tao_sdk.model.spec_hardware import MORE_GPUS, MORE_NODES
from tao_sdk.preflight.annotations import is_annotation_file
from tao_sdk.preflight.credentials import credential_findings
from tao_sdk.preflight.datasets import (
    NotSeen,
    Seen,
    dataset_findings,
    media_findings,
    not_seen,
    plain_findings,
)
from tao_sdk.preflight.gpus import gpu_findings, unseen_gpus
from tao_sdk.preflight.host_needs import count_findings, unseen_findings, with_host_needs
from tao_sdk.preflight.images import file_findings, free_findings, registry_findings
from tao_sdk.preflight.registry_login import NGC_LOGIN
from tao_sdk.preflight.requirements import (
    DataNeeds,
    Dataset,
    GpuNeeds,
    read_arch_list,
    read_needs,
    refuse_unknown_labels,
)

if TYPE_CHECKING:
    from tao_sdk.backends.contract import Files
    from tao_sdk.client.client import Client, Planned
    from tao_sdk.client.job_request import JobRequest
    from tao_sdk.model.machines import Machines
    from tao_sdk.model.prepared_job import DataInput
    from tao_sdk.model.settings import Settings
    from tao_sdk.skills.skill import Skill

# the ends of the keys of COCO's layout, as TAO's specs have them side by side
IMAGE_FOLDER, IMAGE_LIST = ".image_dir", ".json_file"
CHUNK = 4_000_000  # bytes that one read asks a platform for
# codes of findings, and how they end, of what a plan could not look at, or would lose
NOT_LOOKED_AT = (*ONLY_FROM_HERE, NOT_ASKED, "input.not_mounted", "output.ephemeral")
UNSEEN_ENDS = ("_unseen", "_silent")
# codes of warnings of a plan by which a job most likely fails
WOULD_FAIL = (MORE_GPUS, MORE_NODES, "image.architecture")
# codes of the plan's findings of inputs, and of those of a dataset that say no more
OF_INPUTS = (*ONLY_FROM_HERE, "input.", "s3.")
UNSEEN_PATH = "It is on no volume of the job that can be looked at from here."
MOUNT_IT = "Mount a claim that has it (pvc://claim:/place), or write s3://bucket/key."
OF_PRESENCE = ("dataset.missing", "dataset.not_seen", "dataset.there")


def launch_findings(
    client: Client, request: JobRequest, planned: Planned, needs: LaunchNeeds
) -> Iterator[Finding]:
    """Findings about the job's needs (credentials, machines, data) and those of the plan's checks,
    each with the command or the advice that mends it.
    """
    if request.skill:
        yield from credential_findings(request.skill, is_set_for(client, request))
        yield from host_findings(request.skill, request.action, planned)
        own = request.skill.needs_of(request.action)
        needs = replace(needs, gpus=with_host_needs(needs.gpus, own, request.skill.name))
    yield from machine_findings(client, request.platform, planned, needs)
    yield from data_findings(client, request.platform, planned, needs.data)
    if not has_code(planned, "output.ephemeral"):
        yield Finding(Severity.OK, "results.place", f"The results go to {planned.plan.results_dir}")
    yield from map(fail_closed, planned.findings)


def host_findings(skill: Skill, action: str, planned: Planned) -> Iterator[Finding]:
    """Findings about the machine that the skill needs for the action, by the job alone."""
    needs = skill.needs_of(action)
    gpus = (planned.spec.gpu_count or 0) * (planned.spec.num_nodes or 1)
    yield from count_findings(needs, skill.name, gpus)
    yield from unseen_findings(needs, skill.name)


@dataclass(frozen=True)
class LaunchNeeds:
    """The needs of a launch beside those that its job states."""

    data: DataNeeds = field(default_factory=DataNeeds)
    gpus: GpuNeeds = GpuNeeds()
    free_gb: float = 0.0  # of disk, in 10^9 bytes

    @property
    def any(self) -> bool:
        return bool(self.data.labels or self.gpus.any or self.free_gb)


@dataclass(frozen=True)
class TypedNeeds:
    """The flags of `tao doctor` for a launch's needs, as they were typed."""

    fields: Sequence[str] = ()  # KEY=FIELD[,FIELD]
    batches: Sequence[str] = ()  # KEY=BATCH,SHARDS
    gpu_count: int = 0
    gpu_memory_gb: float = 0.0
    arch_lists: Sequence[str] = ()  # NAME=sm_80[,sm_90]
    free_gb: float = 0.0


def read_typed_needs(typed: TypedNeeds) -> LaunchNeeds:
    """Read the needs from the typed flags. Raises UsageError."""
    try:
        archs = tuple(map(read_arch_list, typed.arch_lists))
        data = read_needs(typed.fields, typed.batches)
    except ValueError as mistake:
        raise UsageError(f"{mistake}.", "", "Correct it.") from None
    return LaunchNeeds(data, GpuNeeds(typed.gpu_count, typed.gpu_memory_gb, archs), typed.free_gb)


def is_set_for(client: Client, request: JobRequest) -> Callable[[str], bool]:
    """Return a check: true for a variable that the job is given, or that the caller has."""

    def is_set(name: str) -> bool:
        return bool(request.spec.env_vars.get(name) or client.settings.get(name))

    return is_set


def fail_closed(finding: Finding) -> Finding:
    """Turn a warning into an error if it says that a check was not made, or that the job most
    likely fails.
    """
    code = finding.code
    is_unseen = code.startswith(NOT_LOOKED_AT) or code.endswith(UNSEEN_ENDS)
    if finding.severity is Severity.WARNING and (is_unseen or code in WOULD_FAIL):
        return replace(finding, severity=Severity.ERROR)
    return finding


def has_code(planned: Planned, code: str) -> bool:
    return any(finding.code == code for finding in planned.findings)


# The machines and the image


def machine_findings(
    client: Client, platform: str, planned: Planned, needs: LaunchNeeds
) -> Iterator[Finding]:
    """Findings about the machines that would run the job (GPUs, free disk), and about its image.
    None if the platform could not be asked: the plan says so.
    """
    if has_code(planned, NOT_ASKED):
        return
    backend = client.engine.backend(platform)
    fetches_image = bool(planned.spec.image) and backend.capabilities.needs_image
    if not (fetches_image or needs.gpus.any or needs.free_gb):
        return
    if not isinstance(backend, SeesMachines):
        yield unseen_machines("The platform does not show its machines.")
        return
    try:
        machines = backend.machines(planned.plan)
    except TaoError as failed:
        yield unseen_machines(join_sentences(failed.what, failed.why))
        return
    if needs.gpus.any and machines.gpus_unseen:
        yield unseen_gpus(machines.gpus_unseen)
    elif needs.gpus.any:
        yield from gpu_findings(machines.gpus, needs.gpus)
    yield from free_findings(machines.free, needs.free_gb)
    if fetches_image:
        yield from image_findings(client, platform, planned, backend, machines)


def unseen_machines(why: str) -> Finding:
    what = "The machines that would run the job could not be looked at."
    return error("machines.not_seen", what, why, "See what the platform lacks:", "tao doctor")


def image_findings(
    client: Client, platform: str, planned: Planned, backend: SeesMachines, machines: Machines
) -> Iterator[Finding]:
    """Check that the image is there, or that its registry gives it, for these machines. The
    platform's own finding about the image counts, and is not repeated.
    """
    if machines.asks_registries and not has_code(planned, "image.pulled"):
        return
    try:
        name = read_image(planned.spec.image or "")
    except SpecError:
        return  # the plan's own checks take other forms, too
    if name.file:
        yield from file_findings(name.file, PlatformPlace(client, platform, name.file))
        return
    if name.on_machines & machines.images:
        yield Finding(Severity.OK, "image.there", f"{name.reference} is on a machine already.")
        return
    found, image = registry_findings(name, look_environ(client, backend), machines)
    if machines.asks_registries:
        found = [each for each in found if image and each.severity is not Severity.OK]
    yield from found
    if image and image.private:
        yield from private_findings(planned, backend, name.registry)


def private_findings(planned: Planned, backend: SeesMachines, registry: str) -> Iterator[Finding]:
    try:
        yield from backend.private_image_findings(planned.plan, registry)
    except TaoError as failed:
        yield unseen_machines(join_sentences(failed.what, failed.why))


def look_environ(client: Client, backend: Any) -> dict[str, str]:
    """The environment for a look at a registry, with the login of the caller's settings."""
    settings: Settings = getattr(backend, "settings", client.settings)
    logins = {name: settings.get(name) for name in NGC_LOGIN}
    given = {name: value for name, value in logins.items() if value}
    return {**settings.environ, "HOME": str(settings.home), **given}


# Data


def data_findings(
    client: Client, platform: str, planned: Planned, needs: DataNeeds
) -> Iterator[Finding]:
    """Check each input as the platform sees it, with the records of annotation files. Inputs that
    the plan reports as missing are not reported again.
    """
    inputs = planned.job.data.inputs
    try:
        refuse_unknown_labels(needs, [each.key for each in inputs], "input of the job")
    except ValueError as mistake:
        raise UsageError(f"{mistake}.", "", "Name an input by its key.") from None
    left_out = OF_PRESENCE if plan_tells_of_inputs(planned) else ()
    for each in inputs:
        if not planned.job.brings_path(each.path):
            for finding in input_findings(client, platform, planned, each, needs):
                if finding.code not in left_out:
                    yield finding


def plan_tells_of_inputs(planned: Planned) -> bool:
    """True if an error of the plan says that an input is missing, or was not looked at."""
    return any(
        finding.severity is Severity.ERROR and finding.code.startswith(OF_INPUTS)
        for finding in map(fail_closed, planned.findings)
    )


def input_findings(
    client: Client, platform: str, planned: Planned, wanted: DataInput, needs: DataNeeds
) -> Iterator[Finding]:
    try:
        address = seen_address(client, platform, planned, wanted)
    except NotSeen as unseen:
        yield not_seen(Dataset(wanted.key, wanted.path), unseen)
        return
    if not address:
        yield from plain_findings(Dataset(wanted.key, wanted.uri), needs)
        return
    place = PlatformPlace(client, platform, address)
    yield from dataset_findings(Dataset(wanted.key, address), needs, place)
    folder = Dataset(wanted.key, address)
    if wanted.selective:
        yield from named_media(client, platform, planned, folder, wanted.selective)
    elif is_image_folder(place, folder):
        images = NamedFiles(wanted.key[: -len(IMAGE_FOLDER)] + IMAGE_LIST, ())
        yield from named_media(client, platform, planned, folder, images)


def is_image_folder(place: PlatformPlace, folder: Dataset) -> bool:
    """True for the folder of COCO's layout; its images may also come in an archive."""
    if not folder.label.endswith(IMAGE_FOLDER):
        return False
    try:
        seen = place.look(folder.address)
    except NotSeen:
        return False  # its own findings say so
    return seen is not None and seen.is_dir


def named_media(
    client: Client, platform: str, planned: Planned, folder: Dataset, named: NamedFiles
) -> Iterator[Finding]:
    """For each JSON annotation, check that the files it names are in the folder."""
    for each in planned.job.data.inputs:
        if each.key != named.annotation and not each.key.startswith(f"{named.annotation}["):
            continue
        try:
            address = seen_address(client, platform, planned, each)
        except NotSeen:
            continue  # its own findings say so
        if is_annotation_file(address):
            places = (
                PlatformPlace(client, platform, address),
                PlatformPlace(client, platform, folder.address),
            )
            yield from media_findings(folder, Dataset(each.key, address), named.keys, places)


def seen_address(client: Client, platform: str, planned: Planned, wanted: DataInput) -> str:
    """The address of an input in the platform's files. "" if they do not have it, and the plan's
    checks have looked. Raises NotSeen.
    """
    backend = client.engine.backend(platform)
    if not wanted.is_path or not isinstance(backend, MapsPaths):
        return address_at_place(planned, wanted)
    address = backend.file_address(planned.plan, wanted.path)
    if not address:
        raise NotSeen(UNSEEN_PATH, MOUNT_IT)
    return address


def address_at_place(planned: Planned, wanted: DataInput) -> str:
    """The address of an input in the platform's files. "" if they do not have it: it lies in the
    image, or on a hub, and the plan's checks have looked.
    """
    if not wanted.is_path:
        return wanted.uri if wanted.scheme == "s3" else ""
    capabilities = backend_class(planned.plan.attempt.platform).capabilities
    if capabilities.shared_filesystem:
        return wanted.path
    mounts: Any = planned.spec.mounts
    mount = mount_of(read_mounts(mounts, str(Path.cwd()), str(Path.home())), wanted.path)
    if mount:
        return mount.on_host(wanted.path, {})
    return "" if capabilities.needs_image else wanted.path


class PlatformPlace:
    """Files as a platform sees them, and buckets."""

    def __init__(self, client: Client, platform: str, address: str) -> None:
        self.client, self.platform, self.address = client, platform, address

    @property
    def files(self) -> Files:
        return self.client.files(self.platform, self.address)

    def look(self, address: str) -> Seen | None:
        try:
            return Seen(self.files.stat(address).is_dir)
        except PathNotFound:
            return None
        except TaoError as failed:
            raise cannot_see(failed) from None

    @contextmanager
    def open(self, address: str) -> Generator[BinaryIO]:
        try:
            yield io.BufferedReader(PlatformFile(self.files, address), CHUNK)
        except TaoError as failed:
            raise cannot_see(failed) from None


def cannot_see(failed: TaoError) -> NotSeen:
    return NotSeen(join_sentences(failed.what, failed.why), failed.next)


class PlatformFile(io.RawIOBase):
    """A file of a platform as a stream."""

    def __init__(self, files: Files, path: str) -> None:
        self.files, self.path, self.offset = files, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.files.read(self.path, self.offset, len(buffer))
        buffer[: len(data)] = data
        self.offset += len(data)
        return len(data)
