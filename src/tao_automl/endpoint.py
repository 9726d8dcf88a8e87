"""Endpoint: asks a language model over HTTP, as OpenAI's chat API has it. Standard library only.

Here: one question and its answer, with retries where a server is busy. Not here: what is asked and
what an answer means (propose/language.py). The key is in the request's header and nowhere else: in
no error, no log, no redirect to another place.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from tao_automl.settings import SearchSettings
from tao_sdk.model.errors import TaoError

DEFAULT_ENDPOINT = "https://inference-api.nvidia.com"
DEFAULT_MODEL = "gcp/google/gemini-3.1-pro-preview"
PATIENCE = 120.0  # seconds for one answer, from its first byte to its last
TRIES = 3
LONGEST_WAIT = 60.0  # seconds that a busy server may ask for
LARGEST_ANSWER = 2_000_000  # bytes
LONGEST_WORDS = 300  # characters of what a server says
BUSY = (408, 429, 500, 502, 503, 504)
HIDDEN = "***"


class ModelUnusable(TaoError):
    """A language model that could not be asked; the text says what the server said."""

    code = "automl.model_unusable"


@dataclass(frozen=True)
class Endpoint:
    """Where a model is, and how it is asked. Its key is not shown by `repr`."""

    url: str = DEFAULT_ENDPOINT
    model: str = DEFAULT_MODEL
    key: str = field(default="", repr=False)
    temperature: float = 0.7
    max_tokens: int = 4096
    patience: float = PATIENCE

    @property
    def address(self) -> str:
        """The address of the chat, of an endpoint that is given with or without its path."""
        base = self.url.rstrip("/")
        if base.endswith("/chat/completions"):
            return base
        return f"{base}/chat/completions" if base.endswith("/v1") else f"{base}/v1/chat/completions"


def endpoint_of(
    settings: SearchSettings, environment: Mapping[str, str], key: str = ""
) -> Endpoint:
    """The endpoint of the settings, else of the environment, else the default one. `key`: as the
    caller gave it.
    """
    keys = (key, environment.get("AUTOML_LLM_API_KEY"), environment.get("NVIDIA_API_KEY"))
    return Endpoint(
        settings.llm_endpoint or environment.get("AUTOML_LLM_ENDPOINT") or DEFAULT_ENDPOINT,
        settings.llm_model or environment.get("AUTOML_LLM_MODEL") or DEFAULT_MODEL,
        next((one for one in keys if one), ""),
        settings.llm_temperature,
        settings.llm_max_tokens,
    )


def ask_model(
    endpoint: Endpoint,
    messages: Sequence[Mapping[str, str]],
    sleep: Callable[[float], object] = time.sleep,
) -> str:
    """The model's text. A busy server is asked again, TRIES times in all.

    Raises ModelUnusable, without the key, for a server that cannot be reached, is silent for longer
    than `endpoint.patience` seconds, refuses, or answers what is no chat.
    """
    for attempt in range(TRIES):
        try:
            return text_of(endpoint, answered(endpoint, messages))
        except urllib.error.HTTPError as error:
            if error.code not in BUSY or attempt + 1 == TRIES:
                raise refused(endpoint, error) from None
            sleep(wait_of(error, attempt))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise unreachable(endpoint, error) from None
    raise AssertionError("the last try returns or raises")


def answered(endpoint: Endpoint, messages: Sequence[Mapping[str, str]]) -> bytes:
    body = {
        "model": endpoint.model,
        "messages": [dict(message) for message in messages],
        "temperature": endpoint.temperature,
        "max_tokens": endpoint.max_tokens,
    }
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if endpoint.key:
        headers["Authorization"] = f"Bearer {endpoint.key}"
    request = urllib.request.Request(endpoint.address, json.dumps(body).encode(), headers)
    if request.type not in ("http", "https"):
        raise ValueError("an endpoint is an http:// or https:// address")
    deadline = time.monotonic() + endpoint.patience
    with OPENER.open(request, timeout=endpoint.patience) as answer:
        return read_until(answer, deadline)


def read_until(answer: IO[bytes], deadline: float) -> bytes:
    """The whole answer. Raises TimeoutError for one that trickles, ValueError for one too large."""
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(65536) if isinstance(answer, http.client.HTTPResponse) else b"":
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            raise ValueError(f"its answer is larger than {LARGEST_ANSWER} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("its answer did not end in time")
    return b"".join(parts)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other: the key goes to no other place."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str):  # noqa: ARG002
        return None


OPENER = urllib.request.build_opener(_NoRedirect)


def text_of(endpoint: Endpoint, answer: bytes) -> str:
    """Raises ModelUnusable for an answer that is no chat."""
    try:
        found = json.loads(answer)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        found = None
    if not isinstance(found, str):
        words = safe_words(endpoint, answer)
        raise ModelUnusable(f"{endpoint.model} answered what is no chat: {words}")
    return found


def wait_of(error: urllib.error.HTTPError, attempt: int) -> float:
    """Seconds until the next try: what the server asks for, else 1, 2, 4."""
    try:
        asked = float(error.headers.get("Retry-After", ""))
    except (ValueError, AttributeError):
        asked = 2.0**attempt
    return min(max(asked, 0.0), LONGEST_WAIT)


def refused(endpoint: Endpoint, error: urllib.error.HTTPError) -> ModelUnusable:
    try:
        words = safe_words(endpoint, error.read(LARGEST_ANSWER))
    except (OSError, http.client.HTTPException):
        words = ""
    what = f"{endpoint.address} answered {error.code} to {endpoint.model}: {words or error.reason}"
    return ModelUnusable(hidden(endpoint, what), next=advice(error.code))


def advice(code: int) -> str:
    if code in (401, 403):
        return "Set AUTOML_LLM_API_KEY or NVIDIA_API_KEY to a key that may use this model."
    if code == 404:
        return "Check llm_endpoint and llm_model."
    return ""


def unreachable(endpoint: Endpoint, error: Exception) -> ModelUnusable:
    reason = getattr(error, "reason", None) or error
    words = "no answer in time" if isinstance(reason, TimeoutError) else str(reason)
    return ModelUnusable(hidden(endpoint, f"{endpoint.address} could not be asked: {words}"))


def safe_words(endpoint: Endpoint, answer: bytes) -> str:
    text = " ".join(answer.decode("utf-8", "replace").split())
    return hidden(endpoint, text)[:LONGEST_WORDS]


def hidden(endpoint: Endpoint, text: str) -> str:
    """The text without the key, however much of it a server repeats."""
    return text.replace(endpoint.key, HIDDEN) if endpoint.key else text
