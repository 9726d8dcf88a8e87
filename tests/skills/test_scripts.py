"""The scripts of a bank: what they answer, on which Python, and what a bad bank gets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import yaml

from support.pythons import NEW_ENOUGH, TOO_OLD, alone, minor
from support.tao_command import Ran
from tao_sdk.model.settings import Settings
from tao_sdk.skills.bank import PACKAGED
from tao_sdk.skills.installing import install_bank
from tao_sdk.skills.script_modules import LIBRARY
from tao_sdk.skills.scripts import SCRIPTS, main

from .conftest import GOOD, MakeBank

pytestmark = pytest.mark.slow

PYTORCH = "nvcr.io/nvidia/tao/tao-toolkit:6.26.3-pyt\n"
SLURM = """\
Required credentials:
  SLURM_USER: the user on the login nodes
    How to get it: ask the cluster's administrator
  SLURM_HOSTNAME: the login nodes, with commas between them
    How to get it: the host that you use with ssh
  SLURM_BASE_RESULTS_DIR: your folder on the cluster's shared file system
    How to get it: ask the cluster's administrator
Required credential groups, one of each:
  ssh login: a login that does not prompt
    One of: SSH_KEY_PATH, SSH_AUTH_SOCK
    Preferred: SSH_KEY_PATH
Optional, only where the condition applies:
  SLURM_PARTITION: the partitions, with commas between them
    Only when: the cluster's own default is not wanted
  SLURM_ACCOUNT: the account that is charged
    Only when: the user has more than one account
  SLURM_CONTAINER_MOUNTS: paths that are mounted in every container
    Only when: data is not below /lustre
    Default: /lustre
  NGC_KEY: the login to NGC
    Only when: an input is a private ngc:// address; a private image needs ~/.config/enroot/.credentials on the cluster
    How to get it: https://org.ngc.nvidia.com/setup/api-keys
  S3_BUCKET_NAME: the bucket for inputs and results
    Only when: inputs or results are in a bucket
  ACCESS_KEY: the key of the bucket's login
    Only when: S3_BUCKET_NAME is set
  SECRET_KEY: the secret of the bucket's login
    Only when: S3_BUCKET_NAME is set
  S3_ENDPOINT_URL: the address of a store that is not AWS
    Only when: the bucket is not on AWS
  CLOUD_REGION: the region of the bucket
    Only when: the store asks for one
  HF_TOKEN: the login to Hugging Face
    Only when: an input is a gated hf_model:// address
    How to get it: https://huggingface.co/settings/tokens
Resource defaults:
  num_nodes: 1
  gpu_count: 1
  time_limit: 4h
"""
CALLS = [
    ["list_tao_platforms"],
    ["list_tao_platforms", "--platform", "slurm", "--format", "json"],
    ["list_tao_models"],
    ["list_tao_models", "--scope", "automl", "--format", "json"],
    ["list_automl_support"],
    ["list_tao_capabilities"],
    ["resolve_tao_image", "--model", "dino", "--action", "train"],
    ["resolve_versions_key", "wheels.tao_sdk_slurm"],
]

# Runs each script as the program of a process, all in one, and prints exit codes and output.
ALL_IN_ONE = """
import contextlib, io, json, os, runpy, sys
answers = []
for argv in json.loads(sys.argv[1]):
    sys.argv, sys.path[0], out, code = argv, os.path.dirname(argv[0]), io.StringIO(), 0
    with contextlib.redirect_stdout(out):
        try:
            runpy.run_path(argv[0], run_name="__main__")
        except SystemExit as end:
            code = end.code
    answers.append([code, out.getvalue()])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `tao skills install` writes."""
    folder = tmp_path_factory.mktemp("home") / "bank"
    install_bank(folder, Settings({"HOME": "/nowhere"}))
    return folder


@pytest.fixture(scope="module")
def answers(installed: Path) -> list[str]:
    """What each of CALLS prints where the package is installed."""
    printed: list[str] = []
    for script, *words in CALLS:
        with redirect_stdout(StringIO()) as out:
            assert main(str(installed / "scripts" / f"{script}.py"), words, {}) == 0
        printed.append(out.getvalue())
    return printed


@pytest.fixture
def flat(installed: Path, tmp_path: Path) -> Path:
    """The same bank in the other layout."""
    folder = tmp_path / "flat"
    shutil.copytree(installed, folder)
    for group in list((folder / "skills").iterdir()):
        for skill in group.iterdir():
            if skill.is_dir():
                skill.rename(folder / "skills" / skill.name)
        shutil.rmtree(group)
    return folder


Ask = Callable[..., Ran]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """A script of a bank in this process, with no surroundings but these."""

    def call(bank: Path, script: str, *words: str, **variables: str) -> Ran:
        path = str(bank / "scripts" / f"{script}.py")
        code = main(path, words, variables)
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return call


def started(
    script: Path, *words: str, path: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A script as a shell starts it, with one python3 and nothing installed."""
    return subprocess.run(
        [script, *words], env={"PATH": path, **variables}, capture_output=True, text=True
    )


def below_skills(bank: Path, files: Mapping[str, str]) -> Path:
    """The bank with these files in it."""
    for name, text in files.items():
        (bank / "skills" / name).parent.mkdir(parents=True, exist_ok=True)
        (bank / "skills" / name).write_text(text)
    return bank


# Where they run


@pytest.mark.parametrize("version", NEW_ENOUGH)
def test_every_script_answers_the_same_on_a_python_with_nothing_installed(
    installed: Path, answers: list[str], tmp_path: Path, version: str
) -> None:
    path = alone(tmp_path, NEW_ENOUGH[version])
    calls = [[str(installed / "scripts" / f"{script}.py"), *words] for script, *words in CALLS]
    ran = subprocess.run(
        ["python3", "-c", ALL_IN_ONE, json.dumps(calls)],
        env={"PATH": path},
        capture_output=True,
        text=True,
    )
    assert (ran.stderr, json.loads(ran.stdout)) == ("", [[0, answer] for answer in answers])


def test_a_shell_starts_each_script_by_its_path(
    installed: Path, answers: list[str], tmp_path: Path
) -> None:
    path = alone(tmp_path, NEW_ENOUGH[min(NEW_ENOUGH, key=minor)])
    for (script, *words), answer in zip(CALLS, answers, strict=True):
        ran = started(installed / "scripts" / f"{script}.py", *words, path=path)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, answer, "")


@pytest.mark.skipif(not TOO_OLD, reason="no Python older than 3.8 is here")
def test_an_older_python_is_told_so(installed: Path, tmp_path: Path) -> None:
    version = max((each for each in TOO_OLD if each[:1] == "3"), key=minor)
    path = alone(tmp_path, TOO_OLD[version])
    ran = started(installed / "scripts" / "list_tao_models.py", path=path)
    wanted = f"error: this is Python {version}; 3.8 or later is needed.\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", wanted)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_of_the_package_runs_where_it_lies(script: str) -> None:
    path = PACKAGED / "scripts" / f"{script}.py"
    assert os.access(path, os.X_OK)
    ran = started(path, "--help", path=os.environ["PATH"])
    assert ran.returncode == 0, ran.stderr
    assert SCRIPTS[script].description in " ".join(ran.stdout.split())


def test_every_script_has_its_file_and_every_file_its_script() -> None:
    files = {path.stem for path in (PACKAGED / "scripts").glob("*.py")}
    assert files == {*SCRIPTS, "find_package"}


def test_the_licence_of_what_is_brought_along_comes_with_it(installed: Path) -> None:
    assert "Kirill Simonov" in (installed / "scripts" / "LICENSE.PyYAML").read_text()
    assert (installed / LIBRARY / "yaml" / "__init__.py").is_file()


# What they answer


def test_the_platforms_are_those_that_jobs_can_run_on(installed: Path, ask: Ask) -> None:
    listed = [line.split()[0] for line in ask(installed, "list_tao_platforms").out.splitlines()]
    assert listed == ["kubernetes", "lepton", "local", "local-docker", "slurm"]


def test_a_skill_with_actions_of_its_own_is_no_platform(make_bank: MakeBank, ask: Ask) -> None:
    bank = make_bank({"platform/host-setup/skill_info.yaml": "type: platform\n" + GOOD})
    below_skills(bank.root, {"platform/tao-run-on-moon/skill_info.yaml": "description: Far.\n"})
    assert ask(bank.root, "list_tao_platforms").out == "moon  Far.\n"


def test_a_platform_prints_what_to_ask_the_user_for_and_nothing_else(
    installed: Path, ask: Ask
) -> None:
    assert ask(installed, "list_tao_platforms", "--platform", "slurm") == Ran(0, SLURM, "")


@pytest.mark.parametrize("name", ["docker", "local-docker", "remote-docker", "DOCKER"])
def test_a_platform_is_found_by_its_other_names(installed: Path, ask: Ask, name: str) -> None:
    ran = ask(installed, "list_tao_platforms", "--platform", name, "--format", "json")
    assert ran.json["platform"]["name"] == "local-docker"


def test_the_questions_are_the_same_as_json(installed: Path, ask: Ask) -> None:
    ran = ask(installed, "list_tao_platforms", "--platform", "slurm", "--format", "json")
    platform = ran.json["platform"]
    assert [each["name"] for each in platform["required_credentials"]] == [
        "SLURM_USER",
        "SLURM_HOSTNAME",
        "SLURM_BASE_RESULTS_DIR",
    ]
    assert platform["credential_groups"] == [
        {
            "name": "ssh login",
            "require_one_of": ["SSH_KEY_PATH", "SSH_AUTH_SOCK"],
            "preferred": "SSH_KEY_PATH",
            "description": "a login that does not prompt",
        }
    ]
    account = platform["optional_credentials"][1]
    assert (account["name"], account["only_when"]) == (
        "SLURM_ACCOUNT",
        "the user has more than one account",
    )
    assert platform["resource_defaults"]["time_limit"] == "4h"


def test_no_value_of_a_credential_is_printed(installed: Path, ask: Ask) -> None:
    ran = ask(installed, "list_tao_platforms", "--platform", "slurm", SLURM_USER="secret-name")
    assert "secret-name" not in ran.out + ran.err


@pytest.mark.parametrize(
    "words", [["list_tao_models", "--scope", "automl"], ["list_automl_support"]]
)
def test_automl_needs_a_model_that_is_made_for_it_and_a_schema(
    make_bank: MakeBank, ask: Ask, words: list[str]
) -> None:
    bank = make_bank(
        {
            "models/ready/skill_info.yaml": GOOD.replace("toy", "ready") + "automl_enabled: true\n",
            "models/ready/schemas/train.schema.json": "{}",
            "models/bare/skill_info.yaml": GOOD.replace("toy", "bare") + "automl_enabled: true\n",
            "models/torn/skill_info.yaml": GOOD.replace("toy", "torn") + "automl_enabled: true\n",
            "models/torn/schemas/train.schema.json": '{"type":',
            "models/plain/skill_info.yaml": GOOD.replace("toy", "plain"),
        }
    )
    script, *rest = words
    assert ask(bank.root, script, *rest).out.splitlines() == [
        "AutoML can be used: 1",
        "  ready  readynet  train",
        "AutoML is enabled, and cannot be used yet: 2",
        "  bare (barenet): it has no schemas/train.schema.json",
        f"  torn (tornnet): {bank.skills}/models/torn/schemas/train.schema.json:1:9: "
        "this is not JSON: Expecting value.",
    ]
    models = ask(bank.root, script, *rest, "--format", "json").json["models"]
    told = [(each["name"], each["automl_enabled"], each["valid_train_schema"]) for each in models]
    assert told == [("bare", True, False), ("ready", True, True), ("torn", True, False)]


def test_all_models_are_listed_with_their_actions(installed: Path, ask: Ask) -> None:
    models = ask(installed, "list_tao_models", "--format", "json").json["models"]
    digits = next(each for each in models if each["network_arch"] == "digits")
    assert digits["actions"] == ["train", "evaluate", "inference"]
    assert (digits["automl_enabled"], digits["automl"]) == (False, "off")


def test_a_model_that_the_banks_list_has_and_the_bank_has_not_is_told(
    make_bank: MakeBank, ask: Ask
) -> None:
    listed = '{"models": {"there": {"failures": {"export": "no module"}}, "gone": {}, "odd": []}}'
    files = {"models/there/skill_info.yaml": GOOD, "models/schemas.manifest.json": listed}
    bank = make_bank(files)
    told = ask(bank.root, "list_tao_models", "--format", "json")
    assert [each["failures"] for each in told.json["models"]] == [{"export": "no module"}]
    assert "gone is listed, and the bank does not have it" in told.err
    assert (told.code, "Traceback" in told.err) == (1, False)
    (bank.skills / "models" / "schemas.manifest.json").write_text("[]")
    assert "a list of models is a mapping" in ask(bank.root, "list_tao_models").err


@pytest.mark.parametrize("name", ["tao-train-dino", "dino", "DINO"])
def test_an_image_is_found_by_the_names_of_a_model(installed: Path, ask: Ask, name: str) -> None:
    words = ("--model", name, "--action", "train")
    assert ask(installed, "resolve_tao_image", *words) == Ran(0, PYTORCH, "")
    told = ask(installed, "resolve_tao_image", *words, "--format", "json").json
    assert (told["image"], told["key"]) == (PYTORCH.strip(), "tao_toolkit.pyt")


def test_an_action_without_an_image_is_told(make_bank: MakeBank, ask: Ask) -> None:
    text = GOOD.replace("container_image: tao_toolkit.toy\n", "")
    bank = make_bank({"toy/skill_info.yaml": text})
    ran = ask(bank.root, "resolve_tao_image", "--model", "toy", "--action", "train")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"error: {bank.skills}/toy/skill_info.yaml: no container_image is given for the action "
        "train. Add it there, or give an image to the job.\n"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("wheels.tao_sdk_docker", "nvidia-tao-sdk[docker]==8.0.0"),
        ("tao_sdk_docker", "nvidia-tao-sdk[docker]==8.0.0"),
        ("images.tao_toolkit.pyt", PYTORCH.strip()),
        ("tao_toolkit.pyt", PYTORCH.strip()),
    ],
)
def test_a_key_of_either_list_is_resolved(installed: Path, ask: Ask, key: str, value: str) -> None:
    assert ask(installed, "resolve_versions_key", key).out == f"{value}\n"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("wheels.tao_sdk_doker", "Did you mean tao_sdk_docker?"),
        ("images.tao_toolkit", "has a group of keys there"),
        ("", "No wheel is named."),
    ],
)
def test_a_key_that_stands_for_nothing_prints_nothing(
    installed: Path, ask: Ask, key: str, words: str
) -> None:
    ran = ask(installed, "resolve_versions_key", key)
    assert (ran.code, ran.out) == (1, "")
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_the_capabilities_are_all_of_them(installed: Path, ask: Ask) -> None:
    told = ask(installed, "list_tao_capabilities", "--format", "json").json
    assert "tao-generate-image-grounding" in told["data"]
    assert [each["name"] for each in told["platforms"]][-1] == "slurm"
    assert "tao-train-dino" in [each["name"] for each in told["models"]]
    assert "  slurm " in ask(installed, "list_tao_capabilities").out


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_both_layouts_get_the_same_answer(
    installed: Path, flat: Path, ask: Ask, call: list[str]
) -> None:
    script, *words = call
    grouped, ungrouped = ask(installed, script, *words), ask(flat, script, *words)
    assert (grouped.code, ungrouped.code, ungrouped.err) == (0, 0, "")
    if "json" not in words:  # which has the paths of the files
        assert ungrouped.out == grouped.out


# Which bank


def test_a_named_bank_wins_over_the_variable_and_both_over_the_scripts_own(
    installed: Path, make_bank: MakeBank, ask: Ask
) -> None:
    ours = make_bank({"tao-run-on-moon/skill_info.yaml": "type: platform\n"}).root
    own = ask(installed, "list_tao_platforms", "--format", "json")
    assert own.json["bank"]["path"] == str(installed)
    named = ask(
        installed, "list_tao_platforms", "--skill-bank", str(ours), TAO_SKILL_BANK_PATH="/none"
    )
    assert named.out == "moon\n"
    variable = ask(installed, "list_tao_platforms", TAO_SKILL_BANK_PATH=str(ours))
    assert variable.out == "moon\n"


def test_a_versions_file_that_is_named_takes_the_place_of_the_banks(
    installed: Path, tmp_path: Path, ask: Ask
) -> None:
    (tmp_path / "mine.yaml").write_text("images: {tao_toolkit: {pyt: mine/pyt:1}}\n")
    mine = {"TAO_VERSIONS_FILE": str(tmp_path / "mine.yaml")}
    words = ("--model", "dino", "--action", "train")
    assert ask(installed, "resolve_tao_image", *words, **mine).out == "mine/pyt:1\n"


# Bad names and bad banks


def one_line(ran: Ran) -> str:
    """The error, which is one line."""
    assert ran.code == 1
    assert ran.err.startswith("error: ") and ran.err.count("\n") == 1
    return ran.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("list_tao_platforms", "--platform", "slrum"), "Did you mean slurm?"),
        (("list_tao_platforms", "--platform", "dino"), "tao-train-dino is no platform."),
        (("list_tao_platforms", "--platform", "brev"), "tao-run-on-brev has no skill_info.yaml."),
        (("resolve_tao_image", "--model", "dion", "--action", "train"), "Did you mean dino?"),
        (("resolve_tao_image", "--model", "dino", "--action", "trian"), "Did you mean train?"),
        (("resolve_tao_image", "--model", "../dino", "--action", "train"), "no skill '../dino'"),
    ],
)
def test_an_unknown_name_is_told_with_the_near_one(
    installed: Path, ask: Ask, words: tuple[str, ...], told: str
) -> None:
    assert told in one_line(ask(installed, *words))


def test_the_way_to_the_names_is_a_script_that_is_there(installed: Path, ask: Ask) -> None:
    script, *words = ("list_tao_platforms", "--platform", "moon-base-4")
    told = one_line(ask(installed, script, *words))
    assert told.endswith(f"List them: {installed}/scripts/list_tao_platforms.py\n")


@pytest.mark.parametrize("words", [["--platform"], ["--format", "xml"], ["--plat", "slurm"], ["x"]])
def test_wrong_arguments_end_with_2(installed: Path, ask: Ask, words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        ask(installed, "list_tao_platforms", *words)
    assert ended.value.code == 2


TOO_LARGE = "description: " + "x" * 10_000_000
# what is wrong with a platform's file: its text, and what the error says
TORN = {
    "a list": ("- a\n- b\n", "a skill is a mapping; this is a list. Copy the bank again."),
    "cut off": ("a: [1\n", "this is not YAML"),
    "a tab": ("\ta: 1\n", "a tab indents this line."),
    "a circle": ("a: &a [*a]\n", "*a refers to what it is in."),
    "no anchor": ("a: *b\n", "*b refers to nothing above."),
    "a key twice": ("a: 1\na: 2\n", "a is given a second time."),
    "code": ("a: !!python/object:os.system {}\n", "has no meaning here."),
    "no name": ("required_credentials: [{}]\n", "has no name."),
    "too large": (TOO_LARGE, "this file is larger than 1.0 MB."),
    "empty": ("", "a skill is a mapping; this is empty."),
    "a bell": ("a: \a\n", "this character cannot be here: U+0007."),
    "no character": ('a: 1\nb: "\\UFFFFFFFF"\n', "this is not YAML"),
    "too deep": ("a: " + "[" * 5000, "nested more than 100 levels deep"),
    "bytes": ("a: \udcff\n", "this is not UTF-8 text."),
}


@pytest.fixture(params=["with libyaml", "without"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the scripts run that a bank brings along."""
    if request.param == "without":
        monkeypatch.delattr(yaml, "CSafeLoader")


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("torn", TORN)
def test_a_bad_file_is_one_error_with_its_place_and_the_others_are_listed(
    make_bank: MakeBank, ask: Ask, torn: str
) -> None:
    bank = make_bank({"platform/tao-run-on-moon/skill_info.yaml": "description: Far.\n"})
    text, told = TORN[torn]
    path = bank.skills / "platform/tao-run-on-mars/references/skill_info.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, errors="surrogateescape")
    ran = ask(bank.root, "list_tao_platforms")
    assert ran.out == "moon  Far.\n"
    error = one_line(ran)
    assert error.startswith(f"error: {path}:")
    assert told in error
    assert told in one_line(ask(bank.root, "list_tao_platforms", "--platform", "mars"))


@pytest.mark.parametrize("target", ["/etc/passwd", "skill_info.yaml", "../../../../outside.yaml"])
def test_a_link_that_leads_out_or_in_a_circle_is_refused(
    make_bank: MakeBank, tmp_path: Path, ask: Ask, target: str
) -> None:
    bank = make_bank({"platform/tao-run-on-moon/SKILL.md": "text"})
    (tmp_path / "outside.yaml").write_text("description: stolen\n")
    (bank.skills / "platform/tao-run-on-moon/skill_info.yaml").symlink_to(target)
    ran = ask(bank.root, "list_tao_platforms")
    assert ran.out == ""
    assert "this leads out of the skill bank." in one_line(ran)


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        ("- a\n", "versions.yaml:1:1: this is a list; a mapping"),
        ("images: {a\n", "versions.yaml:2:1: this is not YAML"),
        (TOO_LARGE, "this file is larger than 1.0 MB."),
        ("wheels: {tao_sdk_docker: [1]}\n", "is no wheel"),
        ("wheels: {tao_sdk_docker: ''}\n", "the manifest has nothing there"),
        ("wheels: 7\n", "no such wheel key"),
    ],
)
def test_a_bad_versions_file_is_one_error(
    make_bank: MakeBank, ask: Ask, versions: str, told: str
) -> None:
    bank = make_bank({}, versions)
    assert told in one_line(ask(bank.root, "resolve_versions_key", "wheels.tao_sdk_docker"))


def test_a_versions_file_outside_of_the_bank_is_not_read(
    make_bank: MakeBank, tmp_path: Path, ask: Ask
) -> None:
    bank = make_bank({})
    (bank.root / "versions.yaml").unlink()
    (tmp_path / "other.yaml").write_text("wheels: {tao_sdk_docker: evil==1}\n")
    (bank.root / "versions.yaml").symlink_to("../other.yaml")
    ran = ask(bank.root, "resolve_versions_key", "wheels.tao_sdk_docker")
    assert "leads out of the skill bank" in one_line(ran)


def test_a_folder_that_cannot_be_opened_is_told(installed: Path, ask: Ask) -> None:
    ran = ask(installed, "list_tao_models", "--skill-bank", "x" * 300)
    assert "cannot be opened: File name too long. --skill-bank names it." in one_line(ran)


def test_a_versions_file_that_cannot_be_opened_is_told(installed: Path, ask: Ask) -> None:
    long = {"TAO_VERSIONS_FILE": "/" + "x" * 300}
    ran = ask(installed, "resolve_versions_key", "wheels.tao_sdk_docker", **long)
    assert "cannot be read: File name too long." in one_line(ran)


COPIES = {  # what is missing of a bank -> a call, and what it tells
    "versions.yaml": ("resolve_versions_key", "has no versions.yaml"),
    "skills": ("list_tao_platforms", "is no skill bank: it has no folder skills."),
    "skills/platform": ("list_tao_platforms", "holds no platform. Copy the bank again, whole."),
    "skills/models": ("list_tao_models", "holds no model. Copy the bank again, whole."),
    "skills/platform/tao-run-on-slurm/*": ("list_tao_platforms", "this has neither SKILL.md nor"),
    "scripts/lib/tao_sdk/skills/names.py": ("list_tao_models", "Copy the bank again, whole."),
    "scripts/lib/tao_sdk/skills/loader.py": ("list_tao_models", "Copy the bank again, whole."),
    "scripts/lib/yaml/scanner.py": ("list_tao_models", "Copy the bank again, whole."),
    "scripts/lib/yaml": ("list_tao_models", "This python3 has no PyYAML"),
    "scripts/lib": ("list_tao_models", "Copy the bank again, whole."),
    "scripts/find_package.py": ("list_tao_models", "Copy the bank again, whole."),
}


@pytest.mark.parametrize("missing", COPIES)
def test_a_bank_that_is_half_copied_is_told_in_one_line(
    installed: Path, tmp_path: Path, missing: str
) -> None:
    folder = tmp_path / "bank"
    shutil.copytree(installed, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.glob(missing):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    script, told = COPIES[missing]
    words = ["wheels.tao_sdk_docker"] if script == "resolve_versions_key" else []
    bare = alone(tmp_path, NEW_ENOUGH[min(NEW_ENOUGH, key=minor)])
    ran = started(folder / "scripts" / f"{script}.py", *words, path=bare)
    assert told in one_line(Ran(ran.returncode, ran.stdout, ran.stderr))


def test_a_reader_that_stops_reading_gets_no_traceback(installed: Path) -> None:
    call = f"{installed}/scripts/list_tao_capabilities.py --format json | head -c 1"
    ran = subprocess.run(["bash", "-c", call], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("{", "")


def test_words_of_others_cannot_steer_the_terminal(make_bank: MakeBank, ask: Ask) -> None:
    bank = make_bank({"tao-run-on-moon/skill_info.yaml": "type: platform\ndescription: 'a é b'\n"})
    assert ask(bank.root, "list_tao_platforms").out == "moon  a é b\n"
    below_skills(
        bank.root, {"tao-run-on-moon/skill_info.yaml": 'type: platform\ndescription: "\\e[2J"\n'}
    )
    assert "U+001B" in one_line(ask(bank.root, "list_tao_platforms"))


def test_json_says_which_bank_it_is_of(installed: Path, ask: Ask) -> None:
    for script, *words in CALLS:
        given = [word for word in words if word not in ("--format", "json")]
        told = json.loads(ask(installed, script, *given, "--format", "json").out)
        assert (told["schema"], told["bank"]["path"]) == (1, str(installed))
