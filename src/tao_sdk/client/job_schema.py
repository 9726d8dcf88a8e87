"""The JSON Schema of a job file, for editors: made of the fields that JobSpec and the Options
declare.

`python -m tao_sdk.client.job_schema` writes job.schema.json anew; a test fails when it is not
current.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tao_sdk.backends.by_name import ALIASES, BUILT_IN, NOT_BUILT
from tao_sdk.client.model_request import ModelRequest
from tao_sdk.client.place_names import options_class
from tao_sdk.model.fields import schema_of
from tao_sdk.model.spec import HOOKS, JobSpec
from tao_sdk.payload.declarations import DECLARATION, KINDS

SCHEMA_FILE = Path(__file__).with_name("job.schema.json")

Schema = dict[str, Any]

TEXT: Schema = {"type": ["string", "number", "boolean"]}
ABOUT: Schema = {
    "type": ["string", "object", "null"],
    "properties": {
        "type": {
            "enum": [*KINDS, "", None],
            "description": (
                "file or folder: a hint, what is there decides; text, list, "
                "local_glob: nothing to fetch."
            ),
        },
        "optional": {"type": "boolean", "description": "It may be absent or empty."},
        "container_path": {
            "type": "string",
            "description": "Where it has to lie in the job: an absolute path.",
        },
        "uri": {
            "type": "string",
            "description": "Without specs and args: the path or address to take it from.",
        },
        "extract": {
            "type": "boolean",
            "description": (
                "false: an archive stays packed; true: archives in a folder are unpacked, too."
            ),
        },
        "extract_to_parent": {
            "type": "boolean",
            "description": (
                "Archives in a folder are unpacked, without a folder of its own for each."
            ),
        },
        "patterns": {
            "type": ["array", "string"],
            "items": {"type": "string"},
            "description": "Of a folder, the files that match one.",
        },
        "selective": {
            "type": "object",
            "description": "Of a folder, the files that another input names.",
        },
    },
    "additionalProperties": False,
}
DECLARED: Schema = {
    "anyOf": [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "additionalProperties": ABOUT},
    ]
}

# The parts of a job file that the fields' kinds leave open.
RICHER: dict[str, Schema] = {
    "specs": {"type": ["object", "string"]},
    "inputs": DECLARED,
    "outputs": DECLARED,
    "files": {"type": "object", "additionalProperties": {"type": "string"}},
    "mounts": {"type": "array", "items": {"type": ["string", "object"]}},
    "hooks": {
        "type": "object",
        "properties": {hook: {} for hook in HOOKS},
        "additionalProperties": False,
    },
}


def job_schema() -> Schema:
    """The schema of a job file, with the options of every platform of this package."""
    fields = {
        name: {**field, **RICHER.get(name, {})}
        for name, field in {**schema_of(JobSpec), **schema_of(ModelRequest)}.items()
        if name != "native"
    }
    names = sorted({*BUILT_IN, *NOT_BUILT, *ALIASES})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tao job file",
        "type": "object",
        "properties": {
            **{name: nullable(field) for name, field in fields.items()},
            "platform": {
                "type": ["string", "null"],
                "examples": names,
                "description": (
                    "Where `tao run` runs it: a platform, or an endpoint of "
                    "config.yaml. Default: local."
                ),
            },
            "options": by_platform(
                {name: options_schema(name) for name in names}, "How to run it, by platform."
            ),
            "native": by_platform(
                {name: {"type": ["object", "null"]} for name in names},
                "A patch of the rendered request, by platform.",
            ),
            "search": {
                "type": ["object", "null"],
                "description": "What `tao automl run` searches: metric, parameters, and how.",
            },
            "automl_policy": {
                "enum": ["on", "off", True, False, None],
                "description": "on: `tao run` searches, too. off: it runs one job, without a word.",
            },
        },
        "additionalProperties": False,
    }


def nullable(field: Schema) -> Schema:
    """The schema that also allows null: a key without a value counts as not given."""
    if "type" in field:
        named: str | list[str] = field["type"]
        return {**field, "type": [*([named] if isinstance(named, str) else named), "null"]}
    if "enum" in field:
        return {**field, "enum": [*field["enum"], None]}
    return field


def by_platform(properties: dict[str, Schema], description: str) -> Schema:
    return {
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": False,
        "description": description,
    }


def options_schema(platform: str) -> Schema:
    record = options_class(platform)
    if record is None:
        return {"type": ["object", "null"]}
    fields = {name: nullable(field) for name, field in schema_of(record).items()}
    return {"type": ["object", "null"], "properties": fields, "additionalProperties": False}


def text() -> str:
    return json.dumps(job_schema(), indent=2) + "\n"


if __name__ == "__main__":
    assert set(ABOUT["properties"]) == set(DECLARATION)
    SCHEMA_FILE.write_text(text())
