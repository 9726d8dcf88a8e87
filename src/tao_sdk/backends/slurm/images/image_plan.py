"""Images: the one that a job needs, converted once for all jobs that need it. Pure: text for the
login node and the nodes.

A conversion is a SLURM job of its own, on which the job depends, so that nobody waits for it. Not
here: the forms of a name (image_name.py), what runs an image (containers.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tao_sdk.backends import image_name
from tao_sdk.backends.image_name import ImageName
from tao_sdk.backends.slurm.cluster.site import PLAIN_PATH, Site
from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.images import containers
from tao_sdk.backends.slurm.images.containers import APPTAINER, ENROOT, NONE, PYXIS
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.scripts.shell import function, joined, script, variables
from tao_sdk.model.errors import SpecError

CONVERSION_PARTITION = "cpu"  # the documented one
SCRIPT = "image.sbatch"


@dataclass(frozen=True)
class ImagePlan:
    """How an image gets ready. `prepare` is shell text that runs before sbatch, in the attempt's
    folder: it writes the image's final name to the file `image`, and may set `after` to more words
    for sbatch. `files` are staged there.

    `log` is the file with the conversion's output. A link `image.log` leads there: it tells why a
    conversion has failed.
    """

    reference: str
    prepare: str
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    runtime: str = PYXIS
    log: str = ""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "notes": list(self.notes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ImagePlan:
        typed: dict[str, Any] = {**data, "notes": tuple(data["notes"])}
        return cls(**typed)


@dataclass(frozen=True)
class Conversion:
    """The SLURM job that makes `file` of an image. It has one name per image, by which everybody
    finds it.
    """

    name: ImageName
    runtime: str
    file: str
    log: str
    force: bool
    account: str = ""

    @property
    def how(self) -> str:
        return "anew" if self.force else "once"

    @property
    def job_name(self) -> str:
        return f"tao-image-{self.name.for_file}"


def plan(image: str, options: SlurmOptions, facts: SlurmFacts) -> ImagePlan:
    """Raises SpecError for what is none of the documented forms."""
    chosen = containers.runtime(options, facts)
    if chosen in ("", NONE):
        unused = (
            (f"The image {image} is not used: the command runs on the node itself.",)
            if image
            else ()
        )
        return ImagePlan("", "printf '' > image", runtime=NONE, notes=unused)
    name = image_name.read(image)
    reference = by_itself(name, chosen)
    wanted = conversion(name, chosen, options, facts)
    notes = tuple(plan_notes(name, chosen, wanted, facts))
    if wanted is None:
        return ImagePlan(
            reference, f"printf %s {shlex.quote(reference)} > image", runtime=chosen, notes=notes
        )
    files = {SCRIPT: conversion_script(wanted, facts)}
    return ImagePlan(reference, prepare(wanted, reference), files, chosen, wanted.log, notes)


def by_itself(name: ImageName, chosen: str) -> str:
    """The image as a runtime fetches it without a conversion."""
    if name.file or chosen == PYXIS:
        return name.for_enroot
    return f"docker://{name.for_docker if chosen == APPTAINER else name.for_enroot}"


def conversion(
    name: ImageName, chosen: str, options: SlurmOptions, facts: SlurmFacts
) -> Conversion | None:
    """None for an image that is a file already, and where nobody wants one made."""
    wanted = facts.site.sqsh if options.use_sqsh is None else options.use_sqsh
    if name.file or not wanted:
        return None
    start = f"{folder(facts.site, facts.base)}/{name.for_file}"
    ending = "sif" if chosen == APPTAINER else "sqsh"
    force = options.force_reconvert_latest and name.floats
    return Conversion(
        name,
        chosen,
        f"{start}.{ending}",
        f"{start}.log",
        force,
        options.account or facts.site.account,
    )


def folder(site: Site, base: str) -> str:
    """Where the converted images of this user, or of a whole site, lie."""
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
    name: ImageName, chosen: str, wanted: Conversion | None, facts: SlurmFacts
) -> Iterator[str]:
    if not facts.pyxis:
        yield f"The cluster has no Pyxis: {chosen} runs the image."
    named = facts.site.conversion_partition
    if wanted and named and is_closed(named, facts, wanted.account):
        yield (
            f"Images are not converted in {named}, which SLURM_CONVERSION_PARTITION names: it "
            "takes no jobs of the account."
        )
    if wanted and name.floats:
        use = (
            "is converted anew"
            if wanted.force
            else "is used as last converted; force_reconvert_latest converts it anew"
        )
        yield f"{name.for_docker} {use}."
    if not wanted and not name.file:
        yield (
            f"{name.for_docker} is not converted: every node fetches it from its "
            "registry when the job starts."
        )


def prepare(wanted: Conversion, reference: str) -> str:
    """Shell text for submit.sh: scripts/prepare_image.sh."""
    values = {
        "tao_image_file": wanted.file,
        "tao_convert": wanted.how,
        "tao_conversion": wanted.job_name,
        "tao_conversion_log": wanted.log,
        "tao_reference": reference,
    }
    return joined(variables(values), script("prepare_image"))


def conversion_script(wanted: Conversion, facts: SlurmFacts) -> str:
    """scripts/convert_image.sh, which sbatch is given."""
    values = {"image": wanted.file, "source": wanted.name.for_docker, "convert": wanted.how}
    import_image = function("import_image", f"  {IMPORTS[wanted.runtime](wanted.name, facts)}")
    return joined(
        "#!/bin/bash",
        directives(wanted, facts),
        variables(values),
        import_image,
        script("convert_image"),
    )


def directives(wanted: Conversion, facts: SlurmFacts) -> str:
    site = facts.site
    values = {
        "job-name": wanted.job_name,
        "partition": conversion_partition(facts, wanted.account),
        "account": wanted.account,
        "nodes": "1",
        "ntasks": "1",
        "mem": f"{site.conversion_memory_gb}G",
        "time": str(site.conversion_minutes),
        "output": wanted.log.replace("%", "%%"),
        "open-mode": "truncate",
        "dependency": "singleton",
    }
    return "\n".join(f"#SBATCH --{name}={value}" for name, value in values.items() if value)


def conversion_partition(facts: SlurmFacts, account: str) -> str:
    """The site's, else the documented one, where they may be used, else the cluster's default, else
    the jobs'.
    """
    named = facts.site.conversion_partition
    if named and not re.fullmatch(r"[A-Za-z0-9_.@+,-]+", named):
        raise SpecError(
            f"SLURM_CONVERSION_PARTITION is {named!r}.", "", "It is the name of a partition."
        )
    if named and not is_closed(named, facts, account):
        return named
    documented = CONVERSION_PARTITION in facts.partitions and not is_closed(
        CONVERSION_PARTITION, facts, account
    )
    return (
        CONVERSION_PARTITION
        if documented
        else ""
        if facts.default_partition
        else facts.site.partition
    )


def is_closed(named: str, facts: SlurmFacts, account: str) -> bool:
    """Whether SLURM would take a conversion there and never start it: no partition of the list
    takes the account's jobs.
    """
    asked = [facts.partitions.get(name) for name in named.split(",")]
    own = [account] if account else facts.accounts
    return all(each is not None and not facts.takes(each, own) for each in asked)


def import_with_enroot(name: ImageName, _: SlurmFacts) -> str:
    return f'enroot import --output "$partial" {shlex.quote(f"docker://{name.for_enroot}")}'


def import_with_apptainer(name: ImageName, facts: SlurmFacts) -> str:
    return (
        f'{containers.apptainer(facts)} pull "$partial" '
        f"{shlex.quote(f'docker://{name.for_docker}')}"
    )


IMPORTS = {PYXIS: import_with_enroot, ENROOT: import_with_enroot, APPTAINER: import_with_apptainer}
