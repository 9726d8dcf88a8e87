"""The folder of this job's results, chosen in the platform document's order.

An explicit value wins (outputs/destination.py); then TAO_RESULTS_ROOT; then the bucket; then
/results, which is lost with the container. A root may be in a bucket, too (s3://bucket/prefix).
Results for a bucket are written to a folder first, below TAO_LOCAL_ROOT (/results), and sent from
there while the command runs.

Read from the environment here: TAO_JOB_ID, TAO_RESULTS_ROOT, S3_BUCKET_NAME, TAO_LOCAL_ROOT,
TAO_ATTEMPT (1), TAO_RANK (0), TAO_GRACE (10, seconds), TAO_GRACE_FILE (a cancel writes it),
TAO_SYNC_SECONDS (60), TAO_AUTO_RESUME (0 turns it off). Read elsewhere: TAO_RETRY_SECONDS (web.py);
TAO_UNPACK_BYTES and TAO_UNPACK_FILES (archive.py); TMPDIR (private.py); proxies (proxy.py) and
certificates (wire.py); variables for AWS (s3.py, s3_credentials.py), Hugging Face (hub_source.py)
and NGC (ngc_source.py).
"""

from __future__ import annotations

import os

from tao_sdk.net.environment import number
from tao_sdk.runner import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tao_sdk.runner.outputs.older import OlderFiles

EPHEMERAL = "/results"
GRACE_LENGTH = 9  # characters to read: enough for years


class ResultsFolder:
    """Where one attempt's results are. `folder` is {root}/<job id>; `kept` is True if they
    outlive the container.

    `remote` is the address to which they are sent, without a slash at its end; "" if they stay in
    the folder.
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
        # True if the folder could not be made: a folder that only this runner knows is used instead
        self.private = False
        self.nobodys = False  # True if nothing in that private folder is kept
        self.kept = bool(root or self.remote)
        self.optional: frozenset[str] = frozenset()  # paths of outputs that need not be written
        # names of other jobs' folders beside this one, if they matter
        self.neighbours: frozenset[str] = frozenset()
        self.older_files: OlderFiles | None = None  # None if no output was there before the command
        local = env.get("TAO_LOCAL_ROOT", "") if self.remote or not root else root
        self.folder = os.path.join(os.path.abspath(local or EPHEMERAL), self.job)

    def take_grace(self) -> None:
        """Use the grace seconds that a cancel wrote, if they are a plain number."""
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
        """Rename an earlier attempt's log, so that its bytes are kept."""
        earlier = f"{self.log_path}.attempt-{self.attempt - 1}"
        if self.attempt > 1 and os.path.exists(self.log_path) and not os.path.exists(earlier):
            os.replace(self.log_path, earlier)

    @property
    def own_folder(self) -> str:
        """The runner's own folder in the results."""
        return os.path.join(self.folder, ".tao")

    @property
    def log_path(self) -> str:
        """The log file with the command's output on this rank."""
        return os.path.join(
            self.own_folder, "job.log" if self.rank == 0 else f"job.rank-{self.rank}.log"
        )

    @property
    def work_folder(self) -> str:
        """The folder for the job's relative files. If it has any, the command starts there."""
        return os.path.join(self.folder, "work")

    @property
    def manifest_path(self) -> str:
        return os.path.join(self.own_folder, "manifest.json")


def bucket_address(root: str, bucket: str, job: str) -> str:
    """The address of this job's results in a bucket; "" if they do not go to one."""
    if root.startswith("s3://"):
        return f"{root.rstrip('/')}/{job}"
    if root or not bucket:
        return ""
    return f"s3://{bucket}/results/{job}"
