"""Places: the backends of one store's jobs, each opened when it is first needed, and then reused.

A place is named by a platform (as the settings say), by an endpoint of config.yaml, or by a job
that lives on it. The settings for a job's place are those of its endpoint in config.yaml, else the
user's settings, else those that the store remembers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from tao_sdk.backends.by_name import endpoints, is_known, open_backend, platform_name, unknown
from tao_sdk.backends.contract import AnyBackend, FoundAgain
from tao_sdk.model.endpoint import NamedEndpoint, chosen_settings, own_settings
from tao_sdk.model.errors import TaoError, Unreachable
from tao_sdk.model.job import Endpoint
from tao_sdk.model.settings import Settings
from tao_sdk.store import Store


class Places:
    """The open backends, by name and by endpoint. Safe to use from several threads. Opening a
    backend asks nothing of its place.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        by_endpoint: dict[Endpoint, AnyBackend] | None = None,
    ) -> None:
        self._settings, self._store = settings, store
        self._by_name: dict[str, AnyBackend] = {}
        self._by_options: dict[tuple[Any, ...], AnyBackend] = {}
        self._by_endpoint: dict[Endpoint, AnyBackend] = {} if by_endpoint is None else by_endpoint
        self._opening = threading.RLock()

    @cached_property
    def endpoints(self) -> Mapping[str, NamedEndpoint]:
        """The named endpoints."""
        return endpoints(self._settings)

    def named(self, name: str) -> AnyBackend:
        """Return the backend of an endpoint's or a platform's name. Raises UsageError for any other
        name.
        """
        with self._opening:
            if name not in self._by_name:
                self._by_name[name] = self._opened(name)
            return self._by_name[name]

    def chosen(self, name: str, options: Mapping[str, Any]) -> AnyBackend:
        """Return the backend that a job's options choose, else the named one. Raises the backend's
        error if the options lead to no place.
        """
        platform, settings = self._settings_of(name)
        wanted = chosen_settings(platform, options)
        if not wanted:
            return self.named(name)
        with self._opening:
            key = (name, *wanted.items())
            if key not in self._by_options:
                kept = {
                    each: value for each in own_settings(platform) if (value := settings.get(each))
                }
                place = settings.at_place(platform, {**kept, **wanted})
                self._by_options[key] = open_backend(platform, place)
            backend = self._by_options[key]
            self._by_endpoint[platform, backend.endpoint] = backend
            return backend

    def at(self, platform: str, endpoint: str) -> AnyBackend:
        """Return the backend that the jobs of that endpoint live on. Raises Unreachable if no
        settings lead there any more.
        """
        key = (platform, endpoint)
        with self._opening:
            if key not in self._by_endpoint:
                self._by_endpoint[key] = self._found(platform, endpoint)
            return self._by_endpoint[key]

    def name_of(self, platform: str, endpoint: str) -> str:
        """The name of that endpoint in config.yaml; "" if it has none."""
        names = (name for name, each in self.endpoints.items() if each.platform == platform)
        return next((name for name in names if self._is_at(name, endpoint)), "") if endpoint else ""

    def remember(self, backend: AnyBackend) -> None:
        """Store how the backend's place was reached, for processes with other settings."""
        if isinstance(backend, FoundAgain):
            self._store.remember_way((backend.platform, backend.endpoint), backend.way)

    def close(self) -> None:
        with self._opening:
            known = (self._by_name, self._by_options, self._by_endpoint)
            opened = {id(each): each for backends in known for each in backends.values()}
        for backend in opened.values():
            backend.close()

    def _opened(self, name: str) -> AnyBackend:
        platform, settings = self._settings_of(name)
        if name not in self.endpoints and name != platform:
            return self.named(platform)
        return open_backend(platform, settings)

    def _settings_of(self, name: str) -> tuple[str, Settings]:
        """Return (platform, settings) for an endpoint's or a platform's name. Raises as `named`."""
        endpoint = self.endpoints.get(name)
        if endpoint is not None:
            place = self._settings.at_place(endpoint.platform, endpoint.read_settings())
            return endpoint.platform, place
        platform = platform_name(name)
        if not is_known(platform):
            raise unknown(name, self.endpoints)
        return platform, self._settings

    def _found(self, platform: str, endpoint: str) -> AnyBackend:
        for backend in self._candidates(platform, endpoint):
            with suppress(TaoError):  # its settings lead nowhere
                if backend.endpoint == endpoint:
                    return backend
        here = self.named(platform)  # if the settings lead nowhere, its own error says more
        raise Unreachable(
            f"This job lives on {endpoint}, and {platform} here means {here.endpoint}.",
            "",
            "Use it from there, or with the settings it was submitted with.",
        )

    def _candidates(self, platform: str, endpoint: str) -> Iterator[AnyBackend]:
        """Yield the backends that may be the place, the likeliest first. Skips those that do not
        open.
        """
        named = [name for name, each in self.endpoints.items() if each.platform == platform]
        for name in (*named, platform):
            with suppress(TaoError):
                yield self.named(name)
        if way := self._store.way_to((platform, endpoint)):
            with suppress(TaoError):
                yield open_backend(platform, self._settings.at_place(platform, way))

    def _is_at(self, name: str, endpoint: str) -> bool:
        with suppress(TaoError):
            return self.named(name).endpoint == endpoint
        return False
