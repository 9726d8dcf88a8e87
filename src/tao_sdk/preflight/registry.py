"""Registries: one look at an image by HTTP: is it there, for which machines, how large.

A registry is a foreign server: the time and the bytes of a look are bounded, and its words are
shown without the data sent to it. A login goes only to the registry and to the token server that it
names itself, and over the network only by TLS.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from tao_sdk.backends.image_name import HUB, ImageName
from tao_sdk.model.printable import printable
from tao_sdk.net.failure import Failure
from tao_sdk.net.json_answer import as_record, as_records, parse_json
from tao_sdk.net.web import Web
from tao_sdk.net.wire import split_url
from tao_sdk.preflight.commands import MOST_WORDS
from tao_sdk.preflight.datasets import NotSeen
from tao_sdk.preflight.registry_login import Login, find_login

if TYPE_CHECKING:
    from tao_sdk.net.web import Answer

SECONDS = 10.0  # for the whole look
PATIENCE = "1"  # seconds that a registry which is away is tried again
LARGEST = 4 << 20  # bytes of an answer
MOST_ENTRIES = 100  # entries to read from a list
LARGEST_SIZE = 1 << 50  # bytes of a layer that are believed
HUB_HOST = "registry-1.docker.io"
CERTIFICATES = "/etc/docker/certs.d"  # Docker's folder for registries' own authorities
MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
LOOPBACK = re.compile(r"127(\.\d{1,3}){3}", re.ASCII)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
FIELD = re.compile(r'(\w+)="([^"]*)"')
REFUSALS = (401, 403, 404)  # after which another login is worth a try
OF_MANIFESTS = ("schemaVersion", "manifests", "layers", "config")  # a manifest has one of them


class NoImage(Exception):
    """The registry does not give the image: its words, and a flag that a login may help."""

    def __init__(self, words: str, wants_login: bool) -> None:
        super().__init__(words)
        self.words, self.wants_login = words, wants_login


@dataclass(frozen=True)
class RegistryImage:
    """A registry's description of an image."""

    archs: tuple[str, ...] = ()  # such as amd64; none where it does not say
    size: int = 0  # bytes that are fetched, for one architecture; 0 where it does not say
    private: bool = False  # it wants a login


def look_at_image(name: ImageName, environ: Mapping[str, str], arch: str = "") -> RegistryImage:
    """Ask the registry about an image. `arch` is the architecture for its size. Raises NoImage,
    NotSeen.
    """
    outcome: list[RegistryImage | NoImage | NotSeen] = []
    look = Look(name, environ)
    # A server that sends a byte now and then keeps the thread, and nobody waits for that.
    thread = threading.Thread(target=look.report, args=(arch, outcome.append), daemon=True)
    thread.start()
    thread.join(SECONDS)
    if not outcome:
        raise NotSeen(
            f"{look.host} did not answer within {SECONDS:g} seconds.",
            "Check its name, or try again.",
        )
    if isinstance(outcome[0], RegistryImage):
        return outcome[0]
    raise outcome[0]


class Look:
    """One look. It begins without a login."""

    def __init__(self, name: ImageName, environ: Mapping[str, str]) -> None:
        self.name, self.environ = name, environ
        self.host = name.registry if name.registry != HUB else HUB_HOST
        self.web = Web({**environ, **trust_of(self.host, environ), "TAO_RETRY_SECONDS": PATIENCE})
        self.bases = [f"https://{self.host}"]
        if is_loopback(self.host):
            self.bases.append(f"http://{self.host}")
        self.login: Login | None = None
        self.steps = [self.authorize_anybody, self.authorize_login]
        self.challenge = ""
        self.authorization = ""
        self.sent: list[str] = []  # secrets

    @property
    def path(self) -> str:
        """The path of the image below /v2/."""
        if self.name.registry == HUB and "/" not in self.name.path:
            return f"library/{self.name.path}"
        return self.name.path

    def report(self, arch: str, tell: Callable[[RegistryImage | NoImage | NotSeen], None]) -> None:
        try:
            tell(self.image(arch))
        except (NoImage, NotSeen) as outcome:
            tell(outcome)
        except Failure as failure:
            tell(NotSeen(self.clean(f"{failure.what} {failure.why}".strip()), failure.next))
        except OSError as broken:
            tell(NotSeen(self.clean(f"{self.host}: {broken}."), "Try again."))
        finally:
            self.web.close()

    def image(self, arch: str) -> RegistryImage:
        manifest = self.manifest(self.name.digest or self.name.tag or "latest")
        entries = as_records(manifest.get("manifests"))
        if entries is not None:
            return self.image_of_index(entries[:MOST_ENTRIES], arch)
        image = RegistryImage(self.archs_of(manifest), size_of(manifest))
        return replace(image, private=self.login is not None)

    def image_of_index(self, entries: list[dict[str, Any]], arch: str) -> RegistryImage:
        digests = dict(reversed([*platforms_of(entries)]))
        archs = tuple(sorted(digests))
        digest = digests.get(arch) or next(iter(digests.values()), "")
        size = size_of(self.manifest(digest)) if digest else 0
        return RegistryImage(archs, size, self.login is not None)

    def manifest(self, reference: str) -> dict[str, Any]:
        """The manifest. Raises NotSeen for an answer that is none, such as a gate's page."""
        manifest = self.fetch(f"manifests/{quote(reference, safe=':@')}", MANIFESTS)
        if not any(name in manifest for name in OF_MANIFESTS):
            raise NotSeen(f"The answer of {self.host} is no manifest.", "Check its name.")
        return manifest

    def archs_of(self, manifest: Mapping[str, Any]) -> tuple[str, ...]:
        """The architectures in the image's configuration. A manifest of the first form states its
        own.
        """
        digest = str(as_record(manifest.get("config")).get("digest", ""))
        said = self.fetch(f"blobs/{digest}") if DIGEST.fullmatch(digest) else manifest
        arch = said.get("architecture")
        return (printable(arch)[:40],) if isinstance(arch, str) and arch else ()

    # Asking

    def fetch(self, path: str, accept: str = "*/*") -> dict[str, Any]:
        """The JSON at a path of the image. Raises NoImage, NotSeen, Failure, OSError."""
        while True:
            answer = self.ask(f"/v2/{self.path}/{path}", accept)
            if answer.status == 200:
                return as_record(parse_json(answer, self.no_json))
            if answer.status not in REFUSALS:
                why = f"{self.host} answers with status {answer.status}."
                raise NotSeen(why, "Try again later.")
            if not self.authorize(answer):
                raise NoImage(self.words_of(answer), answer.status != 404)

    def ask(self, path: str, accept: str) -> Answer:
        headers = {"accept": accept}
        if self.authorization:
            headers["authorization"] = self.authorization
        while True:
            try:
                return self.read(self.bases[0] + path, headers)
            except (Failure, OSError):
                # Docker does the same: a registry of this machine may have no TLS.
                if len(self.bases) == 1 or self.authorization:
                    raise
                del self.bases[0]

    def read(self, url: str, headers: dict[str, str], outside: bool = False) -> Answer:
        """The answer with its body. Raises NotSeen for a body that is too large."""
        with self.web.open("GET", url, headers, outside=outside) as answer:
            parts: list[bytes] = []
            size = 0
            for view in answer.chunks():
                size += len(view)
                if size > LARGEST:
                    raise NotSeen(
                        f"An answer of {self.host} is larger than {LARGEST >> 20} MiB.",
                        "Check the name of the registry.",
                    )
                parts.append(bytes(view))
            answer.body = b"".join(parts)
        del self.bases[1:]
        return answer

    def no_json(self, why: str) -> Failure:
        return Failure("registry.answer", f"{self.host} is no registry.", why, "Check its name.")

    # Being allowed

    def authorize(self, answer: Answer) -> bool:
        """Take the next authorization that the registry may accept; False if none is left. A host
        that the registry led to gets no login, whatever it asks for.
        """
        if split_url(answer.url)[0] != split_url(self.bases[0])[0]:
            return False
        self.challenge = answer.headers.get("www-authenticate", "") or self.challenge
        return any(self.steps.pop(0)(answer) for _ in range(len(self.steps)))

    @property
    def scheme(self) -> str:
        return self.challenge.partition(" ")[0].lower()

    def authorize_anybody(self, answer: Answer) -> bool:
        """Get a token without a login, as registries give for public images."""
        return self.scheme == "bearer" and self.take_token(answer)

    def authorize_login(self, answer: Answer) -> bool:
        self.login = find_login(self.name.registry, self.environ)
        if self.login is None:
            return False
        self.sent += [self.login.password, self.login.basic]
        if self.scheme == "basic":
            self.authorization = f"Basic {self.login.basic}"
            return True
        return self.scheme == "bearer" and self.take_token(answer)

    def take_token(self, asked: Answer) -> bool:
        """Get a token for the image; False if the token server gives none."""
        headers = {"accept": "application/json"}
        if self.login:
            headers["authorization"] = f"Basic {self.login.basic}"
        answer = self.read(self.token_url(), headers, outside=asked.leads_outside)
        if answer.status != 200:
            return False
        made = as_record(parse_json(answer, self.no_json))
        token = made.get("token") or made.get("access_token")
        if not isinstance(token, str) or not token:
            return False
        self.sent.append(token)
        self.authorization = f"Bearer {token}"
        return True

    def token_url(self) -> str:
        """The URL to get a token from. Raises NotSeen if a login would be sent without TLS."""
        fields = dict(FIELD.findall(self.challenge))
        realm = fields.get("realm", "")
        if not (realm.startswith("https://") or self.is_realm_here(realm)):
            raise NotSeen(
                f"{self.host} names a server of tokens without TLS: {self.clean(realm)}",
                "Ask who runs the registry.",
            )
        query = {"scope": f"repository:{self.path}:pull"}
        if fields.get("service"):
            query["service"] = fields["service"]
        return f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"

    def is_realm_here(self, realm: str) -> bool:
        """True for a server of tokens on this machine, of a registry that has no TLS either."""
        has_tls = self.bases[0].startswith("https://")
        return not has_tls and realm.startswith("http://") and is_loopback(split_url(realm)[0][1])

    # Its words

    def words_of(self, answer: Answer) -> str:
        """`manifest unknown (MANIFEST_UNKNOWN)`, else the status."""
        try:
            said = as_record(parse_json(answer, self.no_json))
        except Failure:
            said = {}
        for each in (as_records(said.get("errors")) or ())[:1]:
            if each.get("message") or each.get("code"):
                return self.clean(f"{self.host}: {each.get('message')} ({each.get('code')}).")
        return f"{self.host} answers with status {answer.status}."

    def clean(self, words: str) -> str:
        """The words without the data that was sent, for people."""
        for secret in sorted(self.sent, key=len, reverse=True):
            words = words.replace(secret, "***")
        return printable(words)[:MOST_WORDS]


def is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    return name == "localhost" or LOOPBACK.fullmatch(name) is not None


def trust_of(host: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The authority that this machine's Docker trusts for the registry, if it has one."""
    from tao_sdk.net.wire import BUNDLES

    bundle = Path(CERTIFICATES) / host / "ca.crt"
    if any(environ.get(name) for name in BUNDLES) or not bundle.is_file():
        return {}
    return {BUNDLES[0]: str(bundle)}


def platforms_of(entries: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """(architecture, digest) of each Linux image in an index."""
    for entry in entries:
        platform = as_record(entry.get("platform"))
        arch, digest = str(platform.get("architecture", "")), str(entry.get("digest", ""))
        is_linux = platform.get("os", "linux") == "linux"
        if is_linux and arch not in ("", "unknown") and DIGEST.fullmatch(digest):
            yield printable(arch)[:40], digest


def size_of(manifest: Mapping[str, Any]) -> int:
    layers = (as_records(manifest.get("layers")) or [])[:1000]
    sizes = [layer.get("size") for layer in layers]
    return sum(each for each in sizes if isinstance(each, int) and 0 <= each < LARGEST_SIZE)
