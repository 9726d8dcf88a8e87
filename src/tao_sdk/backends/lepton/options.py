"""Options of the Lepton backend: how to run a job in a workspace."""

from __future__ import annotations

from dataclasses import dataclass

from tao_sdk.model import fields as f
from tao_sdk.model.fields import setting

AUTO, NONE = "auto", "none"
TTL = 259_200  # seconds: the documents' three days


@f.lists_fields()
@dataclass(frozen=True)
class LeptonOptions:
    """What only the Lepton platform understands."""

    resource_shape: str = setting(
        f.TEXT, "", "Resource shape of each node. Default: the smallest with gpu_count GPUs."
    )
    dedicated_node_group: str = setting(
        f.TEXT,
        "",
        "Node group, by id or name. Default: one that has room for the job, with most free GPUs.",
    )
    node_ids: tuple[str, ...] = setting(
        f.TEXTS,
        (),
        "Nodes of that group that the job may run on. Default: all.",
        flags=("--node-id",),
    )
    volume: str = setting(
        f.TEXT,
        AUTO,
        "Volume for the results, mounted at /mnt/VOLUME. auto: lustre, else filestore, else the "
        "first. none: no volume.",
    )
    image_pull_secret: str = setting(
        f.TEXT, "", "Image pull secret of the workspace, which is there already."
    )
    pull_secret: str = setting(
        f.choice(AUTO, NONE),
        AUTO,
        "auto: an image pull secret is made of NGC_KEY for images of nvcr.io.",
    )
    priority_class: str = setting(
        f.TEXT, "", "Priority class of the workspace's queue, such as mid-4000."
    )
    preemptible: bool = setting(
        f.YES_OR_NO, False, "Jobs of a higher priority may take the job's nodes."
    )
    ttl: int = setting(
        f.integer(60), TTL, "Seconds after its end until the workspace archives the job."
    )
