"""The text of a plan: a summary of a few lines, or all of it as YAML.

Not here: its JSON, and the verb that asks for it (submit.py).
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from tao_sdk.cli import show
from tao_sdk.client.views import input_addresses
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.price import hourly_words
from tao_sdk.model.units import format_duration

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client import Planned
    from tao_sdk.model.spec import JobSpec

SUMMARY_LINES = 12
LONGEST_COMMAND = 200  # characters of it in a summary
MOST_VALUES = 40  # values of specs or args in a summary
LONGEST_SHOWN = 4000  # characters of one text of a whole plan; --json shows all
CHOSEN = ("set", "data", "parent")  # origins of values that the user has chosen
FEW_KEYS = 4  # a summary names the keys of an origin up to so many
NOT_ASKED = "  (did not answer)"
ALL_OF_IT = "All that would be sent: tao plan --full. The id is an example: each run draws its own."


def summary(planned: Planned, out: Output, origins: Mapping[str, str] | None = None) -> list[str]:
    """At most SUMMARY_LINES lines: the place, the resources, the command as typed, the results,
    then the findings of the checks, the worst first.
    """
    plan = planned.plan
    head = (
        f"{out.paint(plan.attempt.job_id, bold=True)}  {plan.attempt.platform}  "
        f"{plan.attempt.endpoint}{'' if planned.asked else NOT_ASKED}"
    )
    facts = [f"  {name:<8} {value}" for name, value in facts_of(planned, origins) if value]
    told = [
        *(show.finding(each, out) for each in worst_first(planned.findings)),
        *notes(plan.notes),
    ]
    return [head, *facts, *fitted(told, SUMMARY_LINES - len(facts) - 2), ALL_OF_IT]


def documents(planned: Planned, out: Output) -> list[str]:
    """The documents of a plan as YAML, whole, and all else as comment lines. None if the plan's
    place has no documents.
    """
    plan, told = planned.plan, planned.documents
    if told is None:
        return []
    comments = [
        f"{plan.attempt.job_id}  {plan.attempt.platform}  {plan.attempt.endpoint}",
        *(f"  {name:<8} {value}" for name, value in facts_of(planned) if value),
        *(show.finding(each, out) for each in worst_first(planned.findings)),
        *notes(plan.notes),
        *told.notes,
    ]
    lines = [f"# {line}" for comment in comments for line in comment.splitlines()]
    for document in told.documents:
        lines += ["---", *yaml_lines(document, longest=sys.maxsize)]
    return lines


def facts_of(
    planned: Planned, origins: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    spec = planned.spec
    yield "image", spec.image
    yield "gpus", gpus_of(spec)
    if spec.time_limit:
        yield "time", f"at most {format_duration(spec.time_limit)}"
    yield "price", price_of(planned)
    yield "command", shortened(spec.command)
    yield "args", values_line(spec.args)
    yield "specs", values_line(spec.specs)
    yield "origins", origins_line(origins or {})
    yield "data", data_line(planned)
    yield "results", show.path(planned.plan.results_dir)
    yield "secrets", ", ".join(planned.plan.secrets)


def price_of(planned: Planned) -> str:
    """`$2.24 per hour (g6e.xlarge)`; "" for a job that rents nothing."""
    price = planned.plan.price
    return f"{hourly_words(price.per_hour)} ({price.what})" if price else ""


def data_line(planned: Planned) -> str:
    """`train=s3://bucket/coco`; "" if the line of the args or specs has all of it."""
    shown = f"{values_line(planned.spec.args)}  {values_line(planned.spec.specs)}"
    inputs = input_addresses(planned)
    if all(f"={address}" in shown for address in inputs.values()):
        return ""
    return values_line(inputs)


def gpus_of(spec: JobSpec) -> str:
    """`8`; for a job on several nodes, `8 on each of 2 nodes`."""
    if (spec.num_nodes or 1) == 1:
        return str(spec.gpu_count)
    return f"{spec.gpu_count} on each of {spec.num_nodes} nodes"


def shortened(command: str) -> str:
    """The command's first line, as it was typed, and the number of further lines."""
    first, *more = command.strip().splitlines() or [""]
    if len(first) > LONGEST_COMMAND:
        first = f"{first[:LONGEST_COMMAND]}…"
    if not more:
        return first
    return f"{first}  (and {show.plural(len(more), 'more line')})"


def values_line(values: Mapping[str, Any] | None) -> str:
    """`train.lr=0.1 model=large`, the first LONGEST_COMMAND characters; "" if there are no
    values.
    """
    pairs = (f"{key}={value_text(value)}" for key, value in leaves(values or {}))
    return shortened("  ".join(islice(pairs, MOST_VALUES)))


def origins_line(origins: Mapping[str, str]) -> str:
    """`set train.lr · parent evaluate.checkpoint · template 7 values`: the values of a model's spec
    by their origin, the user's choices first.
    """
    keys: dict[str, list[str]] = {}
    for name, origin in origins.items():
        if name.startswith("specs."):
            keys.setdefault(origin.partition(" ")[0], []).append(name.removeprefix("specs."))
    order = [*CHOSEN, *(origin for origin in keys if origin not in CHOSEN)]
    return " · ".join(origin_text(origin, keys[origin]) for origin in order if origin in keys)


def origin_text(origin: str, keys: Sequence[str]) -> str:
    if origin in CHOSEN and len(keys) <= FEW_KEYS:
        return f"{origin} {', '.join(keys)}"
    return f"{origin} {show.plural(len(keys), 'value')}"


def leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its key. Values of a mapping below have keys such as `train.lr`."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(cast("Mapping[str, Any]", value), f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def value_text(value: Any) -> str:
    """A value on one line, as YAML writes it: `0.1`, `null`, `[1, 2]`."""
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: finding.severity is not Severity.ERROR)


def notes(told: Sequence[str]) -> Iterator[str]:
    return (f"note: {show.one_line(note)}" for note in told)


def fitted(lines: Sequence[str], most: int) -> list[str]:
    """At most `most` of the lines, and at least one. If some are left out, the last line says how
    many.
    """
    if len(lines) <= most:
        return list(lines)
    if most <= 1:
        return [f"{lines[0]}  (and {len(lines) - 1} more)"]
    return [*lines[: most - 1], f"and {len(lines) - most + 1} more"]


def whole(planned: Planned, plan: Mapping[str, Any], out: Output) -> list[str]:
    """All of the plan object `plan` as YAML: scripts keep their lines."""
    shown = {
        name: value for name, value in plan.items() if value and name not in ("findings", "schema")
    }
    if plan["files"]:
        shown["files"] = [
            {**file, "mode": f"{file['mode']:04o}", "content": readable(file["content"])}
            for file in plan["files"]
        ]
    return [*yaml_lines(shown), *(show.finding(each, out) for each in planned.findings)]


def readable(content: str) -> str:
    data = base64.b64decode(content)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"({len(data)} bytes that are no text; --json shows them)"


def yaml_lines(value: Any, longest: int = LONGEST_SHOWN) -> list[str]:
    """The value as YAML. Texts longer than `longest` characters are shortened."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts of several lines as they are."""

    def text(dumper: Any, data: str) -> Any:
        if len(data) > longest:
            data = f"{data[:200]}… ({len(data)} characters; --json shows all)"
        style = "|" if "\n" in data else None
        if not data.replace("\n", "").isprintable():
            style = '"'  # a line for people has no tabs and nothing that cannot be seen
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    return (
        yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10**9)
        .rstrip("\n")
        .split("\n")
    )
