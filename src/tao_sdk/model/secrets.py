"""Secrets: which environment variables are secret, the reference that stands for one, and the
redactor of every sink.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tao_sdk.model.lazy_pattern import lazy_compile

_SECRET_NAME = lazy_compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
# a path to a key is no key, a tokenizer no token
_NOT_SECRET = frozenset({"SSH_KEY_PATH", "TOKENIZERS_PARALLELISM"})
_ADDRESS = lazy_compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]*")
_LOGIN = lazy_compile(r"(?<=://)[^/?#]*@")
SHORTEST_REDACTED = 6  # shorter values occur in ordinary text; hiding them would hide the text


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that the caller marks as secret: `env_vars={"WANDB": Secret("...")}`. Its repr never
    shows it.
    """

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "***"


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Stands for a secret's value in every plan, row and text: the value is looked up at submit, by
    name.
    """

    name: str


def is_secret_name(name: str) -> bool:
    """True for names with KEY, TOKEN, SECRET or PASSWORD in them."""
    return name not in _NOT_SECRET and bool(_SECRET_NAME.search(name))


def split_secrets(
    env_vars: Mapping[str, str | Secret | SecretRef], marked: Iterable[str] = ()
) -> tuple[dict[str, str | SecretRef], dict[str, str]]:
    """Return (the environment with references in place of secrets, the secrets' values by name).

    A variable is secret, too, if its value contains a secret, such as an address with a password in
    it.
    """
    names = set(marked)
    known = Redactor.of_values(
        _plain_value(value) for name, value in env_vars.items() if _is_secret(name, value, names)
    )
    plain: dict[str, str | SecretRef] = {}
    values: dict[str, str] = {}
    for name, value in env_vars.items():
        if isinstance(value, SecretRef):
            plain[name] = value
        elif isinstance(value, Secret) or _is_secret(name, value, names) or known.finds_in(value):
            plain[name] = SecretRef(name)
            values[name] = _plain_value(value)
        else:
            plain[name] = value
    return plain, values


def _is_secret(name: str, value: str | Secret | SecretRef, marked: set[str]) -> bool:
    return isinstance(value, Secret) or name in marked or is_secret_name(name)


def _plain_value(value: str | Secret | SecretRef) -> str:
    """The value of the variable; "" for a reference."""
    if isinstance(value, Secret):
        return value.value
    if not isinstance(value, str):
        return ""
    return value


@dataclass(frozen=True)
class Redactor:
    """Replaces known secret values in text, also where the blanks around one are missing. The
    longest come first, so that one inside another leaves no rest.
    """

    values: tuple[str, ...] = ()

    @classmethod
    def of_values(cls, values: Iterable[str]) -> Redactor:
        forms = (form for value in values for form in (value, value.strip()))
        long_enough = {form for form in forms if len(form) >= SHORTEST_REDACTED}
        return cls(tuple(sorted(long_enough, key=len, reverse=True)))

    def __call__(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, "***")
        return text

    def finds_in(self, text: str) -> bool:
        return any(value in text for value in self.values)


def shown_target(target: object) -> Any:
    """Return a hook's target, or a setting, in a form to show: addresses without logins and without
    the values of queries.
    """
    if isinstance(target, Mapping):
        return {
            name: shown_target(value)
            for name, value in cast("Mapping[str, object]", target).items()
        }
    if isinstance(target, (list, tuple)):
        return [shown_target(word) for word in cast("Sequence[object]", target)]
    if not isinstance(target, str):
        return target
    if _ADDRESS.match(target):
        return _without_values(target)  # all of it is an address, also what a blank in it cuts off
    return _ADDRESS.sub(lambda found: _without_values(found[0]), target)


def _without_values(address: str) -> str:
    """`https://me:pw@host/hook?token=abc` -> `https://***@host/hook?token=***`."""
    place, mark, query = _LOGIN.sub("***@", address).partition("?")
    return place + mark + "&".join(map(_name_only, query.split("&")))


def _name_only(field: str) -> str:
    """`token=abc` -> `token=***`. A field without a name is hidden as a whole."""
    name, equals, value = field.partition("=")
    if value:
        return f"{name}=***"
    if equals or not field:
        return field
    return "***"


def secrets_of(target: object) -> list[str]:
    """The parts of an address that `shown_target` hides: the login, the query and its values."""
    if not isinstance(target, str):
        return []
    login = _LOGIN.search(target)
    query = target.partition("?")[2]
    values = [field.rpartition("=")[2] for field in query.split("&")]
    return [*([login[0].removesuffix("@")] if login else []), query, *values]
