"""JobSpec: what to run. Frozen, the same for every backend, and checked field by field.

Not here: how to run it on one backend (its options.py), and how a job file is read
(client/job_file.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, cast

from tao_sdk.model import fields as f
from tao_sdk.model.fields import setting
from tao_sdk.model.secrets import Secret, SecretRef, shown_target

MODES = ("config", "args", "passthrough")
CONFIG_FORMATS = ("json", "yaml", "toml")
ID_LENGTH = 10  # 36**10: a chance of 1e-8 of a clash after 9 million jobs of one name
NAME_LENGTH = 28 - ID_LENGTH - 1  # a DNS label of at most 28 characters fits every backend's names
LARGEST_VARIABLE = 128 * 1024 - 1  # bytes of NAME=value; MAX_ARG_STRLEN, less the NUL at its end
HOOKS = ("on_complete", "on_error", "on_epoch_milestone")
ID_PATTERN = rf"[a-z][a-z0-9-]*-[a-z0-9]{{{ID_LENGTH}}}"
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"

EnvValue = str | Secret | SecretRef


@f.lists_fields()
@dataclass(frozen=True)
class JobSpec:
    """What to run.

    `specs` and `args` are the two ways a command takes its configuration; `inputs` and `outputs`
    are keyed by spec path (modes config and args) or by path in the job (passthrough). `files` maps
    a path in the job to its content.

    Each field, what it takes, and what it means:
    """

    image: str = setting(f.TEXT, "", "Container image; recorded, not used, by the local platform.")
    command: str = setting(f.TEXT, "", "Shell text that is run in the job.")
    name: str = setting(
        f.TEXT,
        "",
        "The job's name, any text; its id begins with it, in lower case. "
        "Default: from job file or image.",
    )
    mode: str | None = setting(
        f.choice(*MODES),
        None,
        "How the command takes its configuration. Default: by what is given.",
    )
    specs: Mapping[str, Any] | None = setting(
        f.MAPPING, None, "The nested spec that {config_path} will hold."
    )
    args: Mapping[str, Any] | None = setting(f.MAPPING, None, "Command-line arguments by name.")
    config_format: str | None = setting(
        f.choice(*CONFIG_FORMATS),
        None,
        "Format of the file at {config_path}. Default: toml.",
    )
    inputs: Any = setting(
        f.ANYTHING, None, "What is read: by spec path, or path in the job -> URI (passthrough)."
    )
    mount_path: str | None = setting(
        f.TEXT,
        None,
        "A mounted folder in the job that keeps fetched inputs for all jobs that name it.",
    )
    outputs: Any = setting(
        f.ANYTHING, None, "What is written: by spec path, or a list of paths in the job."
    )
    upload_excludes: tuple[str, ...] = setting(
        f.TEXTS, (), "Prefixes below the results that are not kept."
    )
    resume_key: str | None = setting(
        f.TEXT,
        None,
        "The key of specs or args that a further attempt's checkpoint fills. Default: "
        "resume_training_checkpoint_path.",
    )
    files: Mapping[str, Any] = setting(
        f.CONTENTS, {}, "Path in the job -> content that travels with the job."
    )
    gpu_count: int = setting(
        f.integer(-1),
        1,
        "GPUs per node, in all without num_nodes; 0 for none, -1 for all.",
        flags=("--gpus",),
        habits={
            "all": "Write -1 for all of them, 0 for none.",
            "device=": "It is how many. Which ones: --gpu-ids N, once for each.",
        },
    )
    num_nodes: int | None = setting(
        f.integer(1), None, "Nodes. Default: as many as gpu_count needs.", flags=("--nodes",)
    )
    cpus: float | None = setting(f.NUMBER, None, "CPU cores per node. Default: the platform's.")
    memory: str | None = setting(
        f.SIZE, None, "Memory per node, such as 32g. Default: the platform's."
    )
    shm_size: str | None = setting(
        f.SIZE, None, "Size of /dev/shm, such as 8g. Default: the platform's."
    )
    time_limit: timedelta | None = setting(
        f.DURATION,
        None,
        "Wall time after which the job is ended, such as 4h. Default: none but the platform's.",
    )
    env_vars: Mapping[str, EnvValue] = setting(
        f.MAP_OF_TEXT, {}, "Environment of the command.", flags=("--env",)
    )
    secrets: tuple[str, ...] = setting(
        f.TEXTS, (), "Names in the environment whose values are secret.", flags=("--secret",)
    )
    mounts: Any = setting(f.ANYTHING, None, "Host paths in the job: src:dst[:ro], or mappings.")
    keep_results: bool | None = setting(
        f.YES_OR_NO,
        None,
        "Keep results in ./runs where the job names no place for them. Default: `tao run` does.",
    )
    labels: Mapping[str, str] = setting(
        f.MAP_OF_TEXT, {}, "Labels to find the job by.", flags=("--label",)
    )
    retries: int | None = setting(
        f.integer(0),
        None,
        "How often an infrastructure failure is tried again. Default: the platform's.",
    )
    hooks: Mapping[str, Any] = setting(
        f.MAPPING, {}, "on_complete, on_error, on_epoch_milestone: command or webhook."
    )
    native: Mapping[str, Any] = setting(
        f.MAPPING, {}, "A patch of the rendered request, shown by `tao plan`."
    )

    def to_json(self) -> dict[str, Any]:
        """The spec as it is stored: secrets as references, default values left out, files by name
        only.
        """
        default = JobSpec()
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        stored = {
            name: f.plain_value(value)
            for name, value in given.items()
            if value != getattr(default, name)
        }
        if self.files:
            stored["files"] = sorted(self.files)
        return stored


def read_spec(values: Mapping[str, Any], where: str = "") -> JobSpec:
    """Make a JobSpec from plain values. Raises SpecError naming the field, the value, the reason
    and what is allowed.
    """
    spec = f.read_settings(JobSpec, values, where)
    check_spec(spec, where)
    return spec


def checked(spec: JobSpec) -> JobSpec:
    """Return the spec with every field read as from a job file: a spec made in Python may hold
    anything.
    """
    return read_spec({field.name: getattr(spec, field.name) for field in fields(spec)})


def stored_spec(data: Mapping[str, Any]) -> JobSpec:
    """Make a JobSpec from `JobSpec.to_json`. The contents of its files are not there; they are in
    the packed command.
    """
    values = {
        name: value for name, value in data.items() if name not in ("files", "env_vars", "packed")
    }
    env_vars = {
        name: SecretRef(name) if isinstance(value, Mapping) else value
        for name, value in data.get("env_vars", {}).items()
    }
    return f.read_settings(JobSpec, {**values, "env_vars": env_vars})


def check_spec(spec: JobSpec, where: str = "") -> None:
    """Raise the first mistake that no check of a single field can see."""
    for mistake in spec_mistakes(spec, where):
        raise mistake


def spec_mistakes(spec: JobSpec, where: str = "") -> Iterator[f.FieldError]:
    """Yield every mistake that no check of a single field can see."""
    if not spec.command.strip():
        example = "Say what the job runs, e.g. command: python train.py"
        yield f.FieldError("command", f"{where}command is missing.", "", example)
    for name in ("name", "image", "command", "labels"):
        if not is_unicode(getattr(spec, name)):
            why = "They could be neither stored nor shown."
            yield f.FieldError(
                name, f"{where}{name} contains bytes that are not UTF-8.", why, "Write it anew."
            )
    if "\0" in spec.command:
        yield f.FieldError(
            "command",
            f"{where}command contains a NUL byte.",
            "No shell can take one.",
            "Remove it.",
        )
    if spec.specs is not None and spec.args is not None:
        why = "A command takes one of them."
        yield f.FieldError("args", f"{where}both specs and args are given.", why, "Leave one out.")
    yield from environment_mistakes(spec.env_vars, where)
    for hook in spec.hooks:
        if hook not in HOOKS:
            yield f.unknown_field(hook, HOOKS, f"{where}hooks: ")
        elif not is_target(spec.hooks[hook]):
            allowed = (
                "a command, a list of its words, or the address of a webhook (http:// or https://)"
            )
            yield f.FieldError(
                "hooks",
                f"{where}hooks.{hook} is {shown_target(spec.hooks[hook])!r}; it must be {allowed}.",
            )


def environment_mistakes(env_vars: Mapping[str, EnvValue], where: str) -> Iterator[f.FieldError]:
    """Yield an error for each variable that no process's environment can hold."""
    for name in env_vars:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield f.FieldError(
                "env_vars",
                f"{where}env_vars has the name {name!r}; letters, digits and _ are allowed.",
            )
    given = {
        name: value.value if isinstance(value, Secret) else value
        for name, value in env_vars.items()
    }
    for name, value in given.items():
        if isinstance(value, str) and (wrong := why_no_variable(name, value)):
            yield f.FieldError(
                "env_vars", f"{where}env_vars[{name!r}] {wrong}.", "", "Correct the value."
            )


def why_no_variable(name: str, value: str) -> str:
    """The reason why no process can have this variable; "" if one can."""
    if "\0" in value:
        return "contains a NUL byte"
    if not can_be_bytes(value):
        return "is neither text nor bytes that were read as text"
    size = len(f"{name}={value}".encode("utf-8", "surrogateescape"))
    if size > LARGEST_VARIABLE:
        return f"has {size:,} bytes; Linux starts no program with more than {LARGEST_VARIABLE:,}"
    return ""


def is_target(hook: Any) -> bool:
    """True if a hook can be called: it is a callable, a text, or a command as the list of its
    words.

    None is allowed too: the key is there and no hook is set.
    """
    if isinstance(hook, (list, tuple)):
        words = cast("Sequence[Any]", hook)
        return bool(words) and all(map(is_word, words))
    return hook is None or callable(hook) or (is_word(hook) and not is_foreign_address(hook))


def is_foreign_address(text: str) -> bool:
    """True for an address that no webhook has, perhaps misspelt: no shell has such a command."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    return scheme is not None and scheme[1] not in ("http", "https")


def is_word(word: Any) -> bool:
    return isinstance(word, str) and bool(word.strip()) and "\0" not in word and is_unicode(word)


def can_be_bytes(value: str) -> bool:
    """True if the value can be written as bytes, which is what an environment holds.

    Text can. So can bytes that are not UTF-8 where Python read them with `surrogateescape`, as it
    does with its own environment and command line. Other lone surrogates cannot.
    """
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def is_unicode(value: str | Mapping[str, str]) -> bool:
    """False for bytes that were not text when Python read them, from a command line for example."""
    text = value if isinstance(value, str) else "".join([*value, *value.values()])
    return not any("\ud800" <= character <= "\udfff" for character in text)


def mint_id(name: str) -> str:
    """`<name>-<10 random letters and digits>`: a DNS label of at most 28 characters."""
    import secrets

    tail = "".join(secrets.choice(_ALPHABET) for _ in range(ID_LENGTH))
    return f"{dns_label(name)}-{tail}"


def is_job_id(text: str) -> bool:
    """True for a text that `mint_id` may have made."""
    return re.fullmatch(ID_PATTERN, text) is not None


def dns_label(text: str) -> str:
    """The readable part of an id: lower-case letters, digits and inner hyphens, starting with a
    letter. An accented letter counts as the letter without its accent.
    """
    plain = text if text.isascii() else _without_accents(text)
    label = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
    label = label if label[:1].isalpha() else f"job-{label}".strip("-")
    return label[:NAME_LENGTH].strip("-")


def _without_accents(text: str) -> str:
    import unicodedata  # costs 2 ms, and few names need it

    apart = unicodedata.normalize("NFKD", text)
    return "".join(each for each in apart if not unicodedata.combining(each))


def remote_root(spec: JobSpec) -> str:
    """The prefix in a bucket that the job names as the root of its results
    (TAO_RESULTS_ROOT=s3://...); "" for none.
    """
    root = spec.env_vars.get("TAO_RESULTS_ROOT")
    if isinstance(root, str) and root.startswith("s3://"):
        return root.rstrip("/")
    return ""
