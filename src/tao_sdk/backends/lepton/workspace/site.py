"""The workspace of the settings: its id, its address and the token for it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from tao_sdk.model.errors import CredentialError, UsageError
from tao_sdk.model.settings import Settings
from tao_sdk.transports.rest import RestServer

WORKSPACE, TOKEN, URL = "LEPTON_WORKSPACE_ID", "LEPTON_AUTH_TOKEN", "LEPTON_WORKSPACE_URL"
GATEWAY = "https://gateway.dgxc-lepton.nvidia.com/api/v2/workspaces/{id}"
PING = "/workspace"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
CHECK_WORKSPACE = f"Check {WORKSPACE}, and your rights in it: tao doctor lepton"
TOKEN_PAGE = "Make a token in the workspace's settings, and export it."


def workspace_id(settings: Settings) -> str:
    """The id of the workspace. Raises CredentialError if it is not set."""
    found = settings.get(WORKSPACE)
    if not found:
        raise CredentialError(
            f"{WORKSPACE} is not set.",
            "Jobs run in a workspace of DGX Cloud Lepton.",
            f"Export {WORKSPACE} and {TOKEN}, or write them to ~/.config/tao/.env.",
        )
    return found


def server(settings: Settings) -> RestServer:
    """The workspace's API. Raises CredentialError for a missing setting, UsageError for an address
    to which no token may go.
    """
    name = workspace_id(settings)
    token = (settings.get(TOKEN) or "").strip()
    if not token:
        raise CredentialError(f"{TOKEN} is not set.", "", TOKEN_PAGE)
    refuse_odd_token(token)
    url = (settings.get(URL) or GATEWAY.format(id=quote(name, safe=""))).rstrip("/")
    refuse_open_address(url)
    return RestServer(url, f"The workspace {name}", PING, token)


def refuse_odd_token(token: str) -> None:
    """Raise CredentialError for a token that cannot stand in a header. Its text is not shown."""
    if all("!" <= character <= "~" for character in token):
        return
    raise CredentialError(
        f"{TOKEN} is no token: it has blanks or characters that no token has.",
        "It was not copied as it is.",
        TOKEN_PAGE,
    )


def refuse_open_address(url: str) -> None:
    """Raise UsageError for an address that would show the token to the network."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return
    raise UsageError(
        f"{URL} is {url!r}.", "The token goes there, so it must begin with https://.", "Correct it."
    )


def refused_token(words: str) -> CredentialError:
    return CredentialError(
        f"The workspace does not take {TOKEN}.",
        words,
        f"A token lives for one day unless it was made for longer. {TOKEN_PAGE}",
    )


def way(settings: Settings) -> Mapping[str, str]:
    """The settings that lead to this workspace. None of them is a secret."""
    given = {WORKSPACE: settings.get(WORKSPACE) or "", URL: settings.get(URL) or ""}
    return {name: value for name, value in given.items() if value}
