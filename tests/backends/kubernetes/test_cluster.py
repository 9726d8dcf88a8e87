"""The tests' own cluster: what the other tests take for granted of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from support.kubernetes import kube_here, programs
from support.kubernetes.kube_files import PYTHON
from support.kubernetes.kube_here import Cluster, namespaced
from support.kubernetes.kube_jobs import end, job, printed, start


def test_a_job_that_runs_true_is_complete_and_one_that_exits_3_has_failed(
    cluster: Cluster, namespace: str
) -> None:
    good = start(cluster, namespace, job("good", "true"))
    bad = start(cluster, namespace, job("bad", "sh", "-c", "echo no; exit 3"))
    assert end(cluster, good) == "Complete"
    assert end(cluster, bad) == "Failed"
    assert printed(cluster, namespace, "bad") == "no\n"


def test_a_container_gets_the_gpus_that_it_asks_for(cluster: Cluster, namespace: str) -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    manifest = job("gpus", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES", main=limits)
    assert end(cluster, start(cluster, namespace, manifest)) == "Complete"
    assert printed(cluster, namespace, "gpus").count("GPU-") == 2


def test_the_pods_of_an_indexed_job_find_each_other_by_name(
    cluster: Cluster, namespace: str
) -> None:
    """Each pod sends the other what it has, over the names that a headless Service gives."""
    service = {"clusterIP": "None", "selector": {"job-name": "two"}}
    service["publishNotReadyAddresses"] = True
    services = f"{namespaced(namespace)}/services"
    cluster.api.create(services, {"metadata": {"name": "two"}, "spec": service})
    script = """\
echo $JOB_COMPLETION_INDEX | nc -l -p 7777 > /tmp/got &
until [ -n "$said" ]; do said=$(nc -w 60 two-$((1 - JOB_COMPLETION_INDEX)).two 7777 2>/dev/null); sleep 0.2; done
echo $JOB_COMPLETION_INDEX heard $said
wait
"""
    manifest = job("two", "sh", "-c", script, subdomain="two")
    manifest["spec"].update(completionMode="Indexed", completions=2, parallelism=2)
    assert end(cluster, start(cluster, namespace, manifest)) == "Complete"
    heard = printed(cluster, namespace, "two").splitlines()
    assert sorted(heard) == ["0 heard 1", "1 heard 0"]


def test_a_doubled_dollar_arrives_as_one_and_a_variable_is_expanded(
    cluster: Cluster, namespace: str
) -> None:
    """The kubelet expands $(NAME) and $$ before the program starts, in bash's own syntax too."""
    environment = {"env": [{"name": "WORD", "value": "expanded"}]}
    manifest = job("dollars", "echo", "$(WORD) $$(WORD) $$$$ $HOME", main=environment)
    assert end(cluster, start(cluster, namespace, manifest)) == "Complete"
    assert printed(cluster, namespace, "dollars") == "expanded $(WORD) $$ $HOME\n"


def test_python_and_numpy_run_in_one_image_and_the_other_has_neither_bash_nor_python3(
    cluster: Cluster, namespace: str
) -> None:
    cluster.has_python_image()
    with_python = job("python", "/bin/bash", "-c", "python3 -c 'import numpy'", image=PYTHON)
    without = job("busybox", "sh", "-c", "command -v bash python3 || echo neither")
    paths = [start(cluster, namespace, manifest) for manifest in (with_python, without)]
    assert [end(cluster, path) for path in paths] == ["Complete", "Complete"]
    assert printed(cluster, namespace, "busybox") == "neither\n"


def test_the_server_says_the_release_that_was_built(cluster: Cluster, kubeconfig: Path) -> None:
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    argv = [programs.programs() / "kubectl", "version", "-o", "json"]
    said = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
    assert json.loads(said.stdout)["serverVersion"]["gitVersion"] == f"v{programs.release()}"


def test_two_clusters_run_beside_each_other_and_nothing_stays_of_the_second(
    cluster: Cluster, namespace: str
) -> None:
    settings = "vm/overcommit_memory kernel/panic kernel/panic_on_oops net/ipv4/ip_forward".split()
    before = [Path("/proc/sys", name).read_text() for name in settings]
    with kube_here.shaped(kube_here.Shape()) as second:
        there = second.make_namespace()
        assert end(second, start(second, there, job("second", "true"))) == "Complete"
        assert end(cluster, start(cluster, namespace, job("first", "true"))) == "Complete"
        machine = second.first_process
    assert not Path(f"/proc/{machine}").exists()
    assert not second.folder.exists()
    assert not [group for group in second.control_groups() if group.exists()]
    assert not Path("/sys/class/net", second.place.link).exists()
    assert before == [Path("/proc/sys", name).read_text() for name in settings]
