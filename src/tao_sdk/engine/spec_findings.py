"""Findings about a spec, for which nothing but the spec and the backend's capabilities is read.

Not here: the findings about its inputs and paths (input_findings.py) and about its hardware
(model/spec_hardware.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from tao_sdk.backends.contract import AnyBackend
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.spec_hardware import shared_memory_findings
from tao_sdk.payload.placeholders import CONFIG_PATH, misspelt, names_in_braces

OURS = ("TAO_JOB_ID", "TAO_ATTEMPT", "TAO_RESULTS_DIR")
ARGS_FOLLOW = "Args that the command does not name stand behind it by themselves."


def about_args(spec: JobSpec) -> str:
    """Say what to do about a literal `{args}` in the command."""
    if spec.args:
        return f"Leave {{args}} out, or name one of them: {{{next(iter(spec.args))}}}."
    return "Leave {args} out; to give the command arguments: --args NAME=VALUE."


def placeholder_findings(spec: JobSpec) -> Iterator[Finding]:
    """Warn of names in braces that were probably meant to be replaced, but stay as they are."""
    known = (
        ["config_path"]
        if spec.args is None
        else [*spec.args, *(name.replace("-", "_") for name in spec.args)]
    )
    for written, meant in misspelt(spec.command, known):
        what = f"The command has {{{written}}}, which nothing replaces."
        yield Finding(
            Severity.WARNING, "command.placeholder", what, "", f"Did you mean {{{meant}}}?"
        )
    yield from input_placeholder_findings(spec)
    if "args" not in known and "args" in names_in_braces(spec.command):
        what = "The command has {args}, which nothing replaces."
        yield Finding(Severity.WARNING, "command.placeholder", what, ARGS_FOLLOW, about_args(spec))
    if CONFIG_PATH in spec.command and spec.specs is None and spec.args is None:
        what = f"The command names {CONFIG_PATH}, and the job has no specs to write there."
        yield Finding(Severity.WARNING, "command.placeholder", what, "", "Give it specs.")


def input_placeholder_findings(spec: JobSpec) -> Iterator[Finding]:
    """Report inputs in braces in a command without specs and args: such an input is a path in the
    job.
    """
    inputs: Any = spec.inputs
    if spec.specs is not None or spec.args is not None or not isinstance(inputs, Mapping):
        return
    names = set(names_in_braces(spec.command))
    for key in map(str, cast(Mapping[Any, Any], inputs)):
        if key in names:
            what = f"The command has {{{key}}}, which nothing replaces."
            why = "Without args, an input's key is its path in the job."
            fix = f"Write {key} in the place of {{{key}}}."
            yield Finding(Severity.ERROR, "command.placeholder", what, why, fix)


def variable_findings(spec: JobSpec) -> Iterator[Finding]:
    """Warn of variables in env_vars that the SDK sets itself, so they are not used."""
    for name in OURS:
        if name in spec.env_vars:
            what = f"{name} in env_vars is not used: in the job it is always the SDK's own."
            yield Finding(
                Severity.WARNING,
                "env_vars.ours",
                what,
                "",
                "Leave it out, or give it another name.",
            )


def output_findings(spec: JobSpec) -> Iterator[Finding]:
    """Warn of outputs that the program does not seem to know: it would write elsewhere, and nothing
    would be kept.
    """
    if spec.specs is None:
        return
    from tao_sdk.payload.declared import unread_outputs

    for key in unread_outputs(spec):
        what = (
            f"outputs names {key}, which the specs do not have and neither "
            "the command nor its files name."
        )
        why = (
            "It is added to the spec with a path; a program that does not "
            "read it there writes elsewhere."
        )
        fix = f"Add {key} to the specs where the program reads it, or declare it optional."
        yield Finding(Severity.WARNING, "output.unread", what, why, fix)


def general_findings(spec: JobSpec, backend: AnyBackend) -> list[Finding]:
    """Findings about the spec that follow from the backend's declared capabilities."""
    findings: list[Finding] = []
    if backend.capabilities.needs_image and not spec.image:
        findings.append(
            Finding(
                Severity.ERROR,
                "spec.image",
                f"{backend.platform} needs an image.",
                "",
                "Name one: image: ...",
            )
        )
    if (spec.num_nodes or 1) > 1 and not backend.capabilities.multi_node:
        what = f"{backend.platform} runs a job on one node, not {spec.num_nodes}."
        fix = "Leave num_nodes out, or choose a platform that runs jobs on several."
        findings.append(Finding(Severity.ERROR, "spec.num_nodes", what, "", fix))
    if "shm_size" not in backend.capabilities.unused_fields:
        findings += shared_memory_findings(spec)
    return findings
