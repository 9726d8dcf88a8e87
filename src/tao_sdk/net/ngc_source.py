"""Inputs in the NGC catalogue: ngc://org/[team/]name[:version], a model's or a resource's files.

NGC_KEY is the key. A personal key (nvapi-...) is sent as it is; an older key is exchanged for a
token first. With a key of another organisation, public files can still be read, as a guest.
"""

from __future__ import annotations

import threading

from tao_sdk.net import percent
from tao_sdk.net.failure import Failure
from tao_sdk.net.http_source import HttpSource, join_url, one_file
from tao_sdk.net.json_answer import as_record, as_records, parse_json
from tao_sdk.net.pages import Pages
from tao_sdk.net.proxy import basic_authorization
from tao_sdk.net.redirects import redirect_target
from tao_sdk.net.source import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tao_sdk.net.web import Answer, Web

API, LOGIN = "https://api.ngc.nvidia.com", "https://authn.nvidia.com"
CATALOGUE = "https://catalog.ngc.nvidia.com"
PERSONAL = "nvapi-"
LISTS = {
    "models": "modelFiles",
    "resources": "recipeFiles",
}  # kind of artifact -> the field with its files in an answer
DENIED = (401, 403)


class Artifact:
    """The model or resource in an address, at one version."""

    def __init__(self, uri: str, web: Web) -> None:
        self.uri, self.web = uri, web
        text, _, tail = uri.partition("://")[2].partition(":")
        self.version, _, self.below = tail.partition("/")
        parts = text.strip("/").split("/")
        self.kinds = list(LISTS)
        if len(parts) > 2 and parts[-2] in LISTS:
            self.kinds = [parts.pop(-2)]
        if len(parts) not in (2, 3):
            raise Failure(
                "input.address",
                f"{uri} is no address of NGC.",
                "",
                "Write ngc://org/team/name:version.",
            )
        self.org, self.team, self.name = parts[0], "/".join(parts[1:-1]), parts[-1]
        self.api = web.env.get("NGC_CLI_API_URL") or API
        self.key = (web.env.get("NGC_KEY") or "").strip()
        self.lock = threading.Lock()
        self.headers: dict[str, str] = {}
        self.guest = False
        self.outside = False  # True if a server elsewhere gave a file's address

    def log_in(self) -> None:
        """Set the headers for NGC: with a token, or as a guest. Raises Failure without a key."""
        if not self.key:
            raise Failure(
                "ngc.key",
                f"{self.uri} cannot be read without a key: NGC_KEY is not set.",
                "",
                "Make one at https://org.ngc.nvidia.com/setup, and set NGC_KEY to it.",
            )
        token = self.key
        if not token.startswith(PERSONAL):
            token = self.fetch_token()
        self.guest = not token
        self.headers = {}
        if token:
            self.headers["authorization"] = "Bearer " + token

    def fetch_token(self) -> str:
        """The token for an older key; "" if the key is of another organisation."""
        login = self.web.env.get("NGC_CLI_AUTH_URL") or LOGIN
        scope = f"group/ngc:{self.org}"
        scopes = [scope, f"{scope}/{self.team}"] if self.team else [scope]
        query = "&".join("scope=" + percent.quote(each, ":/") for each in scopes)
        url = join_url(login, "token?service=ngc&" + query)
        answer = self.web.ask(
            "GET",
            url,
            {"authorization": basic_authorization("$oauthtoken:" + percent.quote(self.key))},
        )
        return str(read_json(answer).get("token") or "") if answer.status == 200 else ""

    def api_url(self, kind: str, rest: str) -> str:
        """The API address for the artifact. Guests have other addresses."""
        way = [*self.owner_path(), kind]
        if self.guest:
            way = [kind, *filter(None, (self.org, self.team))]
        return join_url(self.api, "/".join(map(percent.quote, ["v2", *way, self.name])) + rest)

    def owner_path(self) -> list[str]:
        """The parts of `org/NAME/team/NAME`; only `org/NAME` without a team."""
        if not self.team:
            return ["org", self.org]
        return ["org", self.org, "team", self.team]

    def find_kind(self) -> tuple[str, dict[str, Any]]:
        """(`models` or `resources`, NGC's description of the artifact). Raises Failure."""
        for kind in self.kinds:
            answer = self.ask_description(kind)
            if answer.status == 200:
                return kind, read_json(answer)
            if answer.status != 404 or kind == self.kinds[-1]:
                raise self.refusal(answer)
        raise AssertionError("there are kinds")

    def ask_description(self, kind: str) -> Answer:
        """NGC's description of the artifact. If our key is denied, try as a guest, and stay one if
        that works.
        """
        answer = self.web.ask("GET", self.api_url(kind, ""), self.headers)
        if answer.status in DENIED and not self.guest:
            self.guest, self.headers, before = True, {}, self.headers
            public = self.web.ask("GET", self.api_url(kind, ""))
            if public.status == 200:
                return public
            self.guest, self.headers = False, before
        return answer

    def list_files(self, kind: str) -> Iterator[tuple[str, int]]:
        """(path, size) of every file, page after page. Raises Failure."""
        page: int = 0
        count: Any = 1
        pages = Pages("ngc.failed", f"{self.name}:{self.version}")
        while page < count:
            rest = f"/versions/{percent.quote(self.version)}/files?page-size=500&page-number={page}"
            answer = self.web.ask("GET", self.api_url(kind, rest), self.headers)
            if answer.status != 200:
                raise self.refusal(answer)
            told = read_json(answer)
            files = read_page(told, LISTS[kind], answer)
            pages.add_page(files[0][0] if files else "")
            yield from files
            count = as_record(told.get("paginationInfo")).get("totalPages", 1)
            if not isinstance(count, int):
                raise no_ngc(answer, "The answer does not say how many pages there are.")
            page += 1

    def find_link(self, kind: str, path: str) -> str:
        """The address of a file, valid for some minutes. Raises Failure."""
        way = [*self.owner_path(), kind]
        if self.guest:
            way = [kind, *self.owner_path()]
        rest = "/".join(map(percent.quote, ["v2", *way, self.name, self.version]))
        url = join_url(self.api, rest + "/files?path=" + percent.quote(path))
        answer = self.web.ask("GET", url, self.headers)
        if answer.status in DENIED and not self.key.startswith(PERSONAL) and not self.guest:
            with self.lock:
                self.log_in()  # a token is valid for minutes, a download may take hours
            answer = self.web.ask("GET", url, self.headers)
        if answer.status != 200:
            raise self.refusal(answer)
        urls: Any = read_json(answer).get("urls")
        url: Any = urls[0] if isinstance(urls, list) and urls else None  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(url, str):
            raise self.refusal(answer)
        self.outside = answer.leads_outside
        return redirect_target(answer.url, url)

    def refusal(self, answer: Answer) -> Failure:
        """The Failure for an unsuccessful answer."""
        said = ngc_reason(answer)
        page = "/".join(
            [
                CATALOGUE,
                "orgs",
                self.org,
                *(["teams", self.team] if self.team else []),
                "models",
                self.name,
            ]
        )
        if answer.status == 412:
            return Failure(
                "ngc.terms",
                f"{self.name} can be had only after its terms were accepted.",
                said,
                f"Accept them at {page}, and start the job again.",
            )
        if answer.status in DENIED:
            return Failure(
                "ngc.denied",
                f"NGC does not let NGC_KEY read {self.uri}.",
                said or f"It answers {answer.status}.",
                f"Check that the key is valid and of organisation {self.org}, and look at {page}.",
            )
        if answer.status == 404:
            version = ":" + self.version if self.version else ""
            return Failure(
                "input.nothing",
                f"NGC has no {self.name}{version} of "
                f"{'/'.join(filter(None, (self.org, self.team)))}.",
                said or "It answers 404, also for what the key may not see.",
                f"Look for its name and versions at {page}.",
            )
        return Failure(
            "ngc.failed",
            f"NGC does not give {self.uri}.",
            said or f"It answers {answer.status}.",
            "Try again later.",
        )


class NgcSource(HttpSource):
    """A file of an artifact. Its link is requested when it is read, because links are valid only
    for minutes.
    """

    def __init__(
        self, artifact: Artifact, kind: str, path: str, file: tuple[str, int, str]
    ) -> None:
        super().__init__(artifact.web, artifact.api, {}, artifact.refusal, file)
        self.artifact, self.kind, self.whole = artifact, kind, path

    def located(self) -> str:
        url = self.artifact.find_link(self.kind, self.whole)
        self.outside = self.artifact.outside
        return url


def look(uri: str, kind: str, web: Web) -> Found:  # noqa: ARG001  looking tells
    """The files of the address's version, or of the latest one. Raises Failure."""
    artifact, what = open_artifact(uri, web)
    below = artifact.below.strip("/")
    files = sorted(artifact.list_files(what))
    single = [(path, size) for path, size in files if path == below]
    if single and not uri.endswith("/"):
        name = below.rpartition("/")[2]
        return Found(
            False, [NgcSource(artifact, what, below, (name, single[0][1], artifact.version))], name
        )
    start = len(below) + bool(below)  # with the slash behind the folder
    sources = [
        NgcSource(artifact, what, path, (path[start:], size, artifact.version))
        for path, size in files
        if not below or path.startswith(below + "/")
    ]
    if not sources:
        raise Failure(
            "input.nothing",
            f"{artifact.name}:{artifact.version} has no {below or 'files'}.",
            f"It has {len(files)} files.",
            "Leave the path out to have all of it.",
        )
    found = Found(True, list(sources), (below or artifact.name).rpartition("/")[2])
    found.meant = one_file
    return found


def open_artifact(uri: str, web: Web) -> tuple[Artifact, str]:
    """(the artifact with its version, `models` or `resources`). Raises Failure."""
    artifact = Artifact(uri, web)
    artifact.log_in()
    kind, about = artifact.find_kind()
    artifact.version = artifact.version or latest_version(about, kind)
    return artifact, kind


def require_data(uri: str, web: Web) -> None:
    """Raise Failure, as `look` does, unless the artifact exists and its files can be listed."""
    artifact, kind = open_artifact(uri, web)
    next(artifact.list_files(kind), None)


def latest_version(told: dict[str, Any], kind: str) -> str:
    """NGC's latest version of the artifact. Raises Failure if it has none."""
    about = as_record(told.get("model" if kind == "models" else "recipe"))
    version = about.get("latestVersionIdStr")
    if version:
        return str(version)
    raise Failure(
        "input.nothing",
        f"It has no version yet: {about.get('name')}.",
        "",
        "Name one: ngc://...:version.",
    )


def read_page(told: dict[str, Any], name: str, answer: Answer) -> list[tuple[str, int]]:
    """(path, size) of each file of a page. Raises Failure."""
    listed = as_records(told.get(name) or [])
    found = [(each.get("path"), each.get("sizeInBytes", -1)) for each in listed or []]
    if listed is None or not all(
        isinstance(path, str) and isinstance(size, int) and -1 <= size < 1 << 63
        for path, size in found
    ):
        raise no_ngc(answer, "The answer is no list of files.")
    return [(str(path), int(size)) for path, size in found]


def ngc_reason(answer: Answer) -> str:
    """NGC's own reason for a refusal; "" if it gives none."""
    try:
        about = as_record(read_json(answer).get("requestStatus"))
    except Failure:
        return ""
    return str(about.get("statusDescription") or about.get("statusCode") or "")


def read_json(answer: Answer) -> dict[str, Any]:
    found = parse_json(answer, lambda why: no_ngc(answer, why))
    if not isinstance(found, dict):
        raise no_ngc(answer, "The answer is a list, or a word.")
    return as_record(found)  # pyright: ignore[reportUnknownArgumentType]


def no_ngc(answer: Answer, why: str) -> Failure:
    """The Failure for an answer that NGC does not give."""
    return Failure(
        "ngc.failed",
        f"What answers at {answer.url.partition('?')[0]} is not NGC.",
        why,
        "Check NGC_CLI_API_URL, and that no proxy answers in its place.",
    )
