"""Jobs whose results go to a bucket, the bucket as the test sees it, and a sender without a job."""

from __future__ import annotations

import json
import time
from pathlib import Path

from support.servers import s3_here
from tao_sdk.engine.bucket_files import BucketFiles
from tao_sdk.net.s3_xml import elements, inner
from tao_sdk.runner.outputs.bucket import Bucket
from tao_sdk.runner.outputs.ending import Ending
from tao_sdk.runner.outputs.remote import Remote
from tao_sdk.runner.report import Report
from tao_sdk.runner.results_folder import ResultsFolder

KEY = "resume_training_checkpoint_path"


class Store:
    """A new bucket of a real server, as the job and the test see it."""

    def __init__(self, server: s3_here.Server, url: str = "") -> None:
        self.server, self.name = server, server.bucket()
        self.env = {**server.env(url), "S3_BUCKET_NAME": self.name, "TAO_RESULTS_ROOT": ""}

    @property
    def keys(self) -> set[str]:
        return {each.key for each in self.server.s3().list(self.name, "")}

    def read(self, key: str) -> bytes:
        return BucketFiles(self.server.s3()).read(f"s3://{self.name}/{key}")

    def manifest(self, folder: str = "results/job-1") -> dict:
        key = f"{folder}/.tao/manifest.json"
        return json.loads(self.read(key)) if key in self.keys else {}

    def listed(self, folder: str = "results/job-1") -> dict[str, dict]:
        return {each["path"]: each for each in self.manifest(folder).get("files", [])}

    def lets_anybody(self, *actions: str) -> dict[str, str]:
        """From now on everybody may do these, and what the environment of somebody
        without keys is.
        """
        may = {"Effect": "Allow", "Principal": "*", "Action": list(actions)}
        below = {**may, "Resource": [f"arn:aws:s3:::{self.name}", f"arn:aws:s3:::{self.name}/*"]}
        body = json.dumps({"Version": "2012-10-17", "Statement": [below]}).encode()
        answer = self.server.s3().ask("PUT", self.name, "", {"policy": ""}, body)
        assert answer.status in (200, 204), answer.text
        return {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}


def run(jobs, store, command, env=None, **more):
    """A job with one output, results_dir, in which the command starts."""
    return jobs.run(
        f"cd $TAO_RESULTS_DIR/results_dir; {command}",
        env={**store.env, **(env or {})},
        **wanted(more),
    )


def start(jobs, store, command, env=None, **more):
    env = {**store.env, "TAO_SYNC_SECONDS": "0.4", **(env or {})}
    return jobs.start(f"cd $TAO_RESULTS_DIR/results_dir; {command}", env=env, **wanted(more))


def waits(jobs) -> str:
    """Shell text that waits until the test has `let_go`."""
    return f"echo ready; until [ -e {jobs.folder}/go ]; do sleep 0.02; done"


def let_go(jobs) -> None:
    (jobs.folder / "go").touch()


def wanted(more):
    return {
        "specs": {"results_dir": ""},
        "outputs": ["results_dir"],
        "config_format": "json",
        **more,
    }


def uploads(store) -> list[str]:
    """The keys of uploads that were begun and neither completed nor given up."""
    answer = store.server.s3().ask("GET", store.name, "", {"uploads": ""})
    return [inner(each, "Key") for each in elements(answer.text, "Upload")]


def newest(store, name):
    s3 = store.server.s3()
    return next(each.modified for each in s3.list(store.name, f"results/job-1/{name}"))


def opened(jobs, store, attempt=1, rank=0, folder="zero", url=""):
    """The results of an attempt that begins, as its runner sends them; the test writes and says
    when to look.
    """
    env = {"TAO_ATTEMPT": str(attempt), "TAO_RANK": str(rank), "TAO_SYNC_SECONDS": "9"}
    place = ResultsFolder(
        {**env, "TAO_LOCAL_ROOT": str(jobs.folder / folder), "S3_BUCKET_NAME": store.name}, "job-1"
    )
    Path(place.own_folder).mkdir(parents=True, exist_ok=True)
    s3 = store.server.s3(url, TAO_RETRY_SECONDS="0.3")
    bucket = Bucket(Remote(s3, place.remote), [(place.folder, "")], place, [])
    bucket.open()
    return bucket


def write(bucket, name, text):
    """As programs do that keep one whole file under the name."""
    path = Path(bucket.results.folder, name)
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def look(*buckets, times=1):
    for each in buckets * times:
        each.sync(lambda: False)


def finish(bucket, exit_code=0):
    bucket.finish(Ending(exit_code, exit_code, time.time()), lambda: False, Report())


def child_of(pid):
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
