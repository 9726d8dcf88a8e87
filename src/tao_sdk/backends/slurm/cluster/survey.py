"""Survey: read the facts about a cluster with one script, and cache its answer."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from tao_sdk.backends.shell import assign_variables, join_parts
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.errors import ControllerSilent
from tao_sdk.model.units import parse_duration
from tao_sdk.store.private_files import make_folders

FRESH_SECONDS = 600.0
NEW_SECONDS = 5.0  # an answer this young need not be read again
KILL_WAIT = 30  # seconds; SLURM's default
SECTION = "=== "
Sections = Mapping[str, str]


def survey_script(site: Site) -> str:
    """scripts/survey.sh: collects all facts about a cluster."""
    values = {"base": site.base, "images": site.sqsh_cache}
    return join_parts(assign_variables(values), load_script("survey"))


def split_sections(text: str) -> dict[str, str]:
    parts = re.split(rf"^{SECTION}(\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def read_facts(seen: Sections, site: Site, seen_at: datetime) -> SlurmFacts:
    """Build the facts from the script's sections. Pure.

    Raises ControllerSilent if this is no cluster, or its controller does not answer.
    """
    config = read_settings(seen["config"])
    if "ClusterName" not in config:
        raise ControllerSilent(
            "SLURM does not answer on the login node.",
            "scontrol is not there, or the controller is down.",
            "Log in and try: scontrol ping. If SLURM's programs lie elsewhere, add them to "
            "PATH in ~/.bashrc there.",
        )
    longest_times = read_wall_limits(seen["accounts"]) if heeds_limits(config) else {}
    return SlurmFacts(
        site=site,
        seen_at=seen_at,
        cluster=config["ClusterName"],
        version=config.get("SLURM_VERSION", ""),
        user=seen["user"].strip(),
        base=seen["base"].strip() or site.base,
        partitions=read_partitions(seen["partitions"], seen["nodes"]),
        accounting="slurmdbd" in config.get("AccountingStorageType", ""),
        kill_wait=leading_number(config.get("KillWait", "")) or KILL_WAIT,
        accounts=read_account_names(seen["accounts"]),
        longest_times=longest_times,
        default_qos=read_default_qos(seen["accounts"]),
        # A cached answer of an older release lacks it.
        parent_accounts=read_ancestors(seen.get("above", "")),
        qos=read_qos_limits(seen["qos"]),
        pyxis="--container-image" in seen["flags"],
        programs=tuple(seen["programs"].split()),
        folders=tuple(seen["folders"].split()),
        # A cached answer of an older release lacks it.
        images=tuple(seen.get("images", "").splitlines()),
    )


def read_account_names(text: str) -> tuple[str, ...]:
    """The user's accounts without repeats, from lines `account|...`."""
    rows = (line.partition("|") for line in text.splitlines())
    return tuple(dict.fromkeys(account for account, bar, _ in rows if bar))


def read_qos_limits(text: str) -> dict[str, timedelta | None]:
    """qos -> the longest time of its jobs, from lines `qos|maxwall`."""
    rows = [line.split("|") for line in text.splitlines() if "|" in line]
    return {cells[0]: read_time_limit(cells[1]) for cells in rows}


def heeds_limits(config: Mapping[str, str]) -> bool:
    """True if the cluster enforces the limits of accounts. Many sites only record usage."""
    return re.search(r"limits|safe|all", config.get("AccountingStorageEnforce", "")) is not None


def is_new(facts: SlurmFacts) -> bool:
    return datetime.now(timezone.utc) - facts.seen_at < timedelta(seconds=NEW_SECONDS)


def read_settings(text: str) -> dict[str, str]:
    """Name -> value, from lines `Name = value`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def read_partitions(shown: str, nodes: str) -> dict[str, Partition]:
    """The partitions in scontrol's lines, with sinfo's figures for their largest nodes."""
    known: dict[str, Partition] = {}
    for line in shown.splitlines():
        words = read_words(line)
        if "PartitionName" in words:
            known[words["PartitionName"]] = read_partition(words)
    for line in nodes.splitlines():
        cells = line.split("|")
        if len(cells) == 4 and cells[0] in known:
            known[cells[0]] = with_nodes(known[cells[0]], cells)
    return known


def read_words(line: str) -> dict[str, str]:
    """Name -> value, from the `Name=value` words of a line."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def read_partition(words: Mapping[str, str]) -> Partition:
    own_qos = words.get("QoS", "N/A")
    return Partition(
        name=words["PartitionName"],
        max_time=read_time_limit(words.get("MaxTime", "")),
        max_nodes=leading_number(words.get("MaxNodes", "")),
        most_cpus=leading_number(words.get("MaxCPUsPerNode", "")),
        default=words.get("Default") == "YES",
        up=words.get("State", "UP") == "UP",
        accounts=read_names(words.get("AllowAccounts", "ALL")),
        denied=read_names(words.get("DenyAccounts", "ALL")),
        qos=read_names(words.get("AllowQos", "ALL")),
        denied_qos=read_names(words.get("DenyQos", "ALL")),
        own_qos="" if own_qos == "N/A" else own_qos,
    )


def read_names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list; () for ALL, which means no limit."""
    if text == "ALL":
        return ()
    return tuple(text.split(","))


def read_wall_limits(text: str) -> dict[str, timedelta]:
    """Account -> the longest time of its jobs.

    An account without a limit in some partition has none here.
    """
    rows = [(cells[0], read_time_limit(cells[3])) for cells in read_associations(text)]
    unlimited = {account for account, limit in rows if limit is None}
    longest: dict[str, timedelta] = {}
    for account, limit in rows:
        if limit is not None and account not in unlimited:
            longest[account] = max(limit, longest.get(account, limit))
    return longest


def read_default_qos(text: str) -> dict[str, str]:
    """Account -> the qos of its jobs that name none."""
    return {cells[0]: cells[4] for cells in read_associations(text) if cells[4]}


def read_associations(text: str) -> list[list[str]]:
    """The cells of lines `account|partition|qos|maxwall|defaultqos`.

    A cached answer of an older release lacks the last two. Its lines are left out.
    """
    rows = (line.split("|") for line in text.splitlines())
    return [cells for cells in rows if len(cells) == 5]


def read_ancestors(text: str) -> dict[str, frozenset[str]]:
    """Account -> all accounts above it, from lines `account|parent`.

    An account may be in the trees of several clusters.
    """
    pairs: set[tuple[str, str]] = set()
    for line in text.splitlines():
        account, bar, parent = line.partition("|")
        if bar:
            pairs.add((account, parent))
    return {account: find_ancestors(account, pairs) for account, _ in pairs}


def find_ancestors(account: str, pairs: Collection[tuple[str, str]]) -> frozenset[str]:
    """All accounts above an account, from pairs (account, parent)."""
    known = {account}
    while more := {parent for child, parent in pairs if child in known} - known:
        known |= more
    return frozenset(known - {account, ""})


def with_nodes(known: Partition, cells: list[str]) -> Partition:
    _, count, cpus, gres = cells
    most_cpus = max(known.cpus, leading_number(cpus) or 0)
    if known.most_cpus is not None:
        most_cpus = min(most_cpus, known.most_cpus)
    return replace(
        known,
        nodes=known.nodes + (leading_number(count) or 0),
        cpus=most_cpus,
        gpus=max(known.gpus, count_gpus(gres)),
    )


def count_gpus(gres: str) -> int:
    """The GPUs in a GRES text, such as `gpu:8`, `gpu:a100:4(S:0-1),nvme:1` or `(null)`."""
    plain = re.sub(r"\([^)]*\)", "", gres)
    counts = (re.fullmatch(r"gpu(?::[^:,]+)?:(\d+)", each) for each in plain.split(","))
    return sum(int(count[1]) for count in counts if count)


def read_time_limit(text: str) -> timedelta | None:
    """Parse a time such as `04:00:00`, `2-00:00:00`, `30:00`.

    None for UNLIMITED, INFINITE and an empty text.
    """
    text = text.strip()
    if re.fullmatch(r"\d+:\d+", text):
        text = f"00:{text}"
    try:
        return parse_duration(text)
    except ValueError:
        return None


def leading_number(text: str) -> int | None:
    """The number at the start of `12`, `128+`, `30 sec`; None for UNLIMITED."""
    match = re.match(r"\d+", text)
    if not match:
        return None
    return int(match[0])


@dataclass(frozen=True)
class CachedAnswer:
    """A cluster's answer in the cache, with its time and its base directory."""

    time: float
    base: str
    seen: dict[str, str]

    def parse_facts(self, site: Site) -> SlurmFacts:
        return read_facts(self.seen, site, datetime.fromtimestamp(self.time, timezone.utc))


class Surveys:
    """A cluster's answers, cached beside the store so that a submit takes one round trip."""

    def __init__(self, folder: Path, ask: Callable[[str], str]) -> None:
        self.folder, self.ask = folder, ask

    def cache_path(self, name: str) -> Path:
        return self.folder / f"{re.sub(r'[^A-Za-z0-9_.@-]', '_', name)}.facts.json"

    def has_cached(self, name: str) -> bool:
        return self.cache_path(name).exists()

    def cached_facts(self, site: Site, name: str) -> SlurmFacts | None:
        """The facts in the cached answer, of any age; None if there is none.

        Good enough for facts that a site hardly ever changes.
        """
        cached = self.read_cache(self.cache_path(name), site, math.inf)
        if cached is None:
            return None
        return cached.parse_facts(site)

    def current_facts(self, site: Site, name: str, fresh: bool = False) -> SlurmFacts:
        """The facts in the cached answer while it is young, else in a new one.

        `fresh`: ask for a new answer in any case.
        """
        path = self.cache_path(name)
        cached = None if fresh else self.read_cache(path, site)
        if cached is not None:
            return cached.parse_facts(site)
        answer = CachedAnswer(time.time(), site.base, split_sections(self.ask(survey_script(site))))
        facts = answer.parse_facts(site)
        self.write_cache(path, json.dumps(asdict(answer)))
        return facts

    def read_cache(
        self, path: Path, site: Site, seconds: float = FRESH_SECONDS
    ) -> CachedAnswer | None:
        """The cached answer; None if it is older than `seconds`, or for another base."""
        try:
            record = CachedAnswer(**json.loads(path.read_text()))
            is_young = 0 <= time.time() - record.time < seconds
        except (OSError, ValueError, TypeError):
            return None
        if not is_young or record.base != site.base:
            return None
        return record

    def write_cache(self, path: Path, text: str) -> None:
        """Write the cache. If the folder is not writable, the next call asks the cluster again."""
        try:
            make_folders(self.folder)
            partial = path.with_name(f".{path.name}.{os.getpid()}")
            partial.write_text(text)
            partial.replace(path)
        except OSError:
            return
