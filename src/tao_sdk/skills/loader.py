"""Reads a skill_info.yaml as a Skill. Each mistake has its file, line and key path.

Here: the keys of a whole skill. Not here: those of an action (action_reader.py) and of data
(data_reader.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tao_sdk.client.document import Value
from tao_sdk.skills.action_reader import read_action
from tao_sdk.skills.bank_file import read_bank_document
from tao_sdk.skills.data_reader import read_data_sources, read_spec_params
from tao_sdk.skills.errors import SkillError
from tao_sdk.skills.needs_reader import read_host_needs
from tao_sdk.skills.node import Node, Reading
from tao_sdk.skills.skill import Credential, CredentialGroup, Skill, Template

KINDS = ("model", "platform", "data", "workflow", "application", "core")
# keys that are known and not read: what they say is for people
FOR_PEOPLE = {
    *("prerequisites", "tags", "depends_on", "sdk_module", "features", "pretrained_models"),
    *("version", "license", "image", "huggingface_model_ids", "execution_environment"),
    *("backend_contracts", "backend_resolver", "backend_selection", "workflow_contract"),
    *("workflow_constraints", "path_contract"),
}
KNOWN = FOR_PEOPLE | {
    *("name", "type", "description", "network_arch", "aliases", "container_image", "data_format"),
    *("gpu_spec_key", "node_spec_key", "automl_enabled", "actions", "spec_shorthand_keys"),
    *("key_defaults", "spec_templates", "spec_params", "data_sources", "required_credentials"),
    *("optional_credentials", "credential_groups", "resource_defaults", "cloud_storage", "notes"),
    *("files", "runtime_requirements", "conditional_credentials", "metrics"),
}
MONITORING = "monitoring_metric"  # of `metrics`
CREDENTIAL = {"name", "source", "description", "how_to_get", "only_when", "default"}
GROUP = {"name", "require_one_of", "preferred", "description"}


def load_skill(root: Path, path: Path, name: str, kind: str = "model") -> Skill:
    """The skill in a file of the bank at `root`. `name` and `kind` hold if the file has none.

    Raises SkillError for the first mistake, with the number of the others.
    """
    skill, reading = read_skill(root, path, name, kind)
    refuse_mistakes(reading)
    return skill


def read_skill(root: Path, path: Path, name: str, kind: str) -> tuple[Skill, Reading]:
    """The skill as far as it can be read, and its mistakes. Raises SkillError if the file is no
    mapping at all.
    """
    value = read_bank_document(root, path)
    reading = Reading()
    return skill_of(value, reading, path, name, kind), reading


def refuse_mistakes(reading: Reading) -> None:
    """Raise the mistake that stands first in the file."""
    if not reading.errors:
        return
    ordered = sorted(reading.errors, key=lambda error: (error.place.line, error.place.column))
    if len(ordered) > 1:
        ordered[0].add_advice(f"{len(ordered) - 1} more:", "tao skills check")
    raise ordered[0]


def skill_of(value: Value, reading: Reading, path: Path, name: str, kind: str) -> Skill:
    if not isinstance(value.data, dict):
        shape = value.shape
        raise SkillError(
            value.place, f"a skill is a mapping; this is {shape}.", "", "Copy the bank again."
        )
    top = Node.top(value)
    reading.warn_of_unknown(top, KNOWN)
    has = reading.mapping(top)
    own_name = reading.text(has.get("name")) or name
    return Skill(
        name=own_name,
        kind=reading.choice(has.get("type"), KINDS) or kind,
        path=path,
        description=reading.text(has.get("description")),
        network_arch=reading.text(has.get("network_arch")),
        aliases=reading.texts(has.get("aliases")),
        container_image=read_image(reading, has),
        data_format=read_data_format(reading, has.get("data_format")),
        gpu_spec_key=reading.spec_key(has.get("gpu_spec_key")),
        node_spec_key=reading.spec_key(has.get("node_spec_key")),
        automl_enabled=reading.flag(has.get("automl_enabled")),
        monitoring_metric=reading.text(reading.mapping(has.get("metrics")).get(MONITORING)),
        actions={
            action: read_action(reading, action, node, own_name)
            for action, node in reading.mapping(has.get("actions")).items()
        },
        spec_shorthand_keys=read_shorthands(reading, has.get("spec_shorthand_keys")),
        key_defaults=read_plain(reading, has.get("key_defaults")),
        spec_templates=read_templates(reading, has.get("spec_templates")),
        spec_params=read_spec_params(reading, has.get("spec_params")),
        data_sources=read_data_sources(reading, has.get("data_sources")),
        required_credentials=read_credentials(reading, has.get("required_credentials")),
        optional_credentials=(
            *read_credentials(reading, has.get("optional_credentials")),
            *read_conditional(reading, has.get("conditional_credentials")),
        ),
        credential_groups=read_groups(reading, has.get("credential_groups")),
        resource_defaults=read_plain(reading, has.get("resource_defaults")),
        cloud_storage=read_plain(reading, has.get("cloud_storage")),
        notes=reading.texts(has.get("notes")),
        files=reading.texts_by_name(has.get("files")),
        host_needs=read_host_needs(reading, has.get("runtime_requirements")),
    )


def read_image(reading: Reading, has: Mapping[str, Node]) -> str:
    """`container_image`, or `image`, which means the same."""
    node = has.get("container_image") or has.get("image")
    if node is not None and isinstance(node.value.data, dict):
        next = "Give an image to each job of it."
        reading.warn(node, "is a rule by which an image is chosen; none is taken.", next)
        return ""
    image = reading.text(node)
    if node is not None and image and any(letter.isspace() for letter in image):
        reading.refuse(node, f"is {image[:80]!r}; an image has no spaces.", "Remove them.")
        return ""
    return image


def read_data_format(reading: Reading, node: Node | None) -> str:
    """The name of the format: a text, or the `type` of a mapping that says more about it."""
    if node is not None and isinstance(node.value.data, dict):
        return reading.text(node.children().get("type"))
    return reading.text(node)


def read_shorthands(reading: Reading, node: Node | None) -> dict[str, str]:
    """Short names of keys, such as batch_size for dataset.batch_size."""
    return {name: reading.spec_key(child) for name, child in reading.mapping(node).items()}


def read_plain(reading: Reading, node: Node | None) -> dict[str, Any]:
    return {name: child.value.plain() for name, child in reading.mapping(node).items()}


def read_templates(reading: Reading, node: Node | None) -> dict[str, Template]:
    """Templates by action; if a skill has tasks, by `task.action`."""
    templates: dict[str, Template] = {}
    for name, child in reading.mapping(node).items():
        if isinstance(child.value.data, dict):
            below = read_templates(reading, child)
            templates |= {f"{name}.{action}": template for action, template in below.items()}
        elif path := read_template_path(reading, child):
            templates[name] = Template(path, child.value.place)
    return templates


def read_template_path(reading: Reading, node: Node) -> str:
    path = reading.text(node)
    if path.startswith(("/", "~")) or "\\" in path:
        reading.refuse(
            node,
            f"is {path[:80]!r}; a template lies in the skill's folder.",
            "Write it like spec_template_train.yaml.",
        )
        return ""
    return path


def read_credentials(reading: Reading, node: Node | None) -> tuple[Credential, ...]:
    """A list of names, or of mappings that have a name."""
    return tuple(
        credential
        for item in reading.list_of(node)
        if (credential := read_credential(reading, item)).name
    )


def read_conditional(reading: Reading, node: Node | None) -> tuple[Credential, ...]:
    """A mapping of variables to the conditions under which they are needed."""
    found = reading.mapping(node)
    for name, child in found.items():
        if not (name.isidentifier() and name.isascii()):
            reading.refuse(child, "is no variable's name.", "Write it like HF_TOKEN.")
    return tuple(Credential(name, only_when=reading.text(child)) for name, child in found.items())


def read_credential(reading: Reading, item: Node) -> Credential:
    if not isinstance(item.value.data, dict):
        return Credential(read_variable(reading, item))
    reading.warn_of_unknown(item, CREDENTIAL)
    has = reading.mapping(item)
    if "name" not in has:
        reading.refuse(item, "has no name.", "Add name: the variable of the environment.")
        return Credential("")
    return Credential(
        read_variable(reading, has["name"]),
        reading.text(has.get("description")),
        reading.text(has.get("how_to_get")),
        reading.text(has.get("only_when")),
        reading.text(has.get("default")),
    )


def read_variable(reading: Reading, node: Node) -> str:
    """The name of a variable of the environment."""
    name = reading.text(node)
    if name.isidentifier() and name.isascii():
        return name
    reading.refuse(
        node, f"is {name[:80]!r}, which is no variable's name.", "Write it like HF_TOKEN."
    )
    return ""


def read_groups(reading: Reading, node: Node | None) -> tuple[CredentialGroup, ...]:
    groups: list[CredentialGroup] = []
    for item in reading.list_of(node):
        reading.warn_of_unknown(item, GROUP)
        has = reading.mapping(item)
        choices = tuple(
            read_variable(reading, choice) for choice in reading.list_of(has.get("require_one_of"))
        )
        if not choices:
            reading.refuse(
                item, "has no require_one_of.", "List the variables of which one is enough."
            )
        name, preferred = reading.text(has.get("name")), reading.text(has.get("preferred"))
        groups.append(
            CredentialGroup(name, choices, preferred, reading.text(has.get("description")))
        )
    return tuple(groups)
