"""Kube login: the credentials that a request carries for the cluster.

Here: tokens, token files, exec plugins; the `kubernetes` package is loaded for an auth-provider
alone. Not here: what the kubeconfig says (kubeconfig.py).
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from tao_sdk.model.errors import CredentialError, MissingExtra, install_command
from tao_sdk.transports.kubeconfig import LARGEST, Cluster, no_login, read_bounded

FRESH_SECONDS = 60.0  # a token file is read again after so long
MARGIN_SECONDS = 60.0  # before its end a plugin's token is renewed
PLUGIN_SECONDS = 60.0
WORDS = 500  # characters of a plugin's words that are shown


@dataclass(frozen=True)
class Credential:
    """A header's value, or a client certificate, and the time until which it is good."""

    header: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    until: float = float("inf")  # time.time() at which it is renewed


class KubeLogin:
    """The login for requests to a cluster. Safe to use from several threads."""

    def __init__(self, cluster: Cluster, environ: Mapping[str, str]) -> None:
        self.cluster, self.login, self.environ = cluster, cluster.login, environ
        self._lock = threading.Lock()
        self._last: Credential | None = None

    def credential(self) -> Credential:
        """The credential of the next request. Raises CredentialError."""
        with self._lock:
            if self._last is None or time.time() >= self._last.until:
                self._last = self._renewed()
            return self._last

    def forget(self) -> None:
        """Ask anew at the next request: the cluster refused the last login."""
        with self._lock:
            self._last = None

    @property
    def can_renew(self) -> bool:
        """True if asking again may give another login: a plugin, a provider or a token file."""
        return bool(self.login.token_file or self.login.exec or self.login.provider)

    def _renewed(self) -> Credential:
        login = self.login
        if login.exec is not None:
            return run_plugin(self.cluster, login.exec, self.environ)
        if login.provider:
            return ask_provider(self.cluster)
        if login.token_file:
            token = read_bounded(Path(login.token_file)).decode("utf-8", "replace").strip()
            return self._with_certificate(bearer(token), time.time() + FRESH_SECONDS)
        if login.token:
            return self._with_certificate(bearer(login.token))
        if login.user:
            pair = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
            return self._with_certificate(f"Basic {pair}")
        return self._with_certificate("")

    def _with_certificate(self, header: str, until: float = float("inf")) -> Credential:
        return Credential(header, self.login.certificate, self.login.key, until)


def bearer(token: str) -> str:
    """The header's value for a token."""
    if not token or any(character.isspace() for character in token):
        raise no_login(["the token is empty, or no token"])
    return f"Bearer {token}"


def ask_provider(cluster: Cluster) -> Credential:
    """The login of an auth-provider (OIDC): the official package renews its token."""
    try:
        client: Any = import_module("kubernetes.client")
        config: Any = import_module("kubernetes.config")
    except ImportError as error:
        raise MissingExtra(
            f"The context {cluster.context} logs in by an auth-provider.",
            "The extra `kubernetes` is not installed.",
            "Run:",
            install_command("kubernetes"),
        ) from error
    settings: Any = client.Configuration()
    try:
        files = os.pathsep.join(cluster.files)
        config.load_kube_config(files, cluster.context, settings, persist_config=False)
        found: Any = settings.auth_settings().get("BearerToken") or {}
    except Exception as error:
        raise no_login(
            [f"the auth-provider of {cluster.context}: {type(error).__name__}"]
        ) from error
    header = str(found.get("value") or "")
    if not header:
        raise no_login([f"the auth-provider of {cluster.context} gave no token"])
    return Credential(header, until=time.time() + FRESH_SECONDS)


def run_plugin(
    cluster: Cluster, plugin: Mapping[str, Any], environ: Mapping[str, str]
) -> Credential:
    """The login that an exec plugin gives. Raises CredentialError with its words."""
    command = str(plugin.get("command") or "")
    words = [with_folder(command, cluster.login.folder), *map(str, plugin.get("args") or ())]
    shown = f"the exec plugin {command}"
    try:
        ran = subprocess.run(
            words,
            env=plugin_environment(cluster, plugin, environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PLUGIN_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        hint = str(plugin.get("installHint") or "")[:WORDS]
        raise no_login([f"{shown} is not installed{f' ({hint})' if hint else ''}"]) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise no_login([f"{shown}: {type(error).__name__}"]) from error
    if ran.returncode:
        said = ran.stderr[-WORDS:].decode("utf-8", "replace").strip()
        raise no_login([f"{shown} failed with exit code {ran.returncode}: {said}"])
    return credential_of(ran.stdout, shown)


def with_folder(command: str, folder: str) -> str:
    """A command whose relative path begins at the kubeconfig's folder. A bare name is looked up in
    PATH.
    """
    if "/" not in command or command.startswith("/"):
        return command
    return str(Path(folder) / command)


def plugin_environment(
    cluster: Cluster, plugin: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, str]:
    """The variables of an exec plugin: the caller's, its own, and those about the cluster."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {
            "server": cluster.server,
            "certificate-authority-data": base64.b64encode(cluster.authority).decode(),
        }
    version = plugin.get("apiVersion") or "client.authentication.k8s.io/v1"
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    given: list[Mapping[str, Any]] = plugin.get("env") or []
    extra = {str(one.get("name")): str(one.get("value", "")) for one in given}
    return {**environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def credential_of(answer: bytes, shown: str) -> Credential:
    """The login in a plugin's answer. Raises CredentialError, which names the plugin by `shown`."""
    if len(answer) > LARGEST:
        raise no_login([f"{shown} said more than {LARGEST} bytes"])
    try:
        status: Any = json.loads(answer)["status"]
        given = cast("Mapping[str, Any]", status)
        token = str(given.get("token") or "")
        certificate = str(given.get("clientCertificateData") or "").encode()
        key = str(given.get("clientKeyData") or "").encode()
        until = expiry(given.get("expirationTimestamp"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise no_login([f"{shown} gave no ExecCredential"]) from error
    if not token and not certificate:
        raise no_login([f"{shown} gave neither a token nor a certificate"])
    return Credential(bearer(token) if token else "", certificate, key, until)


def expiry(text: Any) -> float:
    """The unix time at which a login has to be renewed; infinity if there is no date."""
    if not text:
        return float("inf")
    return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() - MARGIN_SECONDS


def refused_login(cluster: Cluster, words: str) -> CredentialError:
    """The error for a login that the cluster refused, or that cannot be used."""
    where = (
        f"context {cluster.context} of {', '.join(cluster.files)}"
        if cluster.context
        else "the pod's token"
    )
    return no_login([f"{cluster.server} refused {where}: {words or 'Unauthorized'}"])
