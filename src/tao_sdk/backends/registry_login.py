"""Registry login: the caller's login for an image registry, from the caller's machine.

Not here: which registry an image comes from (image_name.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tao_sdk.backends.image_name import NGC
from tao_sdk.model.settings import Settings
from tao_sdk.transports.dockerd import stored_login

NGC_USER = "$oauthtoken"


def find_login(registry: str, settings: Settings) -> tuple[Mapping[str, str], str]:
    """Return (login, why a credential helper gave none). The login is empty if there is none.

    The login is NGC_KEY for nvcr.io, else what `docker login` has stored. The second part matters
    only if the registry needs a login.
    """
    key = settings.get("NGC_KEY")
    if registry == NGC and key:
        user = settings.get("DOCKER_USERNAME") or NGC_USER
        return {"username": user, "password": key, "serveraddress": NGC}, ""
    config = str(docker_folder(settings) / "config.json")
    return stored_login(registry, config, settings.environ)


def docker_folder(settings: Settings) -> Path:
    """The folder of the docker command's own files."""
    return Path(settings.environ.get("DOCKER_CONFIG") or settings.home / ".docker")
