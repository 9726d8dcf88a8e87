"""What a look at the tests' cluster says, kept where a client looks first: not every test has to
ask for it anew.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from support.cluster import cluster_here
from tao_sdk.backends.slurm.backend import SlurmBackend
from tao_sdk.backends.slurm.cluster import site, survey
from tao_sdk.model.settings import Settings
from tao_sdk.transports.ssh import Ssh


@functools.cache
def seen() -> survey.Sections:
    settings = Settings(cluster_here.surroundings(cluster_here.place()))
    answer = Ssh(site.read_login(settings)).run(survey.survey_script(site.read_site(settings)))
    return survey.split_sections(answer.text)


def keep(surroundings: Mapping[str, str], state: Path) -> None:
    """For who has these surroundings and this folder for his state, the cluster was looked at a
    moment ago.
    """
    backend = SlurmBackend(Settings(surroundings), state)
    base = backend.site.base
    kept = survey.CachedAnswer(time.time(), base, {**seen(), "base": base})
    backend.surveys.write_cache(
        backend.surveys.cache_path(backend.endpoint), json.dumps(asdict(kept))
    )
