"""check_tao_launch_preflight: its arguments, and the launch that they describe."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tao_sdk.model.errors import UsageError
from tao_sdk.preflight.access import PlatformCheck
from tao_sdk.preflight.host_needs import with_host_needs
from tao_sdk.preflight.launch import Launch
from tao_sdk.preflight.platforms import PLATFORMS
from tao_sdk.preflight.requirements import (
    GpuNeeds,
    read_arch_list,
    read_batch_limit,
    read_dataset,
    read_json_fields,
    read_needs,
    refuse_unknown_labels,
)
from tao_sdk.skills.names import load_named
from tao_sdk.skills.platforms import platform_named, platform_without_file, short_name

if TYPE_CHECKING:
    from tao_sdk.skills.bank import Bank
    from tao_sdk.skills.skill import Skill


DOCKER = "local-docker"  # the platform's name in a bank, of any daemon


def checked(read: Callable[[str], Any]) -> Callable[[str], str]:
    """Return an argparse type that leaves the text as typed. It raises ArgumentTypeError if `read`
    cannot read the text.
    """

    def check(text: str) -> str:
        try:
            read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    return check


def read_number(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1e9:
        raise ValueError(f"{text!r} is not a number of 0 or more")
    return number


def read_count(text: str) -> int:
    count = int(text)
    if not 0 <= count < 1_000_000:
        raise ValueError(f"{text!r} is not a number of 0 or more")
    return count


LAUNCH_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "--platform": {"metavar": "NAME", "required": True, "help": "where the job is to run"},
    "--model": {"metavar": "NAME", "help": "the model: its credentials, GPUs and driver"},
    "--container-image": {"metavar": "IMAGE", "help": "the image: present or pullable"},
    "--docker-host": {"metavar": "URL", "help": "the daemon; default: $DOCKER_HOST"},
    "--path": {
        "metavar": "LABEL=PATH",
        "action": "append",
        "type": checked(read_dataset),
        "help": "a path, or an address such as s3://..., that has to be there",
    },
    "--json-required-field": {
        "metavar": "LABEL=FIELD[,FIELD]",
        "action": "append",
        "type": checked(read_json_fields),
        "help": "fields that every record of the annotation file LABEL has",
    },
    "--effective-batch-limit": {
        "metavar": "LABEL=BATCH,SHARDS",
        "action": "append",
        "type": checked(read_batch_limit),
        "help": "no shard of the annotation file may have fewer records than a batch",
    },
    "--gpu-min-count": {"metavar": "N", "type": read_count, "default": 0},
    "--gpu-min-memory-gb": {"metavar": "GB", "type": read_number, "default": 0.0},
    "--gpu-arch-allowlist": {
        "metavar": "NAME=sm_80[,sm_90]",
        "action": "append",
        "type": checked(read_arch_list),
        "help": "the architectures that the image NAME is built for",
    },
    "--min-free-disk-gb": {
        "metavar": "GB",
        "type": read_number,
        "default": 0.0,
        "help": "free on the disk of images, of local results, or of a cluster's base directory",
    },
    "--gpu-smoke-image": {
        "metavar": "IMAGE",
        "default": "",
        "help": "run nvidia-smi in a container of this image",
    },
    "--pull-smoke-image": {"action": "store_true", "help": "that image may be pulled"},
    "--install-missing-tools": {
        "action": "store_true",
        "help": "for the documents' calls: no tool is needed, and nothing is installed",
    },
    "--skip-platform-access": {
        "action": "store_true",
        "help": "a dry check, never for a real launch: the platform is not asked",
    },
}


def launch_of(bank: Bank, arguments: argparse.Namespace, environ: Mapping[str, str]) -> Launch:
    """The launch in the arguments. Raises UsageError for a label that no --path has, SkillNotFound,
    SkillError.
    """
    datasets = [read_dataset(text) for text in arguments.path or ()]
    needs = read_needs(arguments.json_required_field or (), arguments.effective_batch_limit or ())
    try:
        refuse_unknown_labels(needs, [each.label for each in datasets], "--path")
    except ValueError as error:
        raise UsageError(f"{error}.", "", "Add --path LABEL=PATH.") from None
    name, skill = named_platform(bank, arguments.platform)
    if arguments.docker_host and name != DOCKER:
        raise UsageError(
            f"--docker-host names a daemon, and {name} has none.",
            "",
            f"Leave it out, or choose the platform of the daemon: --platform {DOCKER}",
        )
    archs = tuple(map(read_arch_list, arguments.gpu_arch_allowlist or ()))
    gpus = GpuNeeds(arguments.gpu_min_count, arguments.gpu_min_memory_gb, archs)
    model = load_named(bank, arguments.model) if arguments.model else None
    if model:
        gpus = gpus_for(gpus, model)
    check = PlatformCheck(
        environ,
        arguments.container_image or "",
        arguments.docker_host or "",
        gpus,
        arguments.gpu_smoke_image,
        arguments.pull_smoke_image,
        arguments.min_free_disk_gb,
    )
    return Launch(
        name,
        skill,
        check,
        datasets,
        needs,
        arguments.skip_platform_access,
        model,
    )


def gpus_for(asked: GpuNeeds, model: Skill) -> GpuNeeds:
    """The GPUs that are asked for, and those that the model needs."""
    needs = model.needs_of("")
    joined = with_host_needs(asked, needs, model.name)
    return replace(joined, count=max(asked.count, needs.gpu_count))


def named_platform(bank: Bank, name: str) -> tuple[str, Skill | None]:
    """The platform's short name, and its skill. A platform on which no job runs yet may have no
    skill. Raises SkillNotFound, SkillError.
    """
    name_alone = platform_without_file(bank, name)
    if name_alone and name_alone not in PLATFORMS:
        return name_alone, None
    skill = platform_named(bank, name)
    return short_name(skill), skill
