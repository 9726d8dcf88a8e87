"""A Hugging Face hub of our own for the tests: what its clients ask for when they download,
answered as the hub does.

Repositories with commits, branches and tags; small files by git hash, large ones by redirect to a
store on another port, with links that end; gated and private repositories, and the headers by which
a client knows them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, unquote

from support.servers.web_server import Reply, Request, Server, etag, ranged

LARGE = 100_000  # bytes from which a file is kept in the store
PAGE = 50  # entries of one page of a tree


@dataclass
class Repository:
    """`gated`: read by `members` only, seen by all; `private`: seen by `members` only."""

    kind: str = "models"
    gated: bool = False
    private: bool = False
    members: set[str] = field(default_factory=set)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes], *refs: str) -> str:
        """A further commit; `main` and the refs point to it then."""
        text = repr(sorted((name, hashlib.sha1(data).hexdigest()) for name, data in files.items()))
        sha = hashlib.sha1(f"{len(self.commits)} {text}".encode()).hexdigest()
        self.commits[sha] = dict(files)
        self.refs.update(dict.fromkeys(("main", *refs), sha))
        return sha


class Store(Server):
    """Where the hub keeps large files. Who has a link that still holds good may read; a token has
    no business here.
    """

    def __init__(self, host: str) -> None:
        self.files: dict[str, bytes] = {}
        self.links: dict[str, int] = {}  # link -> how often it can be used
        self.damaged: set[str] = set()
        super().__init__(host=host)

    def answer(self, request: Request) -> Reply:
        assert "authorization" not in request.headers, "the token was told to another host"
        sha = request.path.rpartition("/")[2]
        link = request.query
        if self.links.get(link, 0) < 1:
            return Reply(403, b"<Error>the link has ended</Error>")
        self.links[link] -= 1
        content = self.files[sha]
        if sha in self.damaged:
            content = b"\0" + content[1:]
        return ranged(request, content, {"ETag": f'"{sha}"'})


class HubServer(Server):
    """`uses`: how often a link to the store can be used."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.repositories: dict[str, Repository] = {}
        self.users: dict[str, str] = {}  # token -> name
        self.uses = 1000
        self.store = Store(host)
        self.count = itertools.count()
        super().__init__(host=host)

    def close(self) -> None:
        self.store.close()
        super().close()

    def add(
        self, name: str, files: dict[str, bytes], kind: str = "models", **about: object
    ) -> Repository:
        repository = Repository(kind, **about)  # type: ignore[arg-type]
        repository.commit(files)
        self.repositories[f"{kind}/{name}"] = repository
        return repository

    def answer(self, request: Request) -> Reply:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token and token not in self.users:
            return Reply(
                401,
                b'{"error":"Invalid username or password."}',
                said("Invalid username or password."),
            )
        user = self.users.get(token, "")
        parts = unquoted(request.path)
        if parts[0] == "api":
            return self.api(request, user, parts[1], parts[2:])
        kind = "datasets" if parts[0] == "datasets" else "models"
        return self.resolve(request, user, kind, parts[1:] if kind == "datasets" else parts)

    def find(self, kind: str, parts: list[str]) -> tuple[Repository | None, list[str]]:
        for count in (2, 1):
            found = self.repositories.get(f"{kind}/{'/'.join(parts[:count])}")
            if found:
                return found, parts[count:]
        return None, parts

    def api(self, request: Request, user: str, kind: str, parts: list[str]) -> Reply:
        repository, rest = self.find(kind, parts)
        refused = hidden(repository, user)
        if refused or repository is None:
            return refused or Reply(404)
        verb = rest[0] if rest else "revision"
        files, sha = at(repository, rest[1] if len(rest) > 1 else "main")
        if files is None:
            return missing("RevisionNotFound", "Invalid rev id: " + rest[1])
        if verb == "revision":
            return self.about(repository, files, sha, "/".join(parts[: len(parts) - len(rest)]))
        if verb == "tree":
            return self.tree(request, files, "/".join(rest[2:]))
        if verb == "paths-info":
            return paths_info(request, files)
        return Reply(404)

    def about(self, repository: Repository, files: dict[str, bytes], sha: str, name: str) -> Reply:
        told = {
            "_id": "1",
            "id": name,
            "sha": sha,
            "private": repository.private,
            "gated": "manual" if repository.gated else False,
            "siblings": [{"rfilename": path} for path in sorted(files)],
        }
        return Reply(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    def tree(self, request: Request, files: dict[str, bytes], below: str) -> Reply:
        query = parse_qs(request.query)
        entries = [
            each for each in listing(files) if not below or each["path"].startswith(below + "/")
        ]
        if query.get("recursive", ["false"])[0].lower() != "true":
            depth = below.count("/") + 2 if below else 1
            entries = [each for each in entries if each["path"].count("/") < depth]
        if below and not entries:
            return missing("EntryNotFound", below + " does not exist")
        first = int(query.get("cursor", ["0"])[0])
        headers = {"Content-Type": "application/json"}
        if first + PAGE < len(entries):
            following = (
                f"{self.url}{request.path}?recursive=true&expand=false&cursor={first + PAGE}"
            )
            headers["Link"] = f'<{following}>; rel="next"'
        return Reply(200, json.dumps(entries[first : first + PAGE]).encode(), headers)

    def resolve(self, request: Request, user: str, kind: str, parts: list[str]) -> Reply:
        repository, rest = self.find(kind, parts)
        refused = hidden(repository, user)
        if refused or repository is None:
            return refused or Reply(404)
        if repository.gated and user not in repository.members:
            words = (
                "Access to this repository is restricted and you are not in the authorized list."
            )
            return Reply(
                403 if user else 401, words.encode(), {"X-Error-Code": "GatedRepo", **said(words)}
            )
        files, sha = at(repository, rest[1])
        content = files.get("/".join(rest[2:])) if files is not None else None
        if content is None:
            return missing(
                "EntryNotFound" if files is not None else "RevisionNotFound", "Entry not found"
            )
        headers = {"X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
        if len(content) < LARGE:
            return ranged(request, content, {**headers, "ETag": f'"{blob(content)}"'})
        digest = hashlib.sha256(content).hexdigest()
        self.store.files[digest] = content
        link = f"signature={next(self.count)}"
        self.store.links[link] = self.uses
        location = f"{self.store.url}/{digest}?{link}"
        large = {
            "X-Linked-Size": str(len(content)),
            "X-Linked-Etag": f'"{digest}"',
            "Location": location,
        }
        return Reply(302, b"", {**headers, **large})


def unquoted(path: str) -> list[str]:
    return [unquote(part) for part in path.strip("/").split("/")]


def at(repository: Repository, revision: str) -> tuple[dict[str, bytes] | None, str]:
    sha = repository.refs.get(revision, revision)
    return repository.commits.get(sha), sha


def hidden(repository: Repository | None, user: str) -> Reply | None:
    """What tells that there is no such repository, to whom it is none of his business."""
    if repository is None or (repository.private and user not in repository.members):
        words = "Repository not found"
        return Reply(
            404 if user else 401, words.encode(), {"X-Error-Code": "RepoNotFound", **said(words)}
        )
    return None


def missing(code: str, words: str) -> Reply:
    return Reply(404, words.encode(), {"X-Error-Code": code, **said(words)})


def said(words: str) -> dict[str, str]:
    return {"X-Error-Message": quote(words, " .,:;()'")}


def blob(content: bytes) -> str:
    """git's name of a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def entry(path: str, content: bytes) -> dict[str, object]:
    if len(content) < LARGE:
        return {"type": "file", "oid": blob(content), "size": len(content), "path": path}
    digest = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n".encode()
    large = {"oid": digest, "size": len(content), "pointerSize": len(pointer)}
    return {"type": "file", "oid": blob(pointer), "size": len(content), "lfs": large, "path": path}


def folder(path: str) -> dict[str, object]:
    return {
        "type": "directory",
        "oid": hashlib.sha1(path.encode()).hexdigest(),
        "size": 0,
        "path": path,
    }


def folders(files: dict[str, bytes]) -> set[str]:
    parts = [path.split("/") for path in files]
    return {"/".join(each[:length]) for each in parts for length in range(1, len(each))}


def listing(files: dict[str, bytes]) -> list[dict[str, object]]:
    found = [folder(path) for path in folders(files)] + [entry(path, files[path]) for path in files]
    return sorted(found, key=lambda each: str(each["path"]))


def paths_info(request: Request, files: dict[str, bytes]) -> Reply:
    if request.headers.get("content-type", "").startswith("application/json"):
        wanted = json.loads(request.body)["paths"]
    else:
        wanted = parse_qs(request.body.decode())["paths"]
    known = folders(files)
    found = [
        entry(path, files[path]) if path in files else folder(path)
        for path in wanted
        if path in files or path in known
    ]
    return Reply(200, json.dumps(found).encode(), {"Content-Type": "application/json"})


__all__ = ["HubServer", "Repository", "etag"]
