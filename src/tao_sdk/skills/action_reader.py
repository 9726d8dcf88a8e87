"""Reads the actions of a skill: how each is run, its inputs and its outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tao_sdk.skills.needs_reader import read_host_needs
from tao_sdk.skills.node import Node, Reading, is_spec_key
from tao_sdk.skills.skill import Action, Input, Mode, Output, Selective

INPUT_TYPES = ("file", "folder", "list", "local_glob", "text")
OUTPUT_TYPES = ("file", "folder", "text")
# Other names of types that banks have. A type is a hint: at the place of a file a folder is taken.
OTHER_TYPES = {
    **{"path": "file", "directory": "folder"},
    **dict.fromkeys(("bool", "int", "float", "string"), "text"),
}
FORMATS = ("yaml", "toml", "json")
ACTION = {
    *("mode", "command", "config_format", "container_image", "image", "inputs", "outputs"),
    *("upload_excludes", "args", "defaults", "description", "runtime_requirements"),
    # for people and other programs
    *("metric", "metric_direction", "metric_file", "cancellation", "execution_contract"),
    *("automl_default_parameters", "automl_disabled_parameters"),
}
INPUT = {
    *("type", "optional", "extract_to_parent", "container_path", "selective", "description"),
    *("extract", "required"),
}
OUTPUT = {"type", "optional", "description", "config_path", "relative_path"}
SELECTIVE = {"annotation", "format", "keys"}
PLACEHOLDER = re.compile(r"\{(\w+)\}")
CONFIG_PATH = "{config_path}"


def read_action(reading: Reading, name: str, node: Node, skill: str) -> Action:
    """Read one action, and note its mistakes."""
    reading.warn_of_unknown(node, ACTION)
    has = reading.mapping(node)
    mode = read_mode(reading, node, has.get("mode"), skill)
    action = Action(
        name=name,
        mode=mode,
        command=read_command(reading, node, has.get("command")),
        config_format=read_format(reading, mode, has.get("config_format")),
        container_image=reading.text(has.get("container_image") or has.get("image")),
        inputs=read_inputs(reading, mode, has.get("inputs")),
        outputs=read_outputs(reading, mode, has.get("outputs")),
        upload_excludes=reading.texts(has.get("upload_excludes")),
        args=reading.texts_by_name(has.get("args")),
        defaults=read_defaults(reading, has.get("defaults")),
        description=reading.text(has.get("description")),
        host_needs=read_host_needs(reading, has.get("runtime_requirements")),
    )
    warn_of_shared_keys(reading, action, has.get("inputs"))
    refuse_unknown_placeholders(reading, action, has)
    refuse_missing_config_path(reading, action, has)
    return action


def read_mode(reading: Reading, action: Node, node: Node | None, skill: str) -> Mode:
    """Read the mode: how the action is given its values. None is guessed if it is missing."""
    modes = [mode.value for mode in Mode]
    if node is None or node.is_empty:
        missing = Node(action.value, action.below("mode"), action.place)
        reading.refuse(
            missing,
            f"is missing: invalid metadata of skill {skill}.",
            f"Add mode: {', '.join(modes[:-1])} or {modes[-1]}.",
        )
        return Mode.CONFIG
    return Mode(reading.choice(node, modes) or Mode.CONFIG)


def read_command(reading: Reading, action: Node, node: Node | None) -> str:
    command = reading.text(node)
    if not command.strip() and not reading.errors_at(action.below("command")):
        missing = Node(action.value, action.below("command"), action.place)
        reading.refuse(missing, "is missing.", "Add the command that the container runs.")
    return command


def read_defaults(reading: Reading, node: Node | None) -> dict[str, str]:
    """The defaults as texts, also those that are written as true or false."""
    return {name: reading.truth_as_text(child) for name, child in reading.mapping(node).items()}


def read_format(reading: Reading, mode: Mode, node: Node | None) -> str:
    """The format of the spec file; yaml if a config action names none."""
    format = reading.choice(node, FORMATS)
    if mode is Mode.CONFIG:
        return format or "yaml"
    return format


def is_argument(key: str) -> bool:
    """True for a valid argument of an args action: a key of a spec, also with `-` in it."""
    return bool(key) and is_spec_key(key)


def is_container_path(key: str) -> bool:
    """True for an absolute path without `..`."""
    return key.startswith("/") and ".." not in key.split("/")


def right_keys(reading: Reading, mode: Mode, node: Node | None) -> Mapping[str, Node]:
    """The inputs or outputs whose keys an action of this mode can have."""
    if mode is Mode.PASSTHROUGH:
        return reading.checked_keys(
            node, lambda key: is_container_path(key) or is_spec_key(key), "/data/in"
        )
    if mode is Mode.ARGS:
        return reading.checked_keys(node, is_argument, "predictions-json")
    return reading.checked_keys(node, is_config_key, "train.checkpoints[0].path")


def is_config_key(key: str) -> bool:
    """True for a key of a spec; words joined by `-` are arguments."""
    return is_spec_key(key) and "-" not in key


def read_inputs(reading: Reading, mode: Mode, node: Node | None) -> dict[str, Input]:
    children = right_keys(reading, mode, node)
    return {key: read_input(reading, key, child) for key, child in children.items()}


def read_input(reading: Reading, key: str, node: Node) -> Input:
    """Read an input: a type, or a mapping with one."""
    if not isinstance(node.value.data, dict):
        return Input(key, read_type(reading, node, node, INPUT_TYPES))
    reading.warn_of_unknown(node, INPUT)
    has = reading.mapping(node)
    return Input(
        key,
        read_type(reading, node, has.get("type"), INPUT_TYPES),
        is_optional(reading, has),
        reading.flag(has.get("extract_to_parent")) or False,
        read_container_path(reading, has.get("container_path")),
        read_selective(reading, has.get("selective")),
        reading.text(has.get("description")),
    )


def is_optional(reading: Reading, has: Mapping[str, Node]) -> bool:
    """True for `optional: true`, and for `required: false`."""
    optional, required = reading.flag(has.get("optional")), reading.flag(has.get("required"))
    return optional or required is False


def read_type(reading: Reading, owner: Node, node: Node | None, allowed: tuple[str, ...]) -> str:
    if node is None or node.is_empty:
        reading.refuse(owner, "has no type.", f"Add type: one of {', '.join(allowed)}.")
        return allowed[0]
    meant = OTHER_TYPES.get(node.value.text) if isinstance(node.value.data, str) else None
    if meant in allowed:
        return meant
    return reading.choice(node, allowed) or allowed[0]


def read_container_path(reading: Reading, node: Node | None) -> str:
    path = reading.text(node)
    if node is not None and path and not is_container_path(path):
        reading.refuse(
            node, f"is {path[:80]!r}; it must be an absolute path.", "Write it like /data/in."
        )
        return ""
    return path


def read_selective(reading: Reading, node: Node | None) -> Selective | None:
    has = reading.mapping(node)
    if node is None or not has:
        return None
    reading.warn_of_unknown(node, SELECTIVE)
    annotation, keys = reading.spec_key(has.get("annotation")), reading.texts(has.get("keys"))
    if not annotation or not keys:
        reading.refuse(node, "needs annotation and keys.", "Name an input and keys of its records.")
    return Selective(annotation, reading.text(has.get("format")) or "json", keys)


def read_outputs(reading: Reading, mode: Mode, node: Node | None) -> dict[str, Output]:
    children = right_keys(reading, mode, node)
    outputs = [read_output(reading, key, child) for key, child in children.items()]
    return {output.key: output for output in outputs}


def read_output(reading: Reading, key: str, node: Node) -> Output:
    if not isinstance(node.value.data, dict):
        return Output(key, read_type(reading, node, node, OUTPUT_TYPES))
    reading.warn_of_unknown(node, OUTPUT)
    has = reading.mapping(node)
    kind = read_type(reading, node, has.get("type"), OUTPUT_TYPES)
    key = reading.spec_key(has.get("config_path")) or key
    return Output(key, kind, reading.flag(has.get("optional")) or False)


def warn_of_shared_keys(reading: Reading, action: Action, node: Node | None) -> None:
    """Warn of a key that is an input and an output: what the command writes there is kept."""
    children = node.children() if node is not None else {}
    for key in action.inputs:
        if key in action.outputs and key in children:
            reading.warn(
                children[key], "is an output as well; it counts as one.", "Leave it out here."
            )


def refuse_unknown_placeholders(reading: Reading, action: Action, has: Mapping[str, Node]) -> None:
    """Refuse a placeholder of `args` that is no input, output or default, with `_` for `-`. One
    with the name of its own argument is a value that the user sets.
    """
    known = {key.replace("-", "_") for key in (*action.inputs, *action.outputs)}
    known |= {"config_path", *action.defaults}
    for argument, node in reading.mapping(has.get("args")).items():
        for name in PLACEHOLDER.findall(node.value.text):
            if name not in {*known, argument}:
                reading.refuse(
                    node,
                    f"names {{{name}}}, which is no input, output or default.",
                    f"Known are: {', '.join(sorted(known))}.",
                )


def refuse_missing_config_path(reading: Reading, action: Action, has: Mapping[str, Node]) -> None:
    """Refuse a config action whose command is not told where its spec file is."""
    node = has.get("command")
    if node is None or not action.command or reading.errors_at(f"actions.{action.name}.mode"):
        return
    if action.mode is Mode.CONFIG and CONFIG_PATH not in action.command:
        reading.refuse(
            node, f"has no {CONFIG_PATH}.", f"Write it like: dino train -e {CONFIG_PATH}"
        )
