"""Starting: from a plan to a running container, whatever an earlier client has left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tao_sdk.backends.containers import parse
from tao_sdk.backends.containers.containers import Container, container_name
from tao_sdk.backends.containers.identity import must_be_the_daemon
from tao_sdk.backends.containers.life.images import Images
from tao_sdk.backends.containers.life.jobs import SETTLING_SECONDS, JobContainers
from tao_sdk.backends.containers.life.leftovers import clear_name
from tao_sdk.backends.containers.life.networks import UNSETTLED, Networks
from tao_sdk.backends.containers.request import ContainerRequest
from tao_sdk.backends.containers.start_script import FOLDER, statements
from tao_sdk.backends.job_environment import revealed
from tao_sdk.backends.results_place import RESULTS
from tao_sdk.model.errors import Refused, Unreachable
from tao_sdk.model.plan import Attempt
from tao_sdk.transports import dockerd
from tao_sdk.transports.dockerd import DaemonError, ignore_status

ANOTHER_PLACE = "Submit from another folder, or name one: mounts: [<folder>:/results]"
RETRIES = 5  # retries of a start while other clients remove or make our network


class Starting:
    """Creates and starts the container of an attempt, or adopts the existing one."""

    def __init__(self, jobs: JobContainers, images: Images, networks: Networks) -> None:
        self.jobs, self.containers, self.daemon = jobs, jobs.containers, jobs.place.daemon
        self.images, self.networks = images, networks

    def start_attempt(
        self, attempt: Attempt, request: ContainerRequest, secrets: Mapping[str, str]
    ) -> Container | str:
        """Return the attempt's started container: the existing one, or a new one.

        Returns the pull's progress as text while the image is still being pulled.
        """
        new = self.create_at_once(request)
        if new is not None:
            return self.create_and_start(request, secrets, new)
        last = self.containers.inspect(container_name(attempt.job_id))
        adopted = self.adopt_container(last, attempt)
        if adopted is not None:
            return adopted
        must_be_the_daemon(self.daemon, request.daemon)
        pulling = self.images.get_ready(attempt, request)
        if pulling is not None:
            return pulling
        self.make_way(last, attempt)
        return self.create_and_start(request, secrets)

    def adopt_container(self, found: Container | None, attempt: Attempt) -> Container | None:
        """The container of the job's name, if it is this attempt's and has read its environment."""
        if found is None or not found.is_of(attempt):
            return None
        container = found if found.begun else self.settle_container(found)
        if container is None or not self.jobs.has_read_input(container):
            return None
        return container

    def create_at_once(self, request: ContainerRequest) -> Container | None:
        """Create a container without looking first.

        Returns None if the name is taken, or if the image was not seen a moment ago.
        """
        if self.images.was_here(request):
            must_be_the_daemon(self.daemon, request.daemon)
            with ignore_status(404, 409):
                return self.create_container(request)
        return None

    def create_and_start(
        self,
        request: ContainerRequest,
        secrets: Mapping[str, str],
        new: Container | None = None,
    ) -> Container:
        """Start `new`, or a container made here. Retry while others remove or make our network."""
        retries = RETRIES if request.make_network else 0
        container = new or self.create_container(request)
        while True:
            try:
                self.start_container(container, request, secrets)
                return container
            except DaemonError as error:
                if retries == 0 or not UNSETTLED.search(error.backend_words):
                    raise
            retries -= 1
            self.networks.forget(request.network)
            container = self.create_container(request)

    def settle_container(self, container: Container) -> Container | None:
        """Wait until a created container has started, or remove it.

        Returns the container if it has started, None once it is removed. The client that created it
        may have died. Then the container is removed, because half of its environment may wait at
        its standard input. But the client may also be starting it right now. So each try to remove
        it comes after a pause and is not forced: the daemon refuses to remove a container that has
        started meanwhile. Raises Unreachable if neither happens.
        """
        for _ in range(30):
            time.sleep(SETTLING_SECONDS)
            left = self.containers.inspect(container.id)
            if left is None or left.begun:
                return left
            with ignore_status(404, 409):
                self.daemon.ask("DELETE", f"/containers/{container.id}", v=1)
        raise Unreachable(f"{container.id} neither starts nor can be removed.", "", "Try again.")

    def make_way(self, found: Container | None, attempt: Attempt) -> None:
        """Free the container's name if an earlier attempt of the same job holds it.

        Raises Refused if the name belongs to a container of something else.
        """
        if found is None:
            return
        if not is_earlier_attempt(found, attempt):
            name = container_name(attempt.job_id)
            what = f"The name {name} is taken by a container that is not of this job."
            raise Refused(what, command=f"docker rm -f {name}")
        clear_name(self.containers, found, attempt.job_id)

    def create_container(self, request: ContainerRequest) -> Container:
        for folder in request.folders:
            make_folder(Path(folder))
        body = dict(request.container)
        if request.make_network:
            network = self.networks.get_or_create(request.network)
            body["HostConfig"] = {**body["HostConfig"], "NetworkMode": network}
        try:
            made = self.daemon.ask("POST", "/containers/create", body, name=request.name)
        except DaemonError:
            remove_empty(request.folders)
            raise
        return Container(
            {
                "Id": made["Id"],
                "State": {"Status": "created"},
                "Config": body,
                "HostConfig": body["HostConfig"],
            }
        )

    def start_container(
        self, container: Container, request: ContainerRequest, secrets: Mapping[str, str]
    ) -> None:
        """Deliver a long command and the environment, and start the container.

        The environment goes through standard input, so that nobody sees it. A container that cannot
        start is removed. Raises DaemonError, Refused.
        """
        try:
            if request.opens_results:
                self.open_results(container)
            self.give_folders(container, request.folders)
            if request.command:
                self.deliver_command(container, request.command)
            with self.daemon.type_into(container.id, standard_input(request, secrets)):
                self.daemon.ask("POST", f"/containers/{container.id}/start")
        except (DaemonError, Refused):
            self.containers.remove(container.id)
            remove_empty(request.folders)
            raise

    def deliver_command(self, container: Container, command: str) -> None:
        """Put a command that is too long for an argument into the container as a file."""
        file = ("command", command.encode("utf-8", "surrogateescape"), 0o600)
        archive = dockerd.make_archive([file], self.command_owner(container), FOLDER)
        self.daemon.put_archive(container.id, "/", archive)

    def open_results(self, container: Container) -> None:
        """Let the command's user write to /results in the container, if that is not root."""
        owner = self.command_owner(container)
        if any(owner):
            archive = dockerd.make_archive([], owner, RESULTS[1:], 0o755)
            with ignore_status(403):  # the job asked for a read-only root
                self.daemon.put_archive(container.id, "/", archive)

    def give_folders(self, container: Container, folders: Iterable[str]) -> None:
        """Give the folders that a submit by root has made to the command's user."""
        if os.geteuid() != 0:
            return
        for folder in folders:
            change_owner(folder, self.command_owner(container))

    def command_owner(self, container: Container) -> tuple[int, int]:
        """Return (uid, gid) of the command's user, who must be able to read delivered files."""
        config = container.seen["Config"]
        user = config.get("User") or self.images.user(config["Image"])
        if not user or user in ("0", "root"):
            return 0, 0
        uid, _, gid = user.partition(":")
        if uid.isdigit() and gid.isdigit():
            return int(uid), int(gid)
        passwd = self.read_text(container, "/etc/passwd")
        return parse.owner_ids(user, passwd, self.read_text(container, "/etc/group"))

    def read_text(self, container: Container, path: str) -> str:
        """The text of a file in the container; "" if there is none."""
        content = self.daemon.read_file(container.id, path) or b""
        return content.decode("utf-8", "replace")


def is_earlier_attempt(container: Container, attempt: Attempt) -> bool:
    """True if the container is of the same job and of no later attempt."""
    job_id, number, store = parse.names_of(container.seen)
    if (job_id, store) != (attempt.job_id, attempt.store_id):
        return False
    return number.isdigit() and int(number) <= attempt.number


def make_folder(folder: Path) -> None:
    """Make a folder for results whose place the job does not name. Raises Refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"The results have no place: the folder {folder} cannot be made."
        raise Refused(what, f"{error.strerror}.", ANOTHER_PLACE) from error


def change_owner(folder: str, owner: tuple[int, int]) -> None:
    """Change the owner of a folder, but not of a link in its place. Raises Refused."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchown(fd, *owner)
        finally:
            os.close(fd)
    except OSError as error:
        what = f"The results folder {folder} cannot be given to user {owner[0]}."
        raise Refused(what, f"{error.strerror}.", ANOTHER_PLACE) from error


def remove_empty(folders: Iterable[str]) -> None:
    """Remove the empty folders that were made for a job that could not start."""
    for folder in folders:
        with suppress(OSError):
            Path(folder).rmdir()


def standard_input(request: ContainerRequest, secrets: Mapping[str, str]) -> bytes:
    """The container's standard input: its environment. The secrets' values go nowhere else."""
    values = revealed(request.environment, secrets)
    if not values:
        return b""
    return statements(values).encode("utf-8", "surrogateescape")
