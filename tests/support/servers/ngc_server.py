"""An NGC catalogue of our own for the tests: what its clients ask for when they download models and
resources.

Keys of both kinds (personal ones, and older ones that are changed for tokens), organisations and
teams, versions, pages of files, links to a store on another port that hold good for a while, the
guests' way to what is public.
"""

from __future__ import annotations

import base64
import itertools
import json
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote

from support.servers.authority_here import Authority
from support.servers.web_server import Reply, Request, Server, etag, ranged

PAGE = 20
KINDS = {
    "models": ("model", "modelVersion", "modelFiles"),
    "resources": ("recipe", "recipeVersion", "recipeFiles"),
}


@dataclass
class Artifact:
    kind: str
    org: str
    team: str
    name: str
    versions: dict[str, dict[str, bytes]] = field(default_factory=dict)
    latest: str = ""
    public: bool = False
    terms: bool = False  # have to be accepted first


class NgcStore(Server):
    def __init__(self, tls: Authority | None, host: str) -> None:
        self.files: dict[str, bytes] = {}  # link -> content
        self.uses: dict[str, int] = {}
        super().__init__(tls, host)

    def answer(self, request: Request) -> Reply:
        assert "authorization" not in request.headers, "the key was told to another host"
        if self.uses.get(request.query, 0) < 1:
            return Reply(403, b"<Error>Request has expired</Error>")
        self.uses[request.query] -= 1
        content = self.files[request.query]
        return ranged(request, content, {"ETag": etag(content)})


class NgcServer(Server):
    """`keys`: key -> the organisation it is of. It is the API and, below /login, what changes keys
    for tokens.
    """

    def __init__(self, tls: Authority | None = None, host: str = "127.0.0.1") -> None:
        self.artifacts: list[Artifact] = []
        self.keys: dict[str, str] = {}
        self.tokens: dict[str, str] = {}  # token -> organisation
        self.token_uses = 10_000
        self.used: dict[str, int] = {}
        self.uses = 1000
        self.store = NgcStore(tls, host)
        self.count = itertools.count()
        super().__init__(tls, host)
        self.login = self.url + "/login"

    def close(self) -> None:
        self.store.close()
        super().close()

    def add(
        self, path: str, versions: dict[str, dict[str, bytes]], kind: str = "models", **about: bool
    ) -> Artifact:
        org, *team, name = path.split("/")
        found = Artifact(kind, org, "".join(team), name, versions, list(versions)[-1], **about)
        self.artifacts.append(found)
        return found

    def answer(self, request: Request) -> Reply:
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        if parts[:2] == ["login", "token"] or parts == ["token"]:
            return self.token(request)
        if parts[:3] == ["v3", "keys", "get-caller-info"]:
            return self.caller(request)
        if parts[0] != "v2":
            return failed(404, "no such thing")
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        org = (
            self.keys.get(bearer, "")
            if bearer.startswith("nvapi-")
            else self.tokens.get(bearer, "")
        )
        if bearer in self.tokens:
            self.used[bearer] = self.used.get(bearer, 0) + 1
            org = org if self.used[bearer] <= self.token_uses else ""
        if bearer and not org:
            return failed(401, "Authentication failed")
        return self.asked_by(org, request, parts[1:])

    def asked_by(self, org: str, request: Request, parts: list[str]) -> Reply:
        if parts == ["users", "me"] or parts[0] == "orgs":
            return self.user(org)
        if parts[0] in KINDS:
            return self.guest(request, parts[0], parts[1:])
        return self.member(request, org, parts)

    def token(self, request: Request) -> Reply:
        """A key for a token of an organisation, which has to be its own."""
        login = base64.b64decode(
            request.headers.get("authorization", "").removeprefix("Basic ")
        ).decode()
        name, _, key = login.partition(":")
        scopes = parse_qs(request.query).get("scope", [])
        org = self.keys.get(key, "")
        if name != "$oauthtoken" or not org:
            return failed(401, "Invalid apikey")
        if any(scope.partition(":")[2].partition("/")[0] not in ("", org) for scope in scopes):
            return failed(403, "Invalid org")
        token = f"token-{next(self.count)}"
        self.tokens[token] = org
        return spoken({"token": token, "expires_in": 600})

    def caller(self, request: Request) -> Reply:
        key = parse_qs(request.body.decode()).get("credentials", [""])[0]
        org = self.keys.get(key, "")
        if not org:
            return failed(401, "Invalid key")
        roles = [
            {"org": {"name": org, "displayName": org}, "team": {"name": team}}
            for team in self.teams(org)
        ]
        return spoken({"type": "PERSONAL_KEY", "orgName": org, "user": {"roles": roles}})

    def teams(self, org: str) -> list[str]:
        return sorted({each.team for each in self.artifacts if each.org == org and each.team})

    def user(self, org: str) -> Reply:
        here = {"name": org, "displayName": org, "type": "ENTERPRISE", "isInternal": False}
        roles = [{"org": here, "orgRoles": ["REGISTRY_USER"], "teamRoles": []}]
        user = {"name": "tester", "email": "tester@example.com", "id": 1, "roles": roles}
        return spoken(
            {"user": user, "userRoles": roles, "organizations": [here], "paginationInfo": pages(1)}
        )

    def guest(self, request: Request, kind: str, parts: list[str]) -> Reply:
        """Organisation, team and name in one row; for links in the members' way."""
        if parts[0] == "org":
            return self.member(
                request,
                "",
                [*parts[:4], kind, *parts[4:]]
                if parts[2] == "team"
                else [*parts[:2], kind, *parts[2:]],
            )
        for each in self.artifacts:
            way = [name for name in (each.org, each.team, each.name) if name]
            if each.kind == kind and parts[: len(way)] == way and each.public:
                return self.artifact(request, each, parts[len(way) :])
        return failed(404, "not found")

    def member(self, request: Request, org: str, parts: list[str]) -> Reply:
        if parts[2:] == ["teams"]:
            return spoken(
                {"teams": [{"name": team} for team in self.teams(org)], "paginationInfo": pages(1)}
            )
        named = (
            dict(zip(parts[0:4:2], parts[1:4:2], strict=False))
            if parts[2:3] == ["team"]
            else {"org": parts[1]}
        )
        kind, name, *rest = parts[4:] if "team" in named else parts[2:]
        for each in self.artifacts:
            if (each.kind, each.org, each.team, each.name) == (
                kind,
                named["org"],
                named.get("team", ""),
                name,
            ):
                if not each.public and each.org != org:
                    return failed(403, "Forbidden") if org else failed(401, "Unauthorized")
                if org and each.org != org:
                    return failed(403, "Forbidden")
                return self.artifact(request, each, rest)
        return failed(404, "not found")

    def artifact(self, request: Request, it: Artifact, rest: list[str]) -> Reply:
        about, version, files = KINDS[it.kind]
        told = {
            "name": it.name,
            "orgName": it.org,
            "teamName": it.team,
            "latestVersionIdStr": it.latest,
            "isPublic": it.public,
        }
        if not rest:
            return spoken({about: told})
        if rest[0] != "versions":
            return self.links(request, it, rest[0])
        if len(rest) < 2 or rest[1] not in it.versions:
            return failed(404, "no such version")
        here = it.versions[rest[1]]
        size = sum(map(len, here.values()))
        if rest[2:] == []:
            state = {
                "versionId": rest[1],
                "status": "UPLOAD_COMPLETE",
                "totalSizeInBytes": size,
                "totalFileCount": len(here),
            }
            return spoken({about: told, version: state})
        if it.terms:
            return failed(412, "The terms have not been accepted")
        number = int(parse_qs(request.query).get("page-number", ["0"])[0])
        page = sorted(here)[number * PAGE : (number + 1) * PAGE]
        shown = [{"path": path, "sizeInBytes": len(here[path])} for path in page]
        return spoken({files: shown, "paginationInfo": pages(len(here))})

    def links(self, request: Request, it: Artifact, version: str) -> Reply:
        if version not in it.versions:
            return failed(404, "no such version")
        here = it.versions[version]
        wanted = parse_qs(request.query).get("path") or sorted(here)
        if any(path not in here for path in wanted):
            return failed(404, "no such file")
        urls = []
        for path in wanted:
            link = f"signature={next(self.count)}"
            self.store.files[link], self.store.uses[link] = here[path], self.uses
            urls.append(f"{self.store.url}/{it.name}?{link}")
        return spoken({"urls": urls, "filepath": wanted, "paginationInfo": pages(1)})


def pages(count: int) -> dict[str, int]:
    return {
        "totalPages": max(1, -(-count // PAGE)),
        "totalResults": count,
        "index": 0,
        "size": PAGE,
    }


def spoken(told: dict[str, object]) -> Reply:
    told = {"requestStatus": {"statusCode": "SUCCESS", "requestId": "1"}, **told}
    return Reply(200, json.dumps(told).encode(), {"Content-Type": "application/json"})


def failed(status: int, words: str) -> Reply:
    told = {"requestStatus": {"statusCode": "FAILED", "requestId": "1", "statusDescription": words}}
    return Reply(status, json.dumps(told).encode(), {"Content-Type": "application/json"})
