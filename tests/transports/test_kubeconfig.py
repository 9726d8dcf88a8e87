"""Which cluster a kubeconfig names, and what is said where it names none."""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.model.errors import CredentialError, UsageError
from tao_sdk.transports import kube_login
from tao_sdk.transports.kube_login import KubeLogin
from tao_sdk.transports.kubeconfig import Cluster, Login, find_cluster

CA = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def config(name: str, server: str = "https://one:6443", **user: Any) -> dict[str, Any]:
    data = base64.b64encode(CA).decode()
    return {
        "current-context": name,
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority-data": data}}
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": user}],
    }


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_of_several_files_the_first_counts_and_all_contexts_are_known(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a", config("a")),
        written(tmp_path / "b", config("b", "https://two")),
        tmp_path / "missing",
    ]
    assert find_cluster(files, "", "", "").context == "a"
    assert find_cluster(files, "b", "", "").server == "https://two"


def test_a_cluster_is_known_by_its_ca_whatever_its_address(tmp_path: Path) -> None:
    one = find_cluster([written(tmp_path / "a", config("a"))], "", "", "")
    two = find_cluster([written(tmp_path / "b", config("b", "https://other"))], "", "", "")
    assert one.identity == two.identity
    assert Cluster("https://x/", Login()).identity == "https://x"


def test_an_unknown_context_lists_those_there_are(tmp_path: Path) -> None:
    file = written(tmp_path / "a", config("a"))
    with pytest.raises(UsageError, match="'prod'.*has: a"):
        find_cluster([file], "prod", "", "")


def test_no_kubeconfig_names_each_place_and_why(tmp_path: Path) -> None:
    with pytest.raises(CredentialError) as told:
        find_cluster([tmp_path / "config"], "", "", "", tmp_path)
    assert told.value.what == "Could not authenticate to a Kubernetes cluster."
    assert f"{tmp_path}/config is not there" in told.value.why
    assert "not in a pod" in told.value.why


@pytest.mark.parametrize("text", ["{", "[]", "clusters: 3", "", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_told_as_that(tmp_path: Path, text: str) -> None:
    with pytest.raises(CredentialError, match="Could not authenticate"):
        find_cluster([written(tmp_path / "config", text)], "", "", "")


def test_in_a_pod_its_service_account_logs_in_and_its_token_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "token", "first")
    written(tmp_path / "ca.crt", CA.decode())
    found = find_cluster([tmp_path / "config"], "", "10.0.0.1", "443", tmp_path)
    login = KubeLogin(found, {})
    assert (found.server, login.credential().header) == ("https://10.0.0.1:443", "Bearer first")
    written(tmp_path / "token", "second")
    assert login.credential().header == "Bearer first"
    login.forget()  # the cluster has refused it
    assert login.credential().header == "Bearer second"
    assert login.credential().until <= time.time() + 60
    monkeypatch.setattr(kube_login, "FRESH_SECONDS", 0.0)
    login.forget()
    login.credential()
    written(tmp_path / "token", "third")
    assert login.credential().header == "Bearer third"


def test_a_kubeconfig_without_a_current_context_leaves_the_choice_to_the_pod(
    tmp_path: Path,
) -> None:
    unset = {**config("a"), "current-context": ""}
    file = written(tmp_path / "config", unset)
    with pytest.raises(CredentialError) as told:
        find_cluster([file], "", "", "", tmp_path)
    assert f"{file} has no current context (its contexts are: a)" in told.value.why
    assert "not in a pod" in told.value.why
    written(tmp_path / "token", "of-the-pod")
    assert find_cluster([file], "", "10.0.0.1", "443", tmp_path).server == "https://10.0.0.1:443"


def plugin(tmp_path: Path, text: str) -> KubeLogin:
    script = written(tmp_path / "plugin.py", text)
    given = {"command": sys.executable, "args": [str(script)], "apiVersion": "v1"}
    file = written(tmp_path / "config", config("a", exec=given))
    return KubeLogin(find_cluster([file], "", "", ""), {"PATH": ""})


def test_an_exec_plugin_gives_the_token(tmp_path: Path) -> None:
    answer = {"status": {"token": "from-plugin"}}
    login = plugin(tmp_path, f"print('''{json.dumps(answer)}''')")
    assert login.credential().header == "Bearer from-plugin"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys; sys.exit('log in first')", "exit code 1: log in first"),
        ("print('no json')", "gave no ExecCredential"),
        ("print('{\"status\": {}}')", "neither a token nor a certificate"),
    ],
)
def test_an_exec_plugin_that_fails_is_told_in_its_words(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(CredentialError, match=words):
        plugin(tmp_path, text).credential()
