"""Survey: what a workspace has for a job: node groups, shapes, free GPUs, volumes."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from tao_sdk.backends.asking import ask_side_by_side, both
from tao_sdk.backends.image_name import NGC
from tao_sdk.backends.lepton import parse
from tao_sdk.backends.lepton.facts import Group, LeptonFacts, Node, Shape
from tao_sdk.backends.lepton.job.names import PULL_PREFIX
from tao_sdk.backends.lepton.look import listed, told_list
from tao_sdk.backends.lepton.options import AUTO, LeptonOptions
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.transports.rest import Rest, RestRefusal

REMEMBERED_SECONDS = 60.0  # for what seldom changes: groups, shapes, volumes
DIGEST = 12  # hex digits of a key's digest in a name
NOT_TOLD = (403, 404)


class Survey:
    """What a workspace has, asked once a minute, and which GPUs are free, asked for each job."""

    def __init__(self, rest: Rest) -> None:
        self.rest = rest
        self._lock = threading.Lock()
        self._until = 0.0  # of time.monotonic()
        self._groups: tuple[Group, ...] = ()
        self._shapes: tuple[Shape, ...] = ()

    def facts(
        self, job: PreparedJob, options: LeptonOptions, workspace: str, settings: Settings
    ) -> LeptonFacts:
        """The facts for one job. Raises RestRefusal, Unreachable."""
        groups, shapes = self.groups_and_shapes()
        wanted = options.dedicated_node_group
        if job.spec.gpu_count or options.node_ids:
            groups = tuple(
                self.with_nodes(group) if wanted in ("", group.id, group.name) else group
                for group in groups
            )
        return LeptonFacts(
            workspace, groups, shapes, pull_secret(job.spec.image, options, settings)
        )

    def groups_and_shapes(self) -> tuple[tuple[Group, ...], tuple[Shape, ...]]:
        """The groups with their volumes, and the shapes for jobs."""
        with self._lock:
            if time.monotonic() >= self._until:
                groups, self._shapes = both(self._ask_groups, self._ask_shapes)
                self._groups = tuple(ask_side_by_side(self._with_rights, groups))
                self._until = time.monotonic() + REMEMBERED_SECONDS
            return self._groups, self._shapes

    def _ask_groups(self) -> list[Group]:
        answer = self.rest.ask("GET", "/dedicated-node-groups")
        return [parse.group(one) for one in listed(self.rest, answer, "dedicated_node_groups")]

    def _ask_shapes(self) -> tuple[Shape, ...]:
        answer = self.rest.ask("GET", "/shapes", params={"purpose": "job"})
        return tuple(parse.shape(one) for one in listed(self.rest, answer, "shapes"))

    def _with_rights(self, group: Group) -> Group:
        """The group with the path of each volume below which this caller may use it."""
        paths = {name: self._path_of(name, group) for name in group.volumes}
        return replace(group, volumes=paths)

    def _path_of(self, volume: str, group: Group) -> str:
        """The first path that a permission names; "/" where none is told."""
        permissions = self.permissions(volume, group.id)
        return next((str(one["path_prefix"]) for one in permissions if one.get("path_prefix")), "/")

    def permissions(self, volume: str, group_id: str) -> Sequence[parse.Object]:
        try:
            answer = self.rest.ask(
                "GET", f"/storage-permission/{volume}", params={"nodegroup_id": group_id}
            )
        except RestRefusal as refused:
            if refused.status in NOT_TOLD:
                return ()
            raise
        return told_list(answer, "permissions") or ()

    def with_nodes(self, group: Group) -> Group:
        """The group with its nodes; without them if the caller may not see them."""
        return replace(group, nodes=self._ask_nodes(group.id))

    def _ask_nodes(self, group_id: str) -> tuple[Node, ...] | None:
        try:
            answer = self.rest.ask("GET", f"/dedicated-node-groups/{group_id}/nodes")
        except RestRefusal as refused:
            if refused.status in NOT_TOLD:
                return None
            raise
        nodes = told_list(answer, "nodes")
        return None if nodes is None else tuple(map(parse.node, nodes))


def pull_secret(image: str, options: LeptonOptions, settings: Settings) -> str:
    """The name of the pull secret that submit makes of NGC_KEY; "" if it makes none."""
    key = settings.get("NGC_KEY")
    wants = options.pull_secret == AUTO and not options.image_pull_secret
    if not wants or not key or not image.startswith(f"{NGC}/"):
        return ""
    return PULL_PREFIX + hashlib.sha256(key.encode()).hexdigest()[:DIGEST]
