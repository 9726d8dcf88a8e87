"""Fields of a job that an action's mode decides: its command, its values, and the declarations of
its inputs and outputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tao_sdk.model.errors import SpecError
from tao_sdk.skills.action_reader import PLACEHOLDER
from tao_sdk.skills.skill import Action, Input, Mode
from tao_sdk.skills.spec_tree import Tree, get_value, put_value

CONFIG_PATH = "config_path"
# templates of arguments that are options: `--name {value}`, and a switch, `--fast/--no-fast {fast}`
OPTION = re.compile(r"(--?[A-Za-z][\w.-]*) (\{\w+\})")
SWITCH = re.compile(r"(--[A-Za-z][\w.-]*)/(--[A-Za-z][\w.-]*) \{(\w+)\}")


def spec_name(action: Action, key: str) -> str:
    """The name of an input or output among the job's values: in arguments, `_` stands for `-`."""
    return key.replace("-", "_") if action.mode is Mode.ARGS else key


def spec_fields(action: Action, tree: Tree) -> dict[str, Any]:
    """The fields of the JobSpec that depend on the action's mode."""
    return FIELDS[action.mode](action, tree)


def config_fields(action: Action, tree: Tree) -> dict[str, Any]:
    outputs = declared_outputs(action)
    for key in outputs:
        if get_value(tree, key) is None:
            put_value(tree, key, "")  # the program fills what is there and empty
    return {
        "command": action.command,
        "mode": action.mode.value,
        "config_format": action.config_format,
        "specs": tree,
        "inputs": declared_inputs(action),
        "outputs": outputs,
    }


def args_fields(action: Action, tree: Tree) -> dict[str, Any]:
    """The fields of an args action. Its arguments stand behind the command, as
    `name={placeholder}` or as the option of their template; the job leaves out those without a
    value. A config file is one more argument, which the user may give.
    """
    action = with_named_outputs(action)
    names = [*map(argument_name, (*action.inputs, *action.outputs)), *action.defaults]
    names += [name for each in action.args.values() for name in PLACEHOLDER.findall(each)]
    inputs = declared_inputs(action)
    if CONFIG_PATH in PLACEHOLDER.findall(action.command):
        names.append(CONFIG_PATH)
        inputs[CONFIG_PATH] = {"type": "file", "optional": True}
    values = dict.fromkeys(names, "") | dict(action.defaults) | tree
    words = [argument(name, template, values) for name, template in action.args.items()]
    return {
        "command": " ".join([action.command, *filter(None, words)]),
        "mode": action.mode.value,
        "args": values,
        "inputs": inputs,
        "outputs": declared_outputs(action),
    }


def with_named_outputs(action: Action) -> Action:
    """The action without the outputs that no argument names: they are files that the command puts
    beside others, and it has no option for them. An action that lists no arguments has one for
    each output.
    """
    if not action.args:
        return action
    named = {name for each in action.args.values() for name in PLACEHOLDER.findall(each)}
    named |= {*PLACEHOLDER.findall(action.command)}
    outputs = {key: each for key, each in action.outputs.items() if argument_name(key) in named}
    return replace(action, outputs=outputs)


def argument(name: str, template: str, values: dict[str, Any]) -> str:
    """The word of an argument. That of a switch is chosen by its value, which is taken out of
    `values`. Raises SpecError for a switch that is neither true nor false.
    """
    if switch := SWITCH.fullmatch(template):
        return switch_word(switch, values)
    if option := OPTION.fullmatch(template):
        return f"{option[1]}={option[2]}"
    return f"{name}={template}"


def switch_word(switch: re.Match[str], values: dict[str, Any]) -> str:
    """`--fast`, `--no-fast`, or "" without a value."""
    value = str(values.pop(switch[3], "")).lower()
    words = {"true": switch[1], "false": switch[2], "": ""}
    if value not in words:
        what = f"{switch[3]} is {value[:80]!r}; it must be true or false."
        raise SpecError(what, "", f"Set {switch[3]}=true or {switch[3]}=false.")
    return words[value]


def argument_name(key: str) -> str:
    return key.replace("-", "_")


def passthrough_fields(action: Action, tree: Tree) -> dict[str, Any]:
    if tree:
        name = next(iter(tree))
        raise SpecError(
            f"{action.name} takes no values: {name} is given.",
            "Its command runs unchanged.",
            "Leave it out.",
        )
    return {"command": action.command, "mode": action.mode.value, "outputs": [*action.outputs]}


FIELDS: Mapping[Mode, Callable[[Action, Tree], dict[str, Any]]] = {
    Mode.CONFIG: config_fields,
    Mode.ARGS: args_fields,
    Mode.PASSTHROUGH: passthrough_fields,
}


def declared_inputs(action: Action) -> dict[str, dict[str, Any]]:
    """The inputs as a job file declares them. A key that is an output as well is the output."""
    return {
        spec_name(action, key): declaration(declared)
        for key, declared in action.inputs.items()
        if key not in action.outputs
    }


def declared_outputs(action: Action) -> dict[str, dict[str, Any]]:
    """The outputs as a job file declares them."""
    return {
        spec_name(action, key): {
            "type": output.type,
            **({"optional": True} if output.optional else {}),
        }
        for key, output in action.outputs.items()
    }


def declaration(declared: Input) -> dict[str, Any]:
    about: dict[str, Any] = {"type": declared.type}
    if declared.optional:
        about["optional"] = True
    if declared.extract_to_parent:
        about["extract_to_parent"] = True
    if declared.container_path:
        about["container_path"] = declared.container_path
    if selective := declared.selective:
        about["selective"] = {
            "annotation": selective.annotation,
            "format": selective.format,
            "keys": list(selective.keys),
        }
    return about
