"""The modules that the scripts of a bank need if nothing is installed: a part of this package, and
PyYAML without its compiled half.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
LIBRARY = "scripts/lib"  # below a bank
# They run on Python 3.8, as tests/skills/test_scripts.py sees to.
MODULES = (
    "__init__",
    "backends/__init__",
    "backends/daemon_machine",
    "backends/image_name",
    "client/__init__",
    "client/document",
    "model/__init__",
    "model/credentials",
    "model/errors",
    "model/finding",
    "model/lazy_pattern",
    "model/machines",
    "model/printable",
    "model/reasons",
    "model/surroundings",
    "model/units",
    "preflight/__init__",
    "preflight/access",
    "preflight/annotations",
    "preflight/commands",
    "preflight/credentials",
    "preflight/datasets",
    "preflight/docker_access",
    "preflight/gpus",
    "preflight/host_needs",
    "preflight/images",
    "preflight/kubectl_trouble",
    "preflight/kubernetes_access",
    "preflight/launch",
    "preflight/lepton_access",
    "preflight/local_access",
    "preflight/places",
    "preflight/platforms",
    "preflight/registry",
    "preflight/registry_login",
    "preflight/requirements",
    "preflight/slurm_access",
    "skills/__init__",
    "skills/action_reader",
    "skills/automl",
    "skills/bank",
    "skills/bank_file",
    "skills/data_reader",
    "skills/errors",
    "skills/images",
    "skills/launch_script",
    "skills/loader",
    "skills/manifest",
    "skills/models",
    "skills/names",
    "skills/needs_reader",
    "skills/node",
    "skills/outline",
    "skills/platforms",
    "skills/readable",
    "skills/scripts",
    "skills/skill",
    "skills/views",
    "versions",
)


def script_modules() -> Iterator[tuple[str, bytes]]:
    """Path below the bank -> content."""
    for module in MODULES:
        yield f"{LIBRARY}/tao_sdk/{module}.py", (PACKAGE / f"{module}.py").read_bytes()
    for path in sorted((PACKAGE / "net").glob("*.py")):
        yield f"{LIBRARY}/tao_sdk/net/{path.name}", path.read_bytes()
    for path in yaml_modules():
        yield f"{LIBRARY}/yaml/{path.name}", path.read_bytes()


def yaml_modules() -> list[Path]:
    import yaml

    return sorted(Path(yaml.__file__).parent.glob("*.py"))
