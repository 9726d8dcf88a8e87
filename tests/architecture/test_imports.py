"""The architecture, kept by tests: which way imports run, and what may be loaded."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tao_sdk.backends.by_name import ALIASES, BUILT_IN, NOT_BUILT

SOURCE = Path(__file__).parents[2] / "src" / "tao_sdk"

# Lowest first: a layer may import those before it, and itself.
LAYERS = [
    {"skill_bank"},  # programs that travel with jobs: they import nothing of ours
    {"net"},
    {"runner"},
    {"model"},
    {"transports", "store"},
    {"payload"},
    {"backends"},
    {"engine"},
    {"client", "preflight", "skills", "versions"},
    {"platforms", "cli", "skill_bank/scripts"},
]
PUBLIC = {
    "script_runner": {"net", "runner", "model", "payload"},
    "versions": {"model"},
    "action_workflow": {"model"},
}
THIRD_PARTY = ("yaml", "click", "rich", "docker", "kubernetes", "numpy", "optuna")


def allowed(layer: str) -> set[str]:
    if layer in PUBLIC:
        return PUBLIC[layer] | {layer}
    below: set[str] = set()
    for names in LAYERS:
        below |= names
        if layer in names:
            return below
    raise AssertionError(f"{layer} has no place in LAYERS: say where it belongs")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports_of(path: Path) -> set[str]:
    """Every tao_sdk layer that a file imports, wherever in the file."""
    return {name.split(".")[1] for name in modules_of(path)}


def modules_of(path: Path) -> set[str]:
    """The full name of everything of tao_sdk that a file imports, wherever in the file."""
    found: set[str] = set()
    package = path.relative_to(SOURCE.parent).with_suffix("").parts
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level]) if node.level else []
            full = ".".join([*base, node.module or ""]).strip(".")
            names = [f"{full}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name for name in names if name.startswith("tao_sdk.")}
    return found


FILES = sorted(
    path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem in PUBLIC
)


ROOMS = {path.name for path in SOURCE.iterdir() if path.is_dir()} | {
    path.stem for path in SOURCE.glob("*.py")
}


@pytest.mark.slow
def test_imports_run_one_way() -> None:
    wrong = {name_of(path): names for path in FILES if (names := imported_from_above(path))}
    assert not wrong, "these import from a layer above their own"


def imported_from_above(path: Path) -> set[str]:
    return (imports_of(path) & ROOMS) - allowed(layer_of(path))


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def layer_of(path: Path) -> str:
    """The folder below the package; the scripts of the skill bank are programs that start ours."""
    first, second, *_ = (*path.relative_to(SOURCE).with_suffix("").parts, "")
    return f"{first}/{second}" if (first, second) == ("skill_bank", "scripts") else first


AUTOML = SOURCE.parent / "tao_automl"
# The search itself is pure: it knows what a number means, and no job. Lowest first, as LAYERS.
AUTOML_LAYERS = [
    {"near"},
    {"trial"},
    {"decisions", "settings", "space"},
    {"state"},
    {"rungs"},
    {"propose"},
    {"algorithms", "reports", "endpoint"},
    {"search"},
    {"template"},
    {"stored"},
    {"recommendation", "network_schema", "report", "called", "result_text"},
    {"sessions", "session_settings", "told_results", "job_records", "evaluations"},
    {"store", "artifacts", "retention"},
    {"job_report"},
    {"drive"},
    {"search_file", "views", "skill_search"},
    {"workspace"},
    {"status_query"},
    {"automl", "runner", "runner_plan"},
]
# These keep a search and carry it out, by the jobs of a client; the command is `tao automl`.
AUTOML_EDGE = {
    *("store", "artifacts", "retention", "job_report", "drive", "search_file", "views"),
    *("sessions", "network_schema", "automl"),
    *("skill_search", "job_records", "workspace", "status_query", "runner", "runner_plan"),
}
AUTOML_DOORS = {"cli/automl.py"}
AUTOML_FILES = sorted(
    path for path in AUTOML.rglob("*.py") if path.parent != AUTOML or path.stem != "__init__"
)


def automl_layer_of(path: Path) -> str:
    return path.relative_to(AUTOML).with_suffix("").parts[0]


@pytest.mark.slow
def test_imports_of_the_search_run_one_way() -> None:
    places = {name: place for place, names in enumerate(AUTOML_LAYERS) for name in names}
    wrong = [
        f"{path.relative_to(AUTOML)} imports {name}"
        for path in AUTOML_FILES
        for name in automl_modules_of(path)
        if places[name] > places[automl_layer_of(path)]
    ]
    assert not wrong, "these import from a layer above their own"


def automl_modules_of(path: Path) -> set[str]:
    """The modules and folders of tao_automl that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.startswith("tao_automl")
        ):
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name.split(".")[1] for name in full}
    return found


def test_the_search_knows_of_the_sdk_only_its_model() -> None:
    pure = [path for path in AUTOML_FILES if automl_layer_of(path) not in AUTOML_EDGE]
    imported = {name for path in pure for name in modules_of(path)}
    assert not {name for name in imported if not name.startswith("tao_sdk.model.")}


@pytest.mark.slow
def test_the_sdk_knows_nothing_of_the_search() -> None:
    knowing = {name_of(path) for path in SOURCE.rglob("*.py") if automl_modules_of(path)}
    assert not knowing - AUTOML_DOORS


BACKENDS = sorted(path for path in (SOURCE / "backends").glob("*/**/*.py"))
SHARED = {
    "containers": {"docker"}
}  # a folder of backends/ that is none -> the backends that may import it
MOST_FILES = 10  # in a folder of a backend: so many tell a story


@pytest.mark.slow
def test_no_backend_imports_another() -> None:
    wrong = {name_of(path): names for path in BACKENDS if (names := imported_neighbours(path))}
    assert not wrong, "what two backends share lies beside them, in backends/"


def imported_neighbours(path: Path) -> set[str]:
    own, others = backend_of(path), {backend_of(each) for each in BACKENDS}
    imported = {
        name.split(".")[2] for name in modules_of(path) if name.startswith("tao_sdk.backends.")
    }
    shared = {name for name, users in SHARED.items() if own in users}
    return imported & (others - {own} - shared)


BACKEND_FILES = sorted((SOURCE / "backends").rglob("*.py"))


def test_a_backend_reads_a_jobs_inputs_and_outputs_from_its_data() -> None:
    """A spec is read once, into PreparedJob.data."""
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path in BACKEND_FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and is_declaration(node)
    ]
    assert not wrong, "these lines read the spec again: use the job's data"


def is_declaration(node: ast.Attribute) -> bool:
    """True for `spec.inputs`, `job.spec.outputs` and the like."""
    holder = node.value
    owner = holder.id if isinstance(holder, ast.Name) else getattr(holder, "attr", "")
    return owner == "spec" and node.attr in ("inputs", "outputs")


ALWAYS_OURS = {"TAO_JOB_ID", "TAO_ATTEMPT", "TAO_RESULTS_DIR", "TAO_GRACE", "TAO_GRACE_FILE"}


def test_one_module_sets_the_variables_that_every_job_gets() -> None:
    writers = {path.name for path in BACKEND_FILES if keys_of(path) & ALWAYS_OURS}
    assert writers == {"job_environment.py"}, "the others use backends/job_environment.py"


def keys_of(path: Path) -> set[object]:
    """The constants that are keys of dictionaries in a file."""
    return {
        key.value
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }


# A door is a package through which a person or a program comes in; `platforms` holds the classes of
# the published API, which name their backends. A page or a tool server gets its line here.
DOORS = ("cli",)
DOORS_MAY_IMPORT = {"client", "model", "skills", "versions"}
DOOR_FILES = sorted(path for door in DOORS for path in (SOURCE / door).rglob("*.py"))


def test_a_door_reaches_into_no_engine_store_backend_or_other_door() -> None:
    """Every other door (a page, a tool server) needs what it would find there, so the client has
    it.
    """
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()} | PUBLIC.keys()
    wrong = {
        name_of(path): beyond
        for path in DOOR_FILES
        if (beyond := (imports_of(path) & rooms) - DOORS_MAY_IMPORT - {layer_of(path)})
    }
    assert not wrong, "let client/ do that for all doors"


def test_a_door_asks_the_client_and_not_what_the_client_is_made_of() -> None:
    wrong = [
        f"{name_of(path)}:{node.lineno} uses client.{node.attr}"
        for path in DOOR_FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "client"
        and node.attr in ("engine", "store")
    ]
    assert not wrong, "let client/ have a function for it"


def backend_of(path: Path) -> str:
    return path.relative_to(SOURCE / "backends").parts[0]


BACKEND_FOLDERS = sorted({path.parent for path in BACKENDS})


def name_of_folder(folder: Path) -> str:
    return str(folder.relative_to(SOURCE / "backends"))


def count_files(folder: Path) -> int:
    return len([path for path in folder.glob("*.py") if path.name != "__init__.py"])


@pytest.mark.parametrize("folder", BACKEND_FOLDERS, ids=name_of_folder)
def test_a_backends_folder_tells_its_story_in_ten_files(folder: Path) -> None:
    assert count_files(folder) <= MOST_FILES


@pytest.mark.parametrize("folder", BACKEND_FOLDERS, ids=name_of_folder)
def test_the_page_of_backends_counts_the_files_of_each_folder(folder: Path) -> None:
    page = (SOURCE.parents[1] / "docs" / "backends.md").read_text()
    name = re.escape(name_of_folder(folder))
    row = re.search(rf"^\| \[?`{name}/`[^|]*\| (\d+) files", page, re.M)
    assert row is not None, f"the table of folders has no row for {name}/"
    assert int(row[1]) == count_files(folder)


# A door may name a platform whose words people type or read: `sbatch`, `slurm://`, the GPUs of a
# machine with Docker. None has to be added for a new platform.
MAY_NAME = {
    "cli/doctor.py": {"docker", "slurm"},
    "cli/habits.py": {"docker", "slurm"},
    "cli/results.py": {"slurm"},
    "cli/usage_advice.py": {"docker"},
    "client/client.py": {"slurm"},
    "client/first_job_file.py": {"slurm"},
    "client/job_file.py": {"slurm"},
    "client/platform_sdk.py": {"docker", "slurm"},
    "client/results.py": {"slurm"},
    "client/smoke.py": {"docker"},
}


def test_what_serves_all_platforms_names_none() -> None:
    """Rules that only one platform needs live in its folder. `local` is also a word."""
    names = {*BUILT_IN, *NOT_BUILT, *ALIASES, "kubectl"} - {"local"}
    wrong = [
        f"{name_of(path)}: {', '.join(found)}"
        for room in ("engine", "client", "cli")
        for path in sorted((SOURCE / room).rglob("*.py"))
        if (found := sorted(names_in(path, names) - MAY_NAME.get(name_of(path), set())))
    ]
    assert not wrong, "let the registry or the backend say it"
    needed = {file for file, may in MAY_NAME.items() if names_in(SOURCE / file, names) >= may}
    assert needed == MAY_NAME.keys(), "these need not name a platform any more"


def names_in(path: Path, names: set[str]) -> set[str]:
    text = path.read_text().lower()
    return {name for name in names if name in text}


def test_a_way_to_other_hosts_names_no_platform_that_uses_it() -> None:
    """What a setting is called is the backend's to say."""
    text = (SOURCE / "transports" / "ssh.py").read_text().lower()
    assert [
        word for word in ("slurm", "brev", "cluster", "login node", "login host") if word in text
    ] == []


def test_every_layer_that_exists_has_its_place() -> None:
    known = set().union(*LAYERS)
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders <= known


def loaded_by(statement: str) -> set[str]:
    return {name.split(".")[0] for name in modules_loaded_by(statement)}


def modules_loaded_by(statement: str) -> list[str]:
    script = f"import sys\n{statement}\nprint(*sys.modules, sep='\\n')"
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return answer.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import tao_sdk",
        "import tao_sdk; tao_sdk.Client",
        "import tao_sdk.platforms.local",
        "import tao_sdk.script_runner",
        "import tao_automl",
        "import tao_automl; tao_automl.advance",
    ],
)
def test_importing_the_sdk_loads_no_third_party_module(statement: str) -> None:
    assert not loaded_by(statement) & set(THIRD_PARTY)


AFTER_THE_FIRST_WORDS = (
    "tao_sdk.cli.failure", "tao_sdk.cli.screen", "tao_sdk.cli.watching", "tao_sdk.client.following",
    "tao_sdk.engine.cancel", "tao_sdk.engine.diagnose", "tao_sdk.engine.logs",
    "tao_sdk.engine.look", "tao_sdk.engine.watch", "tao_sdk.skills.skill",
)  # fmt: skip


FOR_DATA_OR_A_JOB_FILE = (
    "concurrent.futures", "difflib", "socket", "tao_sdk.cli.show", "tao_sdk.client.carried_files",
    "tao_sdk.client.document", "tao_sdk.client.job_file", "tao_sdk.engine.input_findings",
    "tao_sdk.engine.waiting", "tao_sdk.model.activity", "tao_sdk.model.config_file",
    "tao_sdk.model.diagnosis", "tao_sdk.model.idempotency", "tao_sdk.model.machines",
    "tao_sdk.net.s3_words", "tao_sdk.payload.declared", "tao_sdk.payload.entrypoint",
    "tao_sdk.versions",
)  # fmt: skip
UNTIL_THE_FIRST_WORDS = """
from tao_sdk.cli.first_words import FirstWords
from tao_sdk.cli.main import run
FirstWords.tell = lambda *_: (print(*sys.modules, sep="\\n"), sys.exit())
run(["run", "--gpus", "0", "--", "true"])
"""


def test_tao_run_of_a_plain_command_loads_only_what_its_first_words_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person waits for all that is loaded until then. What watches a job comes later; what reads
    data and job files is for jobs that have some.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TAO_SDK_STATE_DIR", str(tmp_path))
    loaded = {*modules_loaded_by(UNTIL_THE_FIRST_WORDS)}
    assert "tao_sdk.engine.prepare" in loaded
    assert not {*AFTER_THE_FIRST_WORDS, *FOR_DATA_OR_A_JOB_FILE} & loaded


FOR_FEW_LISTS = (
    "hmac", "tao_sdk.cli.results_text", "tao_sdk.client.carried_files",
    "tao_sdk.client.document", "tao_sdk.client.job_end", "tao_sdk.engine.diagnose",
    "tao_sdk.engine.rules",
)  # fmt: skip


def test_tao_ls_loads_nothing_that_only_explains_a_failure_or_reads_a_job_file() -> None:
    loaded = modules_loaded_by(
        "import tao_sdk.cli.main, tao_sdk.cli.look, tao_sdk.client.opening, tao_sdk.engine.reading"
    )
    assert set(FOR_FEW_LISTS) & set(loaded) == set()


@pytest.mark.slow
def test_a_look_at_a_cluster_loads_neither_its_package_nor_what_only_a_submit_needs() -> None:
    loaded = loaded_by("import tao_sdk.backends.kubernetes.backend")
    assert not loaded & {*THIRD_PARTY, "tarfile"}


# The command also reads what belongs to the terminal and the shell: NO_COLOR, TERM, the
# completion's own variable.
READS_THE_ENVIRONMENT = {"model/settings.py", "cli/main.py", "cli/output.py"}


@pytest.mark.slow
def test_only_settings_reads_the_environment() -> None:
    without_settings = {"net", "runner", "skill_bank"}  # they run where the package may not be
    readers = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] not in without_settings and _reads_environment(path)
    ]
    assert set(readers) <= READS_THE_ENVIRONMENT


def _reads_environment(path: Path) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("environ", "getenv")
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        for node in ast.walk(tree_of(path))
    )


TRAVELS = ("net", "runner")  # into the job, which has a python3 and nothing else


@pytest.mark.parametrize("room", TRAVELS)
def test_no_module_of_a_room_imports_itself_by_way_of_others(room: str) -> None:
    """Imports for type checkers count as well."""
    graph = {module_name(path): modules_of(path) for path in (SOURCE / room).rglob("*.py")}
    below = {
        name: {origin for imported in found for origin in origins(imported)}
        for name, found in graph.items()
    }
    circles = [name for name in below if name in reachable(name, below)]
    assert not circles, f"these import each other: {', '.join(sorted(circles))}"


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def origins(imported: str) -> tuple[str, str]:
    """`from a.b import c` may name the module a.b.c, or something of the module a.b."""
    return imported, imported.rpartition(".")[0]


def reachable(name: str, below: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    ahead = set(below[name])
    while ahead:
        found |= ahead
        ahead = {further for each in ahead for further in below.get(each, ())} - found
    return found


def test_what_travels_into_the_job_imports_only_the_standard_library() -> None:
    for path in (path for room in TRAVELS for path in (SOURCE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 8))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                top = name.split(".")[0]
                assert top == "tao_sdk" or top in sys.stdlib_module_names, (
                    f"{path.name} imports {name}"
                )


ENDS_OF_A_PROCESS = {
    "cli/main.py",
    "cli/automl.py",  # the threads that drive searches
    "engine/watch.py",
    "runner/main.py",
    "net/crew.py",
    "backends/docker/registry/pull.py",
    "backends/local/supervision/fork_server.py",
}
CALLS_CODE_OF_OTHERS = {
    "engine/hooks.py"
}  # a caller's callback may raise anything, and it is no error of ours

HANDS_ERRORS_ON = {"backends/asking.py"}  # from a thread to the one that waits for its answer


def swallows_everything(node: ast.AST) -> bool:
    """An `except Exception` (or wider) that does not raise again what it caught."""
    if not isinstance(node, ast.ExceptHandler) or isinstance(node.body[-1], ast.Raise):
        return False
    return node.type is None or (
        isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
    )


@pytest.mark.slow
def test_only_the_ends_of_the_process_catch_everything() -> None:
    catchers = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(swallows_everything(node) for node in ast.walk(tree_of(path)))
    }
    assert catchers <= ENDS_OF_A_PROCESS | CALLS_CODE_OF_OTHERS | HANDS_ERRORS_ON


@pytest.mark.slow
def test_importing_leaves_the_programs_logging_as_it_is() -> None:
    script = (
        "import logging, tao_sdk, tao_sdk.script_runner, tao_sdk.platforms.docker; tao_sdk.Client; "
        "print(logging.root.handlers, logging.root.level == logging.WARNING)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "[] True\n"
