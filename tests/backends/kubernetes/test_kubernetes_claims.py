"""Claims: what cannot be mounted is refused, and results on a claim are seen from here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.kubernetes import kube_images
from support.kubernetes.kube_claims import make_claim
from support.kubernetes.kube_here import Cluster, namespaced
from support.kubernetes.page_roles import role_of_the_page
from support.pages import ROOT
from support.tao_command import run_tao_here
from support.waiting import until
from tao_sdk.backends.kubernetes import backend
from tao_sdk.backends.kubernetes.claims import reader
from tao_sdk.backends.kubernetes.claims.claim_files import OpenFile, read_listing
from tao_sdk.backends.kubernetes.claims.known_claims import KnownClaim
from tao_sdk.backends.kubernetes.claims.reader import Reader
from tao_sdk.client import Client
from tao_sdk.client.doctor import job_findings
from tao_sdk.client.job_request import JobRequest
from tao_sdk.client.launch_checks import UNSEEN_PATH
from tao_sdk.model.errors import PathNotFound, Refused, SpecError, TaoError, Unreachable
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

IMAGE = "tests.local/python:1"
FILL = """\
mkdir -p $TAO_RESULTS_DIR/train $TAO_RESULTS_DIR/.tao
head -c 12000000 /dev/urandom > $TAO_RESULTS_DIR/train/model.pth
printf 'a\\nb' > "$TAO_RESULTS_DIR/odd name"
ln -s /etc/passwd $TAO_RESULTS_DIR/leads-out
: > $TAO_RESULTS_DIR/empty
sha256sum < $TAO_RESULTS_DIR/train/model.pth
echo $TAO_RESULTS_ROOT
"""


@pytest.fixture
def claim(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Path]:
    """The folder of a claim `data` of the test's namespace."""
    folder = tmp_path / "volume"
    folder.mkdir()
    make_claim(cluster, namespace, "data", folder)
    yield folder
    cluster.api.delete(f"/api/v1/persistentvolumes/{namespace}-data")


def job_with(*mounts: str, **more: Any) -> JobSpec:
    given = {"image": IMAGE, "command": "true", "gpu_count": 0, **more}
    return JobSpec(mounts=list(mounts), **given)


def findings(client: Client, *mounts: str, **more: Any) -> dict[str, Finding]:
    found = client.plan(job_with(*mounts, **more), "kubernetes").findings
    return {each.code: each for each in found if each.code.startswith("mount.")}


def readers(cluster: Cluster, namespace: str) -> list[Any]:
    path = f"{namespaced(namespace, 'batch/v1')}/jobs"
    return cluster.api.get(f"{path}?labelSelector=tao-sdk-reader=true")["items"]


def filled(client: Client) -> Job:
    job = client.submit(job_with("pvc://data/runs:/results", command=FILL), "kubernetes").job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    return job


def test_a_claim_without_a_volume_is_refused_before_submit(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    make_claim(cluster, namespace, "unbound", storageClassName="")
    found = findings(client, "pvc://unbound:/data")["mount.unbound"]
    assert found.severity is Severity.ERROR
    with pytest.raises((Refused, SpecError)):
        client.submit(job_with("pvc://unbound:/data"), "kubernetes")
    assert findings(client, "pvc://nobody:/data").keys() == {"mount.missing"}


def test_a_claim_whose_volume_is_on_no_node_that_the_job_may_use_is_refused(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    make_claim(cluster, namespace, "far", tmp_path, nodes=["somewhere-else"])
    found = findings(client, "pvc://far:/data")["mount.elsewhere"]
    assert found.severity is Severity.ERROR
    assert "real-node" in found.why
    cluster.api.delete(f"/api/v1/persistentvolumes/{namespace}-far")
    make_claim(cluster, namespace, "near", tmp_path, nodes=["real-node"])
    assert findings(client, "pvc://near:/data") == {}
    cluster.api.delete(f"/api/v1/persistentvolumes/{namespace}-near")


def test_a_claim_whose_volume_is_made_for_its_first_pod_is_taken(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    late = {
        "metadata": {"name": namespace},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    cluster.api.create(classes, late)
    make_claim(cluster, namespace, "late", storageClassName=namespace)
    assert findings(client, "pvc://late:/data") == {}
    cluster.api.delete(f"{classes}/{namespace}")


@pytest.mark.usefixtures("claim")
def test_a_claim_of_one_node_is_warned_about_where_a_job_has_several_pods(client: Client) -> None:
    found = findings(client, "pvc://data:/data", num_nodes=2)
    assert found["mount.one_node"].severity is Severity.WARNING
    assert findings(client, "pvc://data:/data") == {}


@pytest.mark.usefixtures("claim")
def test_results_on_a_claim_are_shown_and_fetched(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    job = filled(client)
    assert client.get_job_results_dir(job.id) == f"pvc://data/runs/{job.id}"
    digest, root = client.get_job_logs(job.id).split("\n")[:2]
    assert root == "/results"
    left = client.results(job.id)
    names = sorted(each.path.removeprefix(f"{left.dir}/") for each in left.files)
    assert [name for name in names if not name.startswith(".tao")] == [
        "empty",
        "odd name",
        "train/model.pth",
    ]
    client.fetch_results(job.id, tmp_path / "here")
    fetched = (tmp_path / "here" / "train" / "model.pth").read_bytes()
    assert digest.split()[0] == hashlib.sha256(fetched).hexdigest()
    assert (tmp_path / "here" / "odd name").read_bytes() == b"a\nb"
    assert (tmp_path / "here" / "empty").read_bytes() == b""
    until(lambda: not readers(cluster, namespace))


@pytest.mark.usefixtures("claim")
def test_a_path_on_a_claim_is_looked_at_and_no_link_leads_out(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    job = filled(client)
    place = f"pvc://data/runs/{job.id}"
    assert client.list_path("pvc://data/runs", "kubernetes") == [job.id]
    assert client.list_path(f"{place}/train", "kubernetes") == ["model.pth"]
    assert client.check_path(f"{place}/empty", "kubernetes")
    for missing in ("none", "leads-out", "../../../etc/passwd", "leads-out/x"):
        assert not client.check_path(f"{place}/{missing}", "kubernetes"), missing
    with pytest.raises(Unreachable, match="No job of yours has mounted other"):
        client.check_path("pvc://other/x", "kubernetes")
    until(lambda: not readers(cluster, namespace))


@pytest.mark.usefixtures("claim")
def test_what_a_client_that_died_has_left_is_ended_by_the_cluster_and_the_next_look(
    client: Client, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(client)
    with monkeypatch.context() as patched:
        patched.setattr(reader, "take_back", lambda *_: None)  # as if the client had been killed
        assert client.list_path("pvc://data/runs", "kubernetes")
    [left] = readers(cluster, namespace)
    assert left["spec"]["activeDeadlineSeconds"] <= 600
    assert left["spec"]["ttlSecondsAfterFinished"] <= 60
    monkeypatch.setattr(reader, "STALE", timedelta(0))
    assert client.list_path("pvc://data/runs", "kubernetes")
    until(lambda: not readers(cluster, namespace))


@pytest.mark.usefixtures("claim")
@pytest.mark.parametrize("questions", range(1, 5))
def test_whenever_a_client_dies_the_cluster_removes_its_reader_and_the_login(
    client: Client,
    cluster: Cluster,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    questions: int,
) -> None:
    monkeypatch.setattr(reader, "DEADLINE", 1)
    monkeypatch.setattr(reader, "TTL", 0)
    kube = client.engine.backend("kubernetes").kube  # pyright: ignore
    known = KnownClaim(namespace, "data", IMAGE, pull_registry="registry.example")
    login = {"username": "me", "password": "word"}
    with monkeypatch.context() as patched:
        die_after(kube, questions, patched)
        with pytest.raises(KeyboardInterrupt):
            list(Reader(kube, known, lambda _: login).run("list", "", "1"))
    until(lambda: not readers(cluster, namespace))
    secrets = f"{namespaced(namespace)}/secrets"
    until(lambda: not cluster.api.get(secrets)["items"])


def die_after(kube: Any, questions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client dies at its next question after so many."""
    ask, left = kube.ask, questions

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return ask(*given, **more)

    monkeypatch.setattr(kube, "ask", counted)


@pytest.mark.usefixtures("claim")
def test_a_claim_is_looked_at_with_the_rights_of_the_page_and_a_private_image(
    cluster: Cluster, namespace: str, surroundings: dict[str, str], tmp_path: Path
) -> None:
    kube_images.registry(cluster)
    token = cluster.make_user(namespace, "caller", role_of_the_page()["rules"])
    kubeconfig = cluster.write_kubeconfig(tmp_path / "caller", namespace, token)
    own = {"KUBECONFIG": str(kubeconfig), "NGC_KEY": kube_images.REGISTRY_PASSWORD}
    with Client(settings=Settings({**surroundings, **own})) as client:
        image = f"nvcr.io/{kube_images.PULLED}"
        spec = job_with("pvc://data/runs:/results", command="echo a > /results/a", image=image)
        job = client.submit(spec, "kubernetes").job
        assert client.wait(job.id, timeout=300).status is Status.COMPLETE
        assert "a" in client.list_path("pvc://data/runs", "kubernetes")
        client.remove(job.id)
    until(lambda: not readers(cluster, namespace))


@pytest.mark.usefixtures("claim")
def test_a_reader_has_the_pull_secrets_of_the_jobs_service_account(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    kube_images.registry(cluster)
    login = {"username": kube_images.REGISTRY_USER, "password": kube_images.REGISTRY_PASSWORD}
    make_account(cluster, namespace, "trainer", login)
    image = f"nvcr.io/{kube_images.PULLED}"
    spec = job_with("pvc://data/runs:/results", command="echo a > /results/a", image=image)
    job = client.submit(spec, "kubernetes", {"service_account": "trainer"}).job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert "a" in client.list_path("pvc://data/runs", "kubernetes")


def make_account(cluster: Cluster, namespace: str, name: str, login: dict[str, str]) -> None:
    """A service account whose pods pull with this login to nvcr.io."""
    logins = json.dumps({"auths": {"nvcr.io": login}})
    secret = {
        "metadata": {"name": f"{name}-pull"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": logins},
    }
    cluster.api.create(f"{namespaced(namespace)}/secrets", secret)
    account = {"metadata": {"name": name}, "imagePullSecrets": [{"name": f"{name}-pull"}]}
    cluster.api.create(f"{namespaced(namespace)}/serviceaccounts", account)


@pytest.mark.usefixtures("claim")
def test_the_end_of_a_removed_job_is_told_although_its_claim_cannot_be_looked_at(
    client: Client, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "OUTCOME_SECONDS", 0.0)
    spec = job_with("pvc://data/runs:/results", command="sleep 300", image=IMAGE)
    job = client.submit(spec, "kubernetes").job
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    cluster.kubectl("delete", "job", "-n", namespace, "--now", f"tao-job-{job.id}")
    until(lambda: client.get_job(job.id).status.terminal)
    assert client.get_job(job.id).status is Status.ERROR


def test_a_pod_sees_the_keys_of_a_configmap_and_of_a_secret_as_files(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    for kind, data in (
        ("configmaps", {"data": {"a.txt": "plain\n"}}),
        ("secrets", {"stringData": {"key": "hidden\n"}}),
    ):
        cluster.api.create(f"{namespaced(namespace)}/{kind}", {"metadata": {"name": "own"}, **data})
    mounts = ("configmap://own:/etc/settings", "secret://own:/etc/login:ro")
    command = "cat /etc/settings/a.txt /etc/login/key; ! touch /etc/login/new"
    job = client.submit(job_with(*mounts, command=command), "kubernetes").job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert client.get_job_logs(job.id).splitlines()[:2] == ["plain", "hidden"]


# The examples

EXAMPLES = ROOT / "examples"
CLAIM = EXAMPLES / "claim" / "claim.yaml"
RESULTS = "pvc://tao-runs/digits:/results"


def test_the_digits_example_trains_on_a_claim_and_its_best_checkpoint_is_fetched(
    client: Client,
    cluster: Cluster,
    namespace: str,
    surroundings: dict[str, str],
    tmp_path: Path,
) -> None:
    np = pytest.importorskip("numpy")
    manifest = yaml.safe_load(CLAIM.read_text())
    volume = tmp_path / "volume"
    volume.mkdir()
    make_claim(cluster, namespace, manifest["metadata"]["name"], volume, **manifest["spec"])
    job_file = str(EXAMPLES / "digits" / "job.yaml")
    flags = ("--platform", "kubernetes", "--image", IMAGE, "--set", "train.seconds_per_epoch=0")
    ran = run_tao_here(surroundings, tmp_path, "run", job_file, *flags, "--mounts", RESULTS)
    assert ran.code == 0, ran
    [job] = client.list_jobs()
    assert job.status is Status.COMPLETE
    assert client.get_job_results_dir(job.id) == f"pvc://tao-runs/digits/{job.id}"
    fetch = ("--epoch", "best", "--fetch", str(tmp_path / "here"))
    fetched = run_tao_here(surroundings, tmp_path, "results", "digits", *fetch)
    assert fetched.code == 0, fetched
    [checkpoint] = (tmp_path / "here").rglob("*.npz")
    best = client.results(job.id).progress.best
    assert best is not None
    with np.load(checkpoint) as weights:
        assert int(weights["epoch"]) == best.epoch
    assert checkpoint.read_bytes() == next(volume.rglob(checkpoint.name)).read_bytes()
    best_path = run_tao_here(surroundings, tmp_path, "results", "digits", "--epoch", "best").out
    assert best_path.startswith("pvc://")
    on_claim = f"model.npz={best_path.strip()}"
    flags = ("--platform", "kubernetes", "--image", IMAGE, "--gpus", "0", "--inputs", on_claim)
    read = run_tao_here(surroundings, tmp_path, "run", *flags, "--", "sha256sum < model.npz")
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    assert (read.code, digest in read.out) == (0, True), read
    shown = run_tao_here(surroundings, tmp_path, "files", best_path.strip())
    assert checkpoint.name in shown.out, shown
    cluster.api.delete(f"/api/v1/persistentvolumes/{namespace}-tao-runs")


def test_the_example_on_a_claim_is_the_digits_example_with_that_mount() -> None:
    text = (EXAMPLES / "claim" / "job.yaml").read_text().replace("../digits/", "")
    on_claim = yaml.safe_load(text)
    digits = yaml.safe_load((EXAMPLES / "digits" / "job.yaml").read_text())
    assert on_claim == {**digits, "name": "digits-claim", "mounts": [RESULTS]}


def test_the_cluster_takes_the_claim_of_the_example(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", str(CLAIM))


# What a reader prints


def test_a_listing_that_was_cut_or_names_other_places_is_not_believed() -> None:
    good = b"tao-begin /c/runs\n41ed 0 5 /c/runs\n81a4 7 6 /c/runs/a b\na1ff 1 1 /c/runs/link\ntao-end\n"
    found = read_listing(good, "pvc://data/runs")
    assert [(each.path, each.is_dir, each.size, each.mtime) for each in found.values()] == [
        ("pvc://data/runs", True, 0, 5.0),
        ("pvc://data/runs/a b", False, 7, 6.0),
    ]
    with pytest.raises(Unreachable):
        read_listing(good.removesuffix(b"tao-end\n"), "pvc://data/runs")
    with pytest.raises(PathNotFound):
        read_listing(b"tao-missing\n", "pvc://data/runs")
    elsewhere = b"tao-begin /c/runs\n81a4 7 6 /etc/passwd\nnonsense\ntao-end\n"
    assert read_listing(elsewhere, "pvc://data/runs") == {}


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_a_file_that_comes_in_pieces_is_whole_or_an_error(block: int) -> None:
    printed = b"tao-begin\naGVsbG8gd29ybGQ=\ntao-end\n"
    pieces = [printed[start : start + block] for start in range(0, len(printed), block)]
    whole = OpenFile("pvc://data/a", 0, iter(pieces))
    assert [whole.read(5), whole.read(100), whole.read(100)] == [b"hello", b" world", b""]
    cut = OpenFile("pvc://data/a", 0, iter([printed[:-4]]))
    with pytest.raises(TaoError, match="broke off"):
        cut.read(None)


def test_the_settings_of_another_namespace_find_the_claim_of_the_job(
    client: Client, surroundings: dict[str, str], claim: Path
) -> None:
    job = filled(client)
    with Client(settings=Settings({**surroundings, "TAO_K8S_NAMESPACE": "default"})) as other:
        assert other.results(job.id).files
    assert claim.exists()


def input_findings(client: Client, path: str) -> dict[str, Finding]:
    spec = job_with("pvc://data/runs:/results", inputs={"train": path})
    found = job_findings(client, JobRequest(spec, "kubernetes", {}, None))
    return {each.code: each for each in found if each.code.startswith("dataset.")}


def test_an_input_on_a_claim_is_looked_at_before_a_launch_and_one_elsewhere_is_not_passed(
    client: Client, claim: Path
) -> None:
    unknown = input_findings(client, "/results/train.json")["dataset.not_seen"]
    assert (unknown.severity, "no image is known" in unknown.evidence) == (Severity.ERROR, True)
    filled(client)
    assert "dataset.missing" in input_findings(client, "/results/train.json")
    (claim / "runs/train.json").write_text('[{"image": "1.png"}, {"image": "2.png"}]')
    seen = input_findings(client, "/results/train.json")["dataset.records"]
    assert seen.what == "train: pvc://data/runs/train.json records=2"
    unmounted = input_findings(client, "/elsewhere/train.json")["dataset.not_seen"]
    assert (unmounted.severity, unmounted.evidence) == (Severity.ERROR, UNSEEN_PATH)
