"""Registry logins: the login that `docker login` has kept for a registry, and NGC_KEY for nvcr.io,
with nothing installed. It never raises: without a login the registry itself says what it wants.

Not here: the same for a pull by a daemon (backends/registry_login.py), which docker-py reads.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tao_sdk.backends.image_name import HUB, HUB_IN_CONFIG, HUB_INDEX, HUB_NAME, NGC
from tao_sdk.net.json_answer import as_record

NGC_USER = "$oauthtoken"
NGC_LOGIN = ("NGC_KEY", "DOCKER_USERNAME")  # variables of the login for nvcr.io: password, user
HUB_NAMES = (HUB_IN_CONFIG, HUB_INDEX, HUB_NAME)  # in the config of docker
HELPER = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
HELPER_SECONDS = 5.0
LARGEST_CONFIG = 1_000_000  # bytes
IDENTITY_TOKEN = "<token>"


class Login(NamedTuple):
    user: str
    password: str

    @property
    def basic(self) -> str:
        """The text that HTTP's Basic scheme sends."""
        return base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def find_login(registry: str, environ: Mapping[str, str]) -> Login | None:
    """The login for a registry. `registry` is HUB, or a host with its port."""
    key, user = (environ.get(name, "") for name in NGC_LOGIN)
    if registry == NGC and key:
        return Login(user or NGC_USER, key)
    config = read_config(environ)
    names = HUB_NAMES if registry == HUB else (registry, f"https://{registry}")
    logins = (login for name in names for login in logins_for(name, config, environ))
    return next(logins, None)


def read_config(environ: Mapping[str, str]) -> dict[str, Any]:
    folder = environ.get("DOCKER_CONFIG") or f"{environ.get('HOME', '')}/.docker"
    try:
        with (Path(folder) / "config.json").open("rb") as file:
            return as_record(json.loads(file.read(LARGEST_CONFIG)))
    except (OSError, ValueError, RecursionError):
        return {}


def logins_for(name: str, config: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Login]:
    helper = as_record(config.get("credHelpers")).get(name) or config.get("credsStore")
    if isinstance(helper, str) and HELPER.fullmatch(helper):
        stored = ask_helper(helper, name, environ)
        yield from login_of(stored.get("Username"), stored.get("Secret"))
    entry = as_record(as_record(config.get("auths")).get(name))
    yield from login_of(entry.get("username"), entry.get("password"))
    yield from login_of(*decode_auth(entry.get("auth")))


def ask_helper(helper: str, name: str, environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        ran = subprocess.run(
            [f"docker-credential-{helper}", "get"],
            input=name.encode(),
            env={**environ},
            capture_output=True,
            timeout=HELPER_SECONDS,
            check=True,
        )
        return as_record(json.loads(ran.stdout))
    except (OSError, ValueError, RecursionError, subprocess.SubprocessError):
        return {}


def decode_auth(value: Any) -> tuple[str, str]:
    """(user, password) of the Basic form."""
    try:
        user, _, password = base64.b64decode(str(value or "")).decode().partition(":")
    except ValueError:
        return "", ""
    return user, password.rstrip("\0")


def login_of(user: Any, password: Any) -> Iterator[Login]:
    if not (isinstance(user, str) and isinstance(password, str)):
        return
    if user and password and user != IDENTITY_TOKEN:
        yield Login(user, password)
