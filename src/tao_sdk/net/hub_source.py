"""Inputs on a Hugging Face hub: hf_model://org/name[@revision][/path], and hf_dataset:// the same.

HF_TOKEN is the token, HF_ENDPOINT the hub. All files are of one commit, even if the revision's name
points to another one later. Each is verified: large files by SHA-256, the others by git hash.
"""

from __future__ import annotations

from tao_sdk.net import percent
from tao_sdk.net.address import shown
from tao_sdk.net.failure import Failure
from tao_sdk.net.http_source import HttpSource, one_file
from tao_sdk.net.json_answer import as_record, as_records, parse_json
from tao_sdk.net.pages import Pages
from tao_sdk.net.redirects import redirect_target
from tao_sdk.net.source import Found
from tao_sdk.net.wire import split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tao_sdk.net.web import Answer, Web

ENDPOINT = "https://huggingface.co"
KINDS = {
    "hf_model": ("models", ""),
    "hf_dataset": ("datasets", "datasets/"),
}  # in the API, in a page's address


class Repository:
    """The repository and revision in an address."""

    def __init__(self, uri: str, web: Web) -> None:
        self.uri, self.web = uri, web
        scheme, _, rest = uri.partition("://")
        self.api, self.page = KINDS[scheme.lower()]
        parts = rest.strip("/").split("/")
        owner = parts[:1]  # `org` of org/name; the hub's own models have none
        if len(parts) < 2 or "@" in parts[0]:
            owner = parts[:-1]
        named = parts[len(owner)]
        name, _, revision = named.partition("@")
        self.name = "/".join([*owner, name])
        self.revision = percent.unquote(revision) or "main"
        self.below = "/".join(parts[len(owner) + 1 :])
        self.endpoint = shown(web.env.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
        self.token = (
            web.env.get("HF_TOKEN") or web.env.get("HUGGING_FACE_HUB_TOKEN") or ""
        ).strip()
        self.headers: dict[str, str] = {}
        if self.token:
            self.headers["authorization"] = "Bearer " + self.token

    def api_url(self, verb: str, revision: str, path: str = "") -> str:
        """The address of a request to the hub's API."""
        repository = f"{self.endpoint}/api/{self.api}/{percent.path(self.name)}"
        url = f"{repository}/{verb}/{percent.quote(revision)}"
        if not path:
            return url
        return f"{url}/{percent.path(path)}"

    def file_url(self, commit: str, path: str) -> str:
        """The address of a file at a commit."""
        repository = f"{self.endpoint}/{self.page}{percent.path(self.name)}"
        return f"{repository}/resolve/{commit}/{percent.path(path)}"

    def find_commit(self) -> str:
        """The commit that the revision's name points to now. Raises Failure."""
        answer = self.ask_hub("GET", self.api_url("revision", self.revision))
        sha: Any = as_record(read_json(answer)).get("sha")
        if not (isinstance(sha, str) and sha.isascii() and sha.isalnum()):
            raise no_hub(answer, "The answer names no commit.")
        return sha

    def find_entry(self, commit: str, path: str) -> dict[str, Any]:
        """The hub's record of the file or folder at a path; empty if there is none."""
        body = (f"paths={percent.quote(path)}&expand=false").encode()
        headers = {"content-type": "application/x-www-form-urlencoded"}
        found = read_entries(
            self.ask_hub("POST", self.api_url("paths-info", commit), headers, body)
        )
        if not found:
            return {}
        return found[0]

    def list_files(self, commit: str, path: str) -> Iterator[dict[str, Any]]:
        """Every file below a path, page after page."""
        url, outside = self.api_url("tree", commit, path) + "?recursive=true&expand=false", False
        pages = Pages("hub.failed", self.name)
        while url:
            pages.add_page(url)
            answer = self.ask_hub("GET", url, outside=outside)
            yield from (each for each in read_entries(answer) if each.get("type") == "file")
            following = next_page(answer.headers.get("link", ""))
            outside = answer.leads_outside
            url = following and redirect_target(answer.url, following)

    def ask_hub(
        self, method: str, url: str, headers: Any = None, body: bytes = b"", outside: bool = False
    ) -> Answer:
        """The hub's answer. The token goes only to the hub, whatever `url` is. Raises Failure."""
        sent: dict[str, str] = dict(headers or {})
        if split_url(url)[0] == split_url(self.endpoint)[0]:
            sent = {**self.headers, **sent}
        answer = self.web.ask(method, url, sent, body, outside=outside)
        if answer.status != 200:
            raise self.refusal(answer)
        return answer

    def make_source(self, commit: str, file: dict[str, Any], path: str) -> HttpSource:
        """The source of a file, from the hub's record with its hash and size. Raises Failure."""
        large = as_record(file.get("lfs"))
        mark: Any = large.get("oid") or file.get("oid")
        size: Any = large.get("size", file.get("size"))
        if not (isinstance(mark, str) and mark and is_size(size)):
            raise Failure(
                "hub.failed",
                f"The hub does not say what {self.name} is.",
                "An entry has no hash or size.",
            )
        url = self.file_url(commit, file["path"])
        source = HttpSource(self.web, url, self.headers, self.refusal, (path, size, mark))
        source.check = ("sha256" if large else "blob", mark)
        return source

    def refusal(self, answer: Answer) -> Failure:
        """The Failure for an unsuccessful answer, worded for the author of the address."""
        page = f"{self.endpoint}/{self.page}{self.name}"
        code, said = (
            answer.headers.get("x-error-code", ""),
            answer.headers.get("x-error-message", ""),
        )
        why = f": {said}" if said else ""
        token = "the token in HF_TOKEN" if self.token else "nobody: HF_TOKEN is not set"
        if code == "GatedRepo":
            return Failure(
                "hub.gated",
                f"{self.name} is gated: only those may read it who asked for it and were let in.",
                f"The job asks as {token}.",
                f"Ask for access at {page}, and set HF_TOKEN to a token of that account.",
            )
        if code == "RevisionNotFound":
            return Failure(
                "hub.revision",
                f"{self.name} has no revision {self.revision}.",
                said or "The hub does not know such a branch, tag or commit.",
                f"Look at {page}/refs, and write "
                "hf_model://org/name@revision; a slash in it as %2F.",
            )
        if code == "EntryNotFound":
            return self.nothing_there()
        if answer.status in (401, 403, 404):
            return Failure(
                "hub.private",
                f"{self.name} is not there, or is private.",
                f"The hub answers {answer.status}{why}; the job asks as {token}.",
                f"Check the name at {page}, and set HF_TOKEN to a token that may read it.",
            )
        return Failure(
            "hub.failed",
            f"The hub does not give {self.name}.",
            f"It answers {answer.status}{why}.",
            f"Look whether {page} works, and start the job again.",
        )

    def nothing_there(self) -> Failure:
        """The Failure for a path with nothing behind it."""
        where = self.below or "any file"
        return Failure(
            "input.nothing",
            f"{self.name} has no {where}.",
            f"Nothing is there at revision {self.revision}.",
            f"Look at {self.endpoint}/{self.page}{self.name}/tree/{percent.quote(self.revision)}.",
        )


def look(uri: str, kind: str, web: Web) -> Found:  # noqa: ARG001  looking tells
    """The file, or all files below the path, at the commit that the revision points to now. Raises
    Failure.
    """
    repository = Repository(uri, web)
    commit, below = repository.find_commit(), repository.below
    file = find_single(repository, commit)
    if file:
        name = below.rpartition("/")[2]
        return Found(False, [repository.make_source(commit, file, name)], name)
    sources = [
        repository.make_source(commit, file, below_folder(file["path"], below))
        for file in repository.list_files(commit, below)
    ]
    if not sources:
        raise repository.nothing_there()
    found = Found(True, list(sources), (below or repository.name).rpartition("/")[2])
    if repository.api == "models":
        found.meant = one_file
    return found


def below_folder(path: str, folder: str) -> str:
    """`c` of a/b/c below the folder a/b; the whole path below no folder."""
    if not folder:
        return path
    return path[len(folder) + 1 :]


def find_single(repository: Repository, commit: str) -> dict[str, Any]:
    """The record of the file in the address; empty if the address is a folder."""
    if not repository.below:
        return {}
    entry = repository.find_entry(commit, repository.below)
    if not entry:
        raise repository.nothing_there()
    if entry.get("type") != "file" or repository.uri.endswith("/"):
        return {}
    return entry


def require_data(uri: str, web: Web) -> None:
    """Raise the same Failures as `look`, without a full list; and those of reading one byte, which
    a gated repository refuses.
    """
    repository = Repository(uri, web)
    commit = repository.find_commit()
    file = find_single(repository, commit) or next(
        repository.list_files(commit, repository.below), None
    )
    if not file:
        raise repository.nothing_there()
    source = repository.make_source(commit, file, "x")
    for _ in source.read(0, min(1, source.size)):
        pass


def is_size(size: Any) -> bool:
    """True for a whole number that is not negative."""
    return isinstance(size, int) and 0 <= size < 1 << 63


def read_json(answer: Answer) -> Any:
    return parse_json(answer, lambda why: no_hub(answer, why))


def read_entries(answer: Answer) -> list[dict[str, Any]]:
    """The records in a listing of a repository. Raises Failure."""
    found = as_records(read_json(answer))
    if found is None or not all(isinstance(each.get("path"), str) for each in found):
        raise no_hub(answer, "The answer is no list of files.")
    return found


def no_hub(answer: Answer, why: str) -> Failure:
    """The Failure for an answer that no hub gives."""
    return Failure(
        "hub.failed",
        f"What answers at {answer.url.partition('?')[0]} is no hub.",
        why,
        "Check HF_ENDPOINT, and that no proxy answers in its place.",
    )


def next_page(link: str) -> str:
    """The address of the next page: <...>; rel="next"."""
    for part in link.split(","):
        url, _, about = part.partition(">")
        if 'rel="next"' in about:
            return url.strip().lstrip("<")
    return ""
