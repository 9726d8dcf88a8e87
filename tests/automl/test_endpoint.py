"""The endpoint of a language model, against a server that is slow, wrong, silent or busy."""

from __future__ import annotations

from typing import Any

import pytest

from support.language_model import LanguageModel, chat
from tao_automl.endpoint import Endpoint, ModelUnusable, ask_model, endpoint_of
from tao_automl.settings import read_settings

KEY = "nvapi-very-secret-key"
MESSAGES = ({"role": "user", "content": "hello"},)


def endpoint(server: LanguageModel, patience: float = 5.0) -> Endpoint:
    return Endpoint(f"{server.address}/v1", "small", KEY, patience=patience)


def test_the_answer_is_the_models_text(language_model: LanguageModel) -> None:
    language_model.script = [(200, {}, chat("fine"))]
    assert ask_model(endpoint(language_model), MESSAGES) == "fine"
    path, headers, body = language_model.seen[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body["messages"] == [dict(MESSAGES[0])]
    assert body["model"] == "small"


def test_a_busy_server_is_asked_again_after_the_time_it_names(
    language_model: LanguageModel,
) -> None:
    language_model.script = [
        (429, {"Retry-After": "7"}, b"slow down"),
        (503, {}, b""),
        (200, {}, chat("ok")),
    ]
    waits: list[float] = []
    assert ask_model(endpoint(language_model), MESSAGES, waits.append) == "ok"
    assert waits == [7.0, 2.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ([(401, {}, f"bad key {KEY}".encode())], ["401", "bad key ***", "AUTOML_LLM_API_KEY"]),
        ([(404, {}, b"no such model")], ["404", "no such model", "llm_model"]),
        ([(429, {}, b"busy")] * 3, ["429", "busy"]),
        ([(200, {}, b"<html>")], ["no chat", "<html>"]),
        ([(200, {}, b'{"choices": []}')], ["no chat"]),
        ([(302, {"Location": "http://127.0.0.1:1/steal"}, b"")], ["302"]),
        ([("silent", {}, 1.5)], ["no answer in time"]),
        ([(200, {}, [b" "] * 15)], ["time"]),
    ],
)
def test_what_cannot_be_used_says_why_without_the_key(
    language_model: LanguageModel, script: list[Any], words: list[str]
) -> None:
    language_model.script = list(script)
    with pytest.raises(ModelUnusable) as caught:
        ask_model(endpoint(language_model, patience=0.6), MESSAGES, lambda _: None)
    text = f"{caught.value} {caught.value!r} {caught.value.__context__} {caught.value.__cause__}"
    assert KEY not in str(caught.value) + repr(caught.value)
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "file:///etc/passwd", "nonsense", "http://[::"]
)
def test_an_address_that_is_none_says_so(url: str) -> None:
    with pytest.raises(ModelUnusable, match="could not be asked"):
        ask_model(Endpoint(url, key=KEY, patience=2), MESSAGES, lambda _: None)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://x.test", "https://x.test/v1/chat/completions"),
        ("https://x.test/v1/", "https://x.test/v1/chat/completions"),
        ("https://x.test/a/chat/completions", "https://x.test/a/chat/completions"),
    ],
)
def test_an_endpoint_may_be_given_with_or_without_its_path(url: str, address: str) -> None:
    assert Endpoint(url).address == address


def test_settings_win_over_the_environment_and_the_key_is_not_shown() -> None:
    environment = {
        "AUTOML_LLM_MODEL": "env",
        "NVIDIA_API_KEY": KEY,
        "AUTOML_LLM_ENDPOINT": "http://e",
    }
    found = endpoint_of(read_settings({"llm_model": "mine"}), environment)
    assert (found.model, found.url, found.key) == ("mine", "http://e", KEY)
    assert KEY not in repr(found)
    assert endpoint_of(read_settings({}), environment, "given").key == "given"
