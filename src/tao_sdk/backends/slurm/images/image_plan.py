"""Image plans: the preparation of a job's image, and its conversion into a file. Pure.

An image is converted once for all jobs that use it. The conversion is a SLURM job of its own, and
the job that needs the image depends on it. Not here: the forms of an image name (image_name.py),
the runtime of an image (containers.py).
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tao_sdk.backends import image_name
from tao_sdk.backends.image_name import ImageName
from tao_sdk.backends.shell import assign_variables, define_function, join_parts
from tao_sdk.backends.slurm.cluster.site import PLAIN_PATH, Site
from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.images import containers
from tao_sdk.backends.slurm.images.containers import APPTAINER, ENROOT, NONE, PYXIS
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.errors import SpecError

CONVERSION_PARTITION = "cpu"  # the documented one
SCRIPT = "image.sbatch"


@dataclass(frozen=True)
class ImagePlan:
    """The preparation of an image.

    `prepare` is shell text that runs in the attempt's folder before sbatch. It writes the image's
    final name to the file `image`, and may set `after` to more options of sbatch.
    """

    reference: str
    prepare: str
    files: Mapping[str, str] = field(default_factory=dict[str, str])  # in the attempt's folder
    runtime: str = PYXIS
    log: str = ""  # the conversion's output; `image.log` in the attempt's folder links to it
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "notes": list(self.notes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ImagePlan:
        typed: dict[str, Any] = {**data, "notes": tuple(data["notes"])}
        return cls(**typed)


@dataclass(frozen=True)
class Conversion:
    """The SLURM job that converts an image to `file`. Its name is the same for all users."""

    name: ImageName
    runtime: str
    file: str
    log: str
    force: bool
    account: str = ""

    @property
    def mode(self) -> str:
        """`anew`: convert in any case. `once`: use the file if it is there."""
        return "anew" if self.force else "once"

    @property
    def job_name(self) -> str:
        return f"tao-image-{self.name.for_file}"


def build_image_plan(image: str, options: SlurmOptions, facts: SlurmFacts) -> ImagePlan:
    """Plan the preparation of an image.

    Raises SpecError for a name in none of the documented forms.
    """
    runtime = containers.choose_runtime(options, facts)
    if runtime in ("", NONE):
        return unused_image_plan(image)
    name = image_name.read(image)
    reference = direct_reference(name, runtime)
    conversion = plan_conversion(name, runtime, options, facts)
    notes = tuple(plan_notes(name, runtime, conversion, facts))
    if conversion is None:
        prepare = f"printf %s {shlex.quote(reference)} > image"
        return ImagePlan(reference, prepare, runtime=runtime, notes=notes)
    return ImagePlan(
        reference,
        prepare_script(conversion, reference),
        files={SCRIPT: conversion_script(conversion, facts)},
        runtime=runtime,
        log=conversion.log,
        notes=notes,
    )


def unused_image_plan(image: str) -> ImagePlan:
    """The plan for a command that runs on the node itself."""
    notes: tuple[str, ...] = ()
    if image:
        notes = (f"The image {image} is not used: the command runs on the node itself.",)
    return ImagePlan("", "printf '' > image", runtime=NONE, notes=notes)


def direct_reference(name: ImageName, runtime: str) -> str:
    """The image's address for a runtime that fetches it without a conversion."""
    if name.file or runtime == PYXIS:
        return name.for_enroot
    if runtime == APPTAINER:
        return f"docker://{name.reference}"
    return f"docker://{name.for_enroot}"


def plan_conversion(
    name: ImageName, runtime: str, options: SlurmOptions, facts: SlurmFacts
) -> Conversion | None:
    """The image's conversion; None if it is already a file, or the job wants no conversion."""
    if name.file or not wants_conversion(options, facts):
        return None
    path = f"{images_folder(facts.site, facts.base)}/{name.for_file}"
    ending = "sif" if runtime == APPTAINER else "sqsh"
    return Conversion(
        name=name,
        runtime=runtime,
        file=f"{path}.{ending}",
        log=f"{path}.log",
        force=options.force_reconvert_latest and name.floats,
        account=options.account or facts.site.account,
    )


def wants_conversion(options: SlurmOptions, facts: SlurmFacts) -> bool:
    return facts.site.sqsh if options.use_sqsh is None else options.use_sqsh


def images_folder(site: Site, base: str) -> str:
    """The folder of the converted images: this user's, or the site's."""
    if site.sqsh_cache and not PLAIN_PATH.fullmatch(site.sqsh_cache):
        why = (
            "It must be absolute, of letters, digits and _ . / @ + = -: SLURM reads other "
            "characters as its own."
        )
        raise SpecError(
            f"SLURM_SQSH_CACHE_DIR is {site.sqsh_cache!r}.", why, "Correct it, or leave it out."
        )
    return site.sqsh_cache or f"{base}/images"


def plan_notes(
    name: ImageName, runtime: str, conversion: Conversion | None, facts: SlurmFacts
) -> Iterator[str]:
    """Yield the plan's notes about the image."""
    if not facts.pyxis:
        yield f"The cluster has no Pyxis: {runtime} runs the image."
    if conversion:
        yield from conversion_notes(conversion, facts)
    elif not name.file:
        yield (
            f"{name.reference} is not converted: every node fetches it from its "
            "registry when the job starts."
        )


def conversion_notes(conversion: Conversion, facts: SlurmFacts) -> Iterator[str]:
    named = facts.site.conversion_partition
    if named and is_closed(named, facts, conversion.account):
        yield (
            f"Images are not converted in {named}, which SLURM_CONVERSION_PARTITION names: it "
            "takes no jobs of the account."
        )
    image = conversion.name
    if conversion.force:
        yield f"{image.reference} is converted anew."
    elif image.floats and posixpath.basename(conversion.file) in facts.images:
        yield (
            f"{image.reference} is used as last converted; --force-reconvert-latest "
            "(force_reconvert_latest) converts it anew."
        )


def prepare_script(conversion: Conversion, reference: str) -> str:
    """Shell text for submit.sh: scripts/prepare_image.sh."""
    values = {
        "tao_image_file": conversion.file,
        "tao_convert": conversion.mode,
        "tao_conversion": conversion.job_name,
        "tao_conversion_log": conversion.log,
        "tao_reference": reference,
    }
    return join_parts(assign_variables(values), load_script("prepare_image"))


def conversion_script(conversion: Conversion, facts: SlurmFacts) -> str:
    """The batch script of a conversion: scripts/convert_image.sh."""
    values = {
        "image": conversion.file,
        "source": conversion.name.reference,
        "convert": conversion.mode,
    }
    import_command = IMPORTS[conversion.runtime](conversion.name, facts)
    import_image = define_function("import_image", f"  {import_command}")
    return join_parts(
        "#!/bin/bash",
        conversion_directives(conversion, facts),
        assign_variables(values),
        import_image,
        load_script("convert_image"),
    )


def conversion_directives(conversion: Conversion, facts: SlurmFacts) -> str:
    """The #SBATCH lines of a conversion."""
    site = facts.site
    values = {
        "job-name": conversion.job_name,
        "partition": conversion_partition(facts, conversion.account),
        "account": conversion.account,
        "nodes": "1",
        "ntasks": "1",
        "mem": f"{site.conversion_memory_gb}G",
        "time": str(site.conversion_minutes),
        "output": conversion.log.replace("%", "%%"),
        "open-mode": "truncate",
        "dependency": "singleton",
    }
    return "\n".join(f"#SBATCH --{name}={value}" for name, value in values.items() if value)


def conversion_partition(facts: SlurmFacts, account: str) -> str:
    """The partition of a conversion: the site's, else the documented one, else the default ("").

    Skips a partition that takes no jobs of the account. On a cluster without a default partition,
    it is the partition of the jobs. Raises SpecError for an invalid setting.
    """
    named = facts.site.conversion_partition
    if named and not re.fullmatch(r"[A-Za-z0-9_.@+,-]+", named):
        raise SpecError(
            f"SLURM_CONVERSION_PARTITION is {named!r}.", "", "It is the name of a partition."
        )
    if named and not is_closed(named, facts, account):
        return named
    is_there = CONVERSION_PARTITION in facts.partitions
    if is_there and not is_closed(CONVERSION_PARTITION, facts, account):
        return CONVERSION_PARTITION
    return "" if facts.default_partition else facts.site.partition


def is_closed(names: str, facts: SlurmFacts, account: str) -> bool:
    """True if all partitions of the list are known and none takes the account's jobs.

    SLURM would accept a conversion there and never start it.
    """
    payers = [account] if account else facts.accounts
    for name in names.split(","):
        partition = facts.partitions.get(name)
        if partition is None or facts.takes_accounts(partition, payers):
            return False
    return True


def import_with_enroot(name: ImageName, _: SlurmFacts) -> str:
    return f'enroot import --output "$partial" {shlex.quote(f"docker://{name.for_enroot}")}'


def import_with_apptainer(name: ImageName, facts: SlurmFacts) -> str:
    return (
        f'{containers.apptainer_program(facts)} pull "$partial" '
        f"{shlex.quote(f'docker://{name.reference}')}"
    )


IMPORTS = {PYXIS: import_with_enroot, ENROOT: import_with_enroot, APPTAINER: import_with_apptainer}
