"""Where this job's results lie, in the order that the platform document gives.

An explicit value wins (outputs.py); then TAO_RESULTS_ROOT; then the bucket; then /results, which
dies with the container. A root may be a bucket's, too (s3://bucket/prefix). Results that go to a
bucket are written to a folder first, below TAO_LOCAL_ROOT (/results), and sent from there while the
command runs.

Read from the environment here: TAO_JOB_ID, TAO_RESULTS_ROOT, S3_BUCKET_NAME, TAO_LOCAL_ROOT,
TAO_ATTEMPT (1), TAO_RANK (0), TAO_GRACE (10, seconds), TAO_GRACE_FILE (what a cancel writes),
TAO_SYNC_SECONDS (60), TAO_AUTO_RESUME (0 turns it off). Read elsewhere: TAO_RETRY_SECONDS (web.py);
TAO_UNPACK_BYTES and TAO_UNPACK_FILES (archive.py); TMPDIR (private.py); proxies (proxy.py) and
certificates (wire.py); what AWS (s3.py, s3_credentials.py), Hugging Face (hub_source.py) and NGC
(ngc_source.py) need.
"""

from __future__ import annotations

import os

from tao_sdk.net.environment import number
from tao_sdk.runner import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

EPHEMERAL = "/results"
GRACE_LENGTH = 9  # characters that are read: years


class Place:
    """The results of one attempt: `folder` is {root}/<job id>, `kept` whether they outlive the
    container.

    `remote` is the address that they are sent to, without a slash at its end; "" when the folder is
    where they stay.
    """

    def __init__(self, env: Mapping[str, str], job_id: str) -> None:
        self.job = env.get("TAO_JOB_ID") or job_id or "job"
        self.attempt = int(number(env.get("TAO_ATTEMPT"), 1))
        self.rank = int(number(env.get("TAO_RANK"), 0))
        self.grace = float(number(env.get("TAO_GRACE"), 10))
        self.grace_file = env.get("TAO_GRACE_FILE", "")
        self.interval = max(0.05, float(number(env.get("TAO_SYNC_SECONDS"), 60)))
        self.resume = env.get("TAO_AUTO_RESUME", "1") != "0"
        root = env.get("TAO_RESULTS_ROOT", "")
        self.remote = bucket_address(root, env.get("S3_BUCKET_NAME", ""), self.job)
        # the folder could not be made: there is one that only this runner knows
        self.private = False
        self.nobodys = False  # and nothing of it is kept
        self.kept = bool(root or self.remote)
        self.optional: frozenset[str] = frozenset()  # paths of outputs that need not be written
        # names of other jobs' folders beside this one, where that matters
        self.neighbours: frozenset[str] = frozenset()
        local = env.get("TAO_LOCAL_ROOT", "") if self.remote or not root else root
        self.folder = os.path.join(os.path.abspath(local or EPHEMERAL), self.job)

    def take_grace(self) -> None:
        """Take over the seconds that a cancel has written, if they are a plain number."""
        try:
            text = private.read_file(self.grace_file, GRACE_LENGTH).strip()
        except OSError:
            return
        if text.replace(b".", b"", 1).isdigit():
            self.grace = float(text)

    def make_private(self, kept: bool) -> None:
        self.folder = os.path.join(private.make_folder(), self.job)
        os.makedirs(self.own_folder)
        self.private, self.nobodys = True, not kept

    def remove_private(self) -> None:
        private.remove_tree(os.path.dirname(self.folder))

    def set_aside_log(self) -> None:
        """An earlier attempt's log keeps its bytes under a name of its own."""
        earlier = f"{self.log_path}.attempt-{self.attempt - 1}"
        if self.attempt > 1 and os.path.exists(self.log_path) and not os.path.exists(earlier):
            os.replace(self.log_path, earlier)

    @property
    def own_folder(self) -> str:
        """The runner's own corner of the results."""
        return os.path.join(self.folder, ".tao")

    @property
    def log_path(self) -> str:
        """The command's output of this rank."""
        return os.path.join(
            self.own_folder, "job.log" if self.rank == 0 else f"job.rank-{self.rank}.log"
        )

    @property
    def work_folder(self) -> str:
        """Where the job's relative files lie and the command starts, if it has any."""
        return os.path.join(self.folder, "work")

    @property
    def manifest_path(self) -> str:
        return os.path.join(self.own_folder, "manifest.json")


def bucket_address(root: str, bucket: str, job: str) -> str:
    """The address of this job's results, when they go to a bucket."""
    if root.startswith("s3://"):
        return f"{root.rstrip('/')}/{job}"
    if root or not bucket:
        return ""
    return f"s3://{bucket}/results/{job}"
