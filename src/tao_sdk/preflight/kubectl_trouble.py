"""What kubectl says of a cluster that it cannot ask, as a finding that says what helps."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tao_sdk.model.finding import Finding, error

NO_LOGIN = "Could not authenticate to a Kubernetes cluster."
LIST_CONTEXTS = "kubectl config get-contexts"
SHOW_LOGIN = "kubectl config view --minify"


@dataclass(frozen=True)
class Target:
    """The cluster that kubectl asks. Empty: not known."""

    context: str = ""
    server: str = ""

    @property
    def server_name(self) -> str:
        return f"API server {self.server}" if self.server else "API server"

    @property
    def context_name(self) -> str:
        return f"the context {self.context}" if self.context else "the current context"

    def show_login(self) -> str:
        """The command that prints the address and the user, without secrets."""
        chosen = f" --context={shlex.quote(self.context)}" if self.context else ""
        return f"{SHOW_LOGIN}{chosen}"


@dataclass(frozen=True)
class Trouble:
    """One kind of trouble: a pattern of kubectl's words, and the finding for it."""

    words: str
    code: str
    what: str
    next: str
    command: str = "{show_login}"


# The first one that matches counts.
TROUBLES = (
    Trouble(
        r"^kubectl is not installed",
        "kubernetes.no_kubectl",
        "The cluster was not looked at: kubectl is not installed.",
        "Install kubectl. Where the package is installed, run:",
        "tao doctor kubernetes",
    ),
    Trouble(
        r"context .*does not exist|context was not found",
        "kubernetes.no_context",
        "Your kubeconfig has no such context: {context}.",
        "Set TAO_K8S_CONTEXT to one of those it has:",
        LIST_CONTEXTS,
    ),
    Trouble(
        r"localhost:8080|current-context is not set|no configuration has been provided",
        "kubernetes.no_login",
        f"{NO_LOGIN} No kubeconfig chooses one.",
        "Set KUBECONFIG to the file that the cluster's owner gave you, or choose a context:",
        LIST_CONTEXTS,
    ),
    Trouble(
        r"Unauthorized|must be logged in|provide credentials|credential|Username|token .*expired",
        "kubernetes.login",
        f"{NO_LOGIN} The {{server_name}} does not take the login of {{context_name}}.",
        "Log in anew, as the cluster's provider says. The login in use:",
    ),
    Trouble(
        r"x509|certificate|tls: ",
        "kubernetes.certificate",
        "The {server_name} shows a certificate that {context_name} does not trust.",
        "Fetch a new kubeconfig if the cluster was made anew. If a proxy opens the connection, "
        "add the server to NO_PROXY. The address in use:",
    ),
    Trouble(
        r"no such host|server misbehaving|name resolution",
        "kubernetes.unreachable",
        "The name of the {server_name} is not known on this machine.",
        "Connect to the cluster's network (VPN), or correct the server of {context_name}:",
    ),
    Trouble(
        r"refused|time ?out|timed out|deadline exceeded|no route|unreachable|reset|EOF"
        r"|did not answer|Unable to connect|proxyconnect",
        "kubernetes.unreachable",
        "The {server_name} does not answer.",
        "Connect to the cluster's network (VPN), and check HTTPS_PROXY and NO_PROXY. "
        "If {context_name} is not the right one, set TAO_K8S_CONTEXT to another:",
        LIST_CONTEXTS,
    ),
    Trouble(
        r"",
        "kubernetes.unreachable",
        f"{NO_LOGIN}",
        "See which cluster and which user {context_name} names:",
    ),
)


def trouble_finding(words: str, target: Target) -> Finding:
    """The error for kubectl's words about a cluster that it could not ask."""
    found = next(each for each in TROUBLES if re.search(each.words, words))
    values = {
        "context": target.context or "the current one",
        "server_name": target.server_name,
        "context_name": target.context_name,
        "show_login": target.show_login(),
    }
    what, advice, command = (
        text.format(**values) for text in (found.what, found.next, found.command)
    )
    return error(found.code, what, words, advice, command)
