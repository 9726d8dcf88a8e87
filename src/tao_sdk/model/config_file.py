"""config.yaml: the profiles and endpoints that a person has written, each with its line.

An error shows no value: it may be a secret.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tao_sdk.model.endpoint import NAME, Line, NamedEndpoint
from tao_sdk.model.errors import UsageError
from tao_sdk.model.secrets import is_secret_name

if TYPE_CHECKING:
    import yaml

PROFILES = "profiles: {default: {SLURM_USER: me}}"
ENDPOINTS = "endpoints: {lab: {platform: slurm, hostname: login.lab}}"
SECTIONS = ("profiles", "endpoints")
TRUE = ("true", "yes", "on")
YAML = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Config:
    profiles: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, dict[str, str]], repr=False
    )
    endpoints: Mapping[str, NamedEndpoint] = field(default_factory=dict[str, NamedEndpoint])


def read_config(path: Path) -> Config:
    """Read the file. Raises UsageError naming the file and the line of a mistake."""
    reader = ConfigReader(path)
    top = reader.read_top(path.read_text(encoding="utf-8"))
    if top is None:
        return Config()
    sections = dict(reader.read_sections(top))
    profiles = dict(reader.read_profiles(sections["profiles"])) if "profiles" in sections else {}
    endpoints = (
        dict(reader.read_endpoints(sections["endpoints"])) if "endpoints" in sections else {}
    )
    return Config(profiles, endpoints)


@dataclass(frozen=True)
class ConfigReader:
    """Reads the nodes of one file."""

    path: Path

    def read_top(self, text: str) -> yaml.Node | None:
        import yaml

        try:
            loader = yaml.SafeLoader(text)
            node = cast("yaml.Node | None", cast("Any", loader).get_single_node())
            self.resolve_merges(loader, node, depth=3)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = f"{self.path}:{mark.line + 1}" if mark else self.path
            raise UsageError(
                f"{place} is not YAML.", getattr(error, "problem", "") or "", "Mend it."
            ) from None
        if is_null(node):
            return None
        return node

    def resolve_merges(self, loader: Any, node: Any, depth: int) -> None:
        """Apply `<<: *other` down to the values."""
        import yaml

        if depth and isinstance(node, yaml.MappingNode):
            loader.flatten_mapping(node)
            for _, value in node.value:
                self.resolve_merges(loader, value, depth - 1)

    def place_of(self, node: yaml.Node) -> str:
        return f"{self.path}:{node.start_mark.line + 1}"

    def read_items(self, node: yaml.Node, shape: str) -> Iterator[tuple[str, yaml.Node, str]]:
        """Yield (key, value, the key's place) of a mapping; nothing for an empty node."""
        import yaml

        if is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            raise UsageError(f"{self.place_of(node)} is not a mapping.", shape, "Mend it.")
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise UsageError(f"{self.place_of(key)}: a key is not a text.", shape, "Mend it.")
            yield key.value, value, self.place_of(key)

    def read_sections(self, top: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
        for key, value, place in self.read_items(top, f"It has: {PROFILES}"):
            if key not in SECTIONS:
                raise UsageError(
                    f"{place}: unknown key {key!r}.", "", f"Known are: {', '.join(SECTIONS)}."
                )
            yield key, value

    def read_lines(self, node: yaml.Node, shape: str) -> Collection[Line]:
        """Return one line for each key. A mapping's own value replaces the one that is merged
        in.
        """
        return {line.key: line for line in self.read_all_lines(node, shape)}.values()

    def read_all_lines(self, node: yaml.Node, shape: str) -> Iterator[Line]:
        import yaml

        for key, value, place in self.read_items(node, shape):
            if not isinstance(value, yaml.ScalarNode):
                raise UsageError(f"{place}: {key} is not a text.", shape, "Mend it.")
            yield Line(key, text_of(value), place)

    def read_profiles(self, node: yaml.Node) -> Iterator[tuple[str, dict[str, str]]]:
        for name, value, _ in self.read_items(node, f"It is a mapping: {PROFILES}"):
            lines = self.read_lines(value, f"It is a mapping: {PROFILES}")
            for line in lines:
                if line.value and is_secret_name(line.key):
                    self.must_be_private(line)
            yield name, {line.key: line.value for line in lines}

    def must_be_private(self, line: Line) -> None:
        if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            what = f"{line.place}: {line.key} is a secret, and other users can read the file."
            command = f"chmod 600 {shlex.quote(str(self.path))}"
            raise UsageError(what, "", "Move it into ~/.config/tao/.env, or run:", command)

    def read_endpoints(self, node: yaml.Node) -> Iterator[tuple[str, NamedEndpoint]]:
        shape = f"It is a mapping: {ENDPOINTS}"
        seen: set[str] = set()
        for name, value, place in self.read_items(node, shape):
            if not NAME.fullmatch(name):
                allowed = "It is made of letters, digits, - and _, at most 63."
                raise UsageError(
                    f"{place}: invalid endpoint name: {name!r}", allowed, "Name it otherwise."
                )
            if name in seen:
                raise UsageError(
                    f"{place}: there are two endpoints {name}.", "", "Name one of them otherwise."
                )
            seen.add(name)
            yield name, self.read_endpoint(name, value, place, shape)

    def read_endpoint(self, name: str, node: yaml.Node, place: str, shape: str) -> NamedEndpoint:
        lines = self.read_lines(node, shape)
        platform = next((line for line in lines if line.key == "platform"), None)
        if platform is None:
            raise UsageError(
                f"{place}: endpoint {name} names no platform.",
                "",
                "Give it, such as platform: docker.",
            )
        others = tuple(line for line in lines if line.key != "platform")
        return NamedEndpoint(name, platform.value, others, place, platform.place)


def is_null(node: yaml.Node | None) -> bool:
    return node is None or node.tag == f"{YAML}null"


def text_of(node: yaml.ScalarNode) -> str:
    """The value in the form of the environment: "1" for true, nothing for false."""
    if node.tag == f"{YAML}null":
        return ""
    if node.tag == f"{YAML}bool":
        if node.value.lower() not in TRUE:
            return ""
        return "1"
    return str(node.value)
