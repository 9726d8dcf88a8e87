"""Kubeconfig: the cluster that a context names, and its user's login, as kubectl reads it.

Here: the files and the service account of a pod. Not here: the environment that names them (the
backend's settings), and the log-in itself (kube_login.py).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tao_sdk.model.errors import CredentialError, UsageError

LARGEST = 4 * 1024 * 1024  # bytes of a kubeconfig, a certificate or a token
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NO_LOGIN = "Could not authenticate to a Kubernetes cluster."
LISTS = ("clusters", "contexts", "users")
PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True)
class Login:
    """The login of a user: the first of these fields that is set is used."""

    certificate: bytes = b""  # PEM, with its key
    key: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    exec: Mapping[str, Any] | None = field(default=None, repr=False)
    provider: str = ""  # the name of an auth-provider, which the `kubernetes` package knows
    folder: str = ""  # the kubeconfig's folder: relative commands start there


@dataclass(frozen=True)
class Cluster:
    """One cluster, and how to reach it."""

    server: str
    login: Login
    authority: bytes = b""  # PEM of the CA; empty: what this machine trusts
    verify: bool = True
    server_name: str = ""  # in the certificate; "": the server's own
    proxy: str = ""
    context: str = ""  # "" in a pod
    files: tuple[str, ...] = ()  # the kubeconfigs that were read

    @property
    def identity(self) -> str:
        """An identity that stays the same under another address: the CA's hash. Without a CA, the
        address.
        """
        match = PEM.search(self.authority) if self.verify else None
        if match is None:
            return self.server.rstrip("/")
        certificate = b"".join(match[1].split())
        return f"cluster-{hashlib.sha256(certificate).hexdigest()[:12]}"


def find_cluster(
    files: Sequence[Path], context: str, host: str, port: str, account: Path = SERVICE_ACCOUNT
) -> Cluster:
    """The cluster of the kubeconfigs, else that of the pod in which this runs.

    `host` and `port` are the cluster's address in a pod's environment. Raises CredentialError that
    names each place and why it has no login; UsageError for an unknown context.
    """
    there = [path for path in files if path.is_file()]
    config = merged(there)
    chosen = context or str(config.get("current-context") or "")
    if chosen:
        return cluster_of(config, chosen, there or files)
    if host and (account / "token").is_file():
        return own_cluster(host, port, account)
    reasons = [*map(why_no_context, files), why_not_in_pod(host, account)]
    if there:
        raise no_context(reasons, config["contexts"])
    raise no_login(reasons)


def no_context(reasons: Iterable[str], known: Iterable[str]) -> CredentialError:
    """The error for kubeconfigs that choose none of their contexts."""
    name = next(iter(known), "CONTEXT")
    choose = shlex.join(["kubectl", "config", "use-context", name])
    error = CredentialError(NO_LOGIN, f"{'; '.join(reasons)}.", "Choose a context:", choose)
    error.code = "kubernetes.no_context"
    return error


def bad_config(why: str) -> CredentialError:
    """The error for a kubeconfig that is there and cannot be used."""
    error = CredentialError(
        NO_LOGIN, f"{why}.", "Mend that file. To see what is wrong with it:", "kubectl config view"
    )
    error.code = "kubernetes.bad_config"
    return error


def no_login(reasons: Iterable[str]) -> CredentialError:
    """The error for a cluster without a login, with a reason for each place."""
    error = CredentialError(
        NO_LOGIN,
        f"{'; '.join(reasons)}.",
        "Set KUBECONFIG to a kubeconfig that the cluster's owner gave you, or make one, as with "
        "`aws eks update-kubeconfig --name CLUSTER`.",
    )
    error.code = "kubernetes.no_login"
    return error


def why_no_context(path: Path) -> str:
    """The reason why a kubeconfig chooses no cluster, in words."""
    if not path.is_file():
        return f"{path} is not there"
    known = ", ".join(str(entry["name"]) for entry in entries(read_config(path), "contexts", path))
    return f"{path} has no current context (its contexts are: {known or 'none'})"


def why_not_in_pod(host: str, account: Path) -> str:
    """The reason why there is no login of a pod, in words."""
    if not host:
        return f"not in a pod (no KUBERNETES_SERVICE_HOST, {account})"
    return f"no token at {account}/token"


def own_cluster(host: str, port: str, account: Path) -> Cluster:
    """The cluster of the pod in which this runs."""
    name = f"[{host}]" if ":" in host else host
    authority = account / "ca.crt"
    return Cluster(
        server=f"https://{name}:{port or 443}",
        authority=read_bounded(authority) if authority.is_file() else b"",
        login=Login(token_file=str(account / "token")),
    )


def merged(files: Sequence[Path]) -> dict[str, Any]:
    """The files as one. If two entries have one name, the first counts."""
    whole: dict[str, Any] = {name: {} for name in LISTS}
    for path in files:
        config = read_config(path)
        whole.setdefault("current-context", config.get("current-context") or None)
        if not whole["current-context"]:
            del whole["current-context"]
        for name in LISTS:
            for entry in entries(config, name, path):
                whole[name].setdefault(str(entry["name"]), {**entry, "file": path})
    return whole


def read_config(path: Path) -> Mapping[str, Any]:
    """The mapping in a kubeconfig. Raises CredentialError."""
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        config: Any = yaml.load(read_bounded(path), loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise bad_config(f"{path} cannot be understood ({first})") from error
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise bad_config(f"{path} is no kubeconfig")
    return cast("Mapping[str, Any]", config)


def entries(config: Mapping[str, Any], name: str, path: Path) -> list[Mapping[str, Any]]:
    """The entries with a name in one of the config's lists. Raises CredentialError if it is no
    list.
    """
    listed: Any = config.get(name) or []
    if not isinstance(listed, list):
        raise bad_config(f"{path} is no kubeconfig: {name} is no list")
    found: list[Mapping[str, Any]] = []
    for one in cast("list[Any]", listed):
        if isinstance(one, Mapping) and "name" in one:
            found.append(cast("Mapping[str, Any]", one))
    return found


def read_bounded(path: Path) -> bytes:
    """The file's bytes. Raises CredentialError for a file that cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise no_login([f"{path} cannot be read ({error.strerror})"]) from error
    if len(data) > LARGEST:
        raise no_login([f"{path} is larger than {LARGEST} bytes"])
    return data


def cluster_of(config: Mapping[str, Any], context: str, files: Sequence[Path]) -> Cluster:
    """The cluster of the context. Raises CredentialError, UsageError for an unknown context."""
    contexts: Mapping[str, Mapping[str, Any]] = config["contexts"]
    if context not in contexts:
        raise unknown_context(context, list(contexts), files)
    named = part_of(contexts[context], "context")
    cluster = entry_of(config, "clusters", named.get("cluster"), context)
    user = config["users"].get(str(named.get("user") or ""), {})
    at = part_of(cluster, "cluster")
    server = str(at.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise bad_config(f"{cluster['file']}: cluster {cluster['name']} has no server")
    return Cluster(
        server=server,
        login=login_of(part_of(user, "user"), Path(user.get("file", "."))) if user else Login(),
        authority=data_of(at, "certificate-authority", cluster["file"]),
        verify=not at.get("insecure-skip-tls-verify"),
        server_name=str(at.get("tls-server-name") or ""),
        proxy=str(at.get("proxy-url") or ""),
        context=context,
        files=tuple(map(str, files)),
    )


def part_of(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A mapping inside an entry; an empty one in the place of anything else."""
    part: Any = entry.get(name) or {}
    if not isinstance(part, Mapping):
        return {}
    return cast("Mapping[str, Any]", part)


def entry_of(config: Mapping[str, Any], kind: str, name: Any, context: str) -> Mapping[str, Any]:
    """The entry that a context names. Raises CredentialError if there is none."""
    if str(name) not in config[kind]:
        raise bad_config(f"context {context} names {name!r}, which is not among the {kind}")
    return config[kind][str(name)]


def unknown_context(context: str, known: Sequence[str], files: Sequence[Path]) -> UsageError:
    """The error for an unknown context. It lists the known ones."""
    error = UsageError(
        f"There is no context {context!r}.",
        f"{', '.join(map(str, files))} has: {', '.join(known) or 'none'}.",
        "Name one of them: --context NAME, or TAO_K8S_CONTEXT.",
    )
    error.code = "kubernetes.no_context"
    return error


def data_of(entry: Mapping[str, Any], name: str, file: Path) -> bytes:
    """The data that `NAME-data` holds in base64, else the contents of the file that NAME leads
    to.
    """
    if given := entry.get(f"{name}-data"):
        try:
            return base64.b64decode(str(given), validate=True)
        except (binascii.Error, ValueError) as error:
            raise bad_config(f"{file}: {name}-data is no base64") from error
    if path := entry.get(name):
        return read_bounded(beside(file, str(path)))
    return b""


def beside(file: Path, path: str) -> Path:
    """A path that a kubeconfig names: a relative one begins at the file's folder."""
    return Path(posixpath.join(str(file.parent), path))


def login_of(user: Mapping[str, Any], file: Path) -> Login:
    """The login of a user of the config. `file` is the config that has the user."""
    token_file, plugin, provider = (
        user.get("tokenFile"),
        user.get("exec"),
        user.get("auth-provider"),
    )
    return Login(
        certificate=data_of(user, "client-certificate", file),
        key=data_of(user, "client-key", file),
        token=str(user.get("token") or ""),
        token_file=str(beside(file, str(token_file))) if token_file else "",
        user=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        exec=cast("Mapping[str, Any]", plugin) if isinstance(plugin, Mapping) else None,
        provider=str(part_of(user, "auth-provider").get("name") or "") if provider else "",
        folder=str(file.parent),
    )
