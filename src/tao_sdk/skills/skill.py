"""Skills: a bank's description of one model, platform or tool. Frozen records, no I/O.

Paths such as `dataset.train_data_sources[0].image_dir` are keys of the spec that an action takes.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from tao_sdk.client.document import Place
from tao_sdk.skills.errors import ActionNotFound

if TYPE_CHECKING:
    Scalar = str | int | float | bool | None
    Plain = Scalar | list["Plain"] | dict[str, "Plain"]


class Mode(str, Enum):
    """The way an action is given its values: a spec file, arguments, or its command as it
    stands.
    """

    CONFIG = "config"
    ARGS = "args"
    PASSTHROUGH = "passthrough"


@dataclass(frozen=True)
class Selective:
    """Fetch only the files of a folder that an annotation file names."""

    annotation: str  # the key of the input that is the annotation file
    format: str
    keys: tuple[str, ...]  # the keys of its records


@dataclass(frozen=True)
class Input:
    """A value of the spec that is fetched before the command runs."""

    key: str
    type: str  # file, folder, list or local_glob
    optional: bool = False
    extract_to_parent: bool = False
    container_path: str = ""
    selective: Selective | None = None
    description: str = ""  # such as: the folder data_info that dataset_convert makes


@dataclass(frozen=True)
class Output:
    """A value of the spec that gets a place for results."""

    key: str
    type: str  # file, folder or text
    optional: bool = False


@dataclass(frozen=True)
class HostNeeds:
    """The machine that a skill or an action needs. 0, "" and () ask for nothing."""

    gpu_count: int = 0  # of all nodes
    gpu_memory_gb: float = 0.0  # of each GPU, in 10^9 bytes
    gpu_archs: tuple[str, ...] = ()  # such as sm_80
    driver: str = ""  # the oldest NVIDIA driver, such as 580
    cuda: str = ""
    container_toolkit: str = ""

    def over(self, general: HostNeeds) -> HostNeeds:
        """These needs, and the general ones where these ask for nothing."""
        return HostNeeds(
            self.gpu_count or general.gpu_count,
            self.gpu_memory_gb or general.gpu_memory_gb,
            self.gpu_archs or general.gpu_archs,
            self.driver or general.driver,
            self.cuda or general.cuda,
            self.container_toolkit or general.container_toolkit,
        )


@dataclass(frozen=True)
class Action:
    """One thing that a skill does, such as train."""

    name: str
    mode: Mode
    command: str
    config_format: str = ""  # for mode config: yaml, toml or json
    container_image: str = ""  # "": the skill's
    inputs: Mapping[str, Input] = field(default_factory=lambda: {})
    outputs: Mapping[str, Output] = field(default_factory=lambda: {})
    upload_excludes: tuple[str, ...] = ()
    args: Mapping[str, str] = field(default_factory=lambda: {})
    defaults: Mapping[str, str] = field(default_factory=lambda: {})  # by placeholder of args
    description: str = ""
    host_needs: HostNeeds = HostNeeds()


@dataclass(frozen=True)
class MappedFile:
    """A file of each dataset, in a list of mappings that the spec has for them."""

    path: str = ""
    optional: bool = False


@dataclass(frozen=True)
class DataSource:
    """The file of a dataset that fills a value of the spec."""

    key: str
    source: str  # train_datasets, eval_dataset, ...
    path: str | None = None  # below the dataset; "" is the dataset itself
    runtime: str = ""  # extracted_folder: the spec gets the folder that an archive holds
    as_list: bool = False
    multiple_sources: bool = False
    optional: bool = False
    path_from_format: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {})
    mapping: Mapping[str, MappedFile] = field(default_factory=lambda: {})


@dataclass(frozen=True)
class Download:
    """A value of the spec that is a file from the web, and its place in the job."""

    link: str
    destination_path: str


@dataclass(frozen=True)
class Template:
    """A spec to begin with: its path below the folder of the skill's file."""

    path: str
    place: Place = field(compare=False)


@dataclass(frozen=True)
class Credential:
    """A variable of the environment that a skill needs. The value is never here."""

    name: str
    description: str = ""
    how_to_get: str = ""
    only_when: str = ""
    default: str = ""


@dataclass(frozen=True)
class CredentialGroup:
    """A group of variables; one of them is enough."""

    name: str
    require_one_of: tuple[str, ...]
    preferred: str = ""
    description: str = ""


@dataclass(frozen=True)
class Skill:
    """The bank's description of one model, platform or tool."""

    name: str
    kind: str  # model, platform, data, workflow, application or core
    path: Path  # of its skill_info.yaml
    description: str = ""
    network_arch: str = ""
    aliases: tuple[str, ...] = ()
    container_image: str = ""  # a key of versions.yaml, or an image
    data_format: str = ""
    gpu_spec_key: str = ""
    node_spec_key: str = ""
    automl_enabled: bool | None = None
    monitoring_metric: str = ""  # what `kpi` means for its network
    actions: Mapping[str, Action] = field(default_factory=lambda: {})
    spec_shorthand_keys: Mapping[str, str] = field(default_factory=lambda: {})
    key_defaults: Mapping[str, Plain] = field(default_factory=lambda: {})
    spec_templates: Mapping[str, Template] = field(default_factory=lambda: {})
    spec_params: Mapping[str, Mapping[str, str | Download]] = field(default_factory=lambda: {})
    data_sources: Mapping[str, Mapping[str, DataSource]] = field(default_factory=lambda: {})
    required_credentials: tuple[Credential, ...] = ()
    optional_credentials: tuple[Credential, ...] = ()
    credential_groups: tuple[CredentialGroup, ...] = ()
    resource_defaults: Mapping[str, Plain] = field(default_factory=lambda: {})
    cloud_storage: Mapping[str, Plain] = field(default_factory=lambda: {})
    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=lambda: {})  # path in the job: in its folder
    host_needs: HostNeeds = HostNeeds()

    @property
    def folder(self) -> Path:
        """The folder of the skill, above its `references`."""
        parent = self.path.parent
        return parent.parent if parent.name == "references" else parent

    def action(self, name: str) -> Action:
        """The action of this name. Raises ActionNotFound, which names a near one or all."""
        if name in self.actions:
            return self.actions[name]
        near = difflib.get_close_matches(name, self.actions, n=1)
        known = ", ".join(self.actions) or "none"
        hint = f"Did you mean {near[0]}?" if near else f"Its actions: {known}."
        raise ActionNotFound(f"{self.name} has no action {name!r}.", f"As {self.path} says.", hint)

    def needs_of(self, action: str) -> HostNeeds:
        """The machine that an action needs; the skill's needs for "" and for an unknown one."""
        own = self.actions.get(action)
        return own.host_needs.over(self.host_needs) if own else self.host_needs

    def image_of(self, action: str) -> str:
        """The image key, or the image, of an action. Raises ActionNotFound."""
        return self.action(action).container_image or self.container_image
