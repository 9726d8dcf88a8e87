"""The bank that is installed with the package: what it says is true of this version."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.pages import BANK_PAGES, ROOT
from support.tao_command import Ran
from tao_sdk.backends.by_name import NOT_BUILT, platforms
from tao_sdk.cli.verbs import VERBS
from tao_sdk.model.credentials import KNOWN_NAMES
from tao_sdk.model.errors import SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.skills.bank import PACKAGED, Bank
from tao_sdk.skills.check import check_bank, has_errors
from tao_sdk.skills.installing import packaged_files
from tao_sdk.skills.loader import load_skill
from tao_sdk.skills.model_job import ModelChoices, prepare_model_job
from tao_sdk.skills.names import load_named, summaries
from tao_sdk.skills.scripts import SCRIPTS

BANK = Bank(PACKAGED, "this package")
TEXTS = sorted(PACKAGED.rglob("SKILL.md"))
MOST_LINES = 200
FLAG = re.compile(r"--[a-z][a-z-]+")
MODEL = {"evaluate.checkpoint": "s3://b/model.pth"}
WRITER = ROOT / "tools" / "write_model_skills.py"


def writer() -> Any:
    spec = importlib.util.spec_from_file_location("write_model_skills", WRITER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_models_are_what_the_tool_writes_of_its_facts() -> None:
    wrong = [
        str(path)
        for path, text in writer().bank_files()
        if (PACKAGED / "skills" / path).read_text() != text
    ]
    assert not wrong, "python tools/write_model_skills.py writes them anew"


def test_every_model_of_the_facts_can_be_loaded() -> None:
    tool = writer()
    facts = json.loads(tool.FACTS.read_text())
    assert len(facts) == 58
    for name, about in facts.items():
        path = PACKAGED / "skills" / tool.skill_path(name)
        skill = load_skill(PACKAGED, path, name)
        assert skill.network_arch == about.get("network_arch", "")
        known = [name for name, each in about["actions"].items() if each["command"][:1] != "("]
        assert list(skill.actions) == known


def test_no_command_is_made_up() -> None:
    skill = load_named(BANK, "tao-finetune-cosmos-reason")
    assert set(skill.actions) == {"evaluate", "train"}
    assert all("longer script" in note for note in skill.notes)


def test_the_bank_has_no_errors_and_every_image_key_stands_for_an_image() -> None:
    _, findings = check_bank(BANK, Settings({"HOME": "/nowhere"}))
    texts = [finding.text for finding in findings]
    assert not has_errors(findings), texts
    assert not [text for text in texts if "has no image" in text]


@pytest.mark.parametrize(
    "model",
    [
        *("action-recognition", "bevfusion", "centerpose", "deformable-detr"),
        *("depth-anything-v2", "dino", "rtdetr", "clip", "foundation-stereo"),
    ],
)
def test_a_model_is_trained_and_evaluated_on_datasets_alone(model: str) -> None:
    skill = load_named(BANK, model)
    data = {"train": "s3://b/train", "eval": "s3://b/val"}
    if model == "bevfusion":
        data |= {"train_annotation": "train.pkl", "eval_annotation": "val.pkl"}
    settings = Settings({"HOME": "/nowhere"})
    prepare_model_job(BANK, skill, "train", ModelChoices(data), settings)
    wanted = ModelChoices({name: data[name] for name in data if name.startswith("eval")}, MODEL)
    prepare_model_job(BANK, skill, "evaluate", wanted, settings)


@pytest.mark.parametrize(
    ("model", "words", "advice"),
    [
        ("pointpillars", "the folder data_info in the results of", "dataset.data_info_path=s3://"),
        ("cosmos-embed", "the pattern of the videos' paths in the container", "/data/*.mp4"),
    ],
)
def test_an_input_that_no_dataset_has_says_what_it_is(model: str, words: str, advice: str) -> None:
    skill, settings = load_named(BANK, model), Settings({"HOME": "/nowhere"})
    sources = {source.source for source in skill.data_sources["train"].values()}
    wanted = ModelChoices(dict.fromkeys(sources, "s3://b/data"))
    with pytest.raises(SpecError) as told:
        prepare_model_job(BANK, skill, "train", wanted, settings)
    assert words in told.value.why
    assert advice in told.value.next


def test_dino_reads_several_datasets() -> None:
    wanted = ModelChoices({"train": ["s3://b/one", "s3://b/two"], "eval": "s3://b/val"})
    settings = Settings({"HOME": "/nowhere"})
    spec = prepare_model_job(BANK, load_named(BANK, "dino"), "train", wanted, settings).spec
    assert spec.specs is not None
    assert spec.specs["dataset"]["train_data_sources"] == [
        {
            "image_dir": f"s3://b/{name}/images.tar.gz",
            "json_file": f"s3://b/{name}/annotations.json",
        }
        for name in ("one", "two")
    ]
    assert "dataset.train_data_sources[1].image_dir" in spec.inputs


def test_the_manifest_lists_the_models() -> None:
    manifest = json.loads((PACKAGED / "skills" / "models" / "schemas.manifest.json").read_text())
    dino = manifest["models"]["tao-train-dino"]
    assert dino["automl_enabled"] is True
    assert dino["actions"] == list(load_named(BANK, "dino").actions)


def test_every_platform_has_a_skill_that_its_name_finds() -> None:
    for name in platforms():
        skill = load_named(BANK, name)
        assert skill.kind == "platform"
    for name in NOT_BUILT:
        text = (PACKAGED / "skills" / "platform" / f"tao-run-on-{name}" / "SKILL.md").read_text()
        assert "is not in this version" in text


def test_a_platforms_skill_names_variables_that_are_read() -> None:
    known = {*KNOWN_NAMES, "SSH_AUTH_SOCK", "KUBECONFIG", "DOCKER_HOST"}
    for name in platforms():
        skill = load_named(BANK, name)
        named = {each.name for each in (*skill.required_credentials, *skill.optional_credentials)}
        named |= {name for group in skill.credential_groups for name in group.require_one_of}
        assert named <= known


def test_every_platform_lists_the_variables_of_buckets_and_hubs() -> None:
    bucket = {"S3_BUCKET_NAME", "ACCESS_KEY", "SECRET_KEY", "S3_ENDPOINT_URL", "CLOUD_REGION"}
    for name in platforms():
        named = {each.name for each in load_named(BANK, name).optional_credentials}
        assert bucket | {"HF_TOKEN"} <= named
        assert name == "local" or "NGC_KEY" in named


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.parent.name)
def test_a_skills_text_has_the_head_that_agents_read(path: Path) -> None:
    text = path.read_text()
    head = re.match(r"---\nname: (\S+)\ndescription: ([^\n]+)\n---\n", text)
    assert head is not None
    assert head[1] == path.parent.name
    assert len(head[2]) <= 1024
    assert len(text.splitlines()) <= MOST_LINES


def test_every_command_and_flag_of_a_page_is_one(
    typed: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag that stands alone is one of any verb, of a platform's jobs, or of a script."""
    monkeypatch.setenv("COLUMNS", "400")
    shown = {verb: typed(verb, "--help").out for verb in VERBS}
    scripts = [path.read_text() for path in PACKAGED.rglob("*.sh")]
    scripts += [flag for script in SCRIPTS.values() for flag in script.arguments]
    of_platforms = [typed("run", "--platform", name, "--help").out for name in platforms()]
    known = {*FLAG.findall(" ".join([*shown.values(), *scripts, *of_platforms]))}
    for page in BANK_PAGES:
        text = page.read_text()
        for verb, *words in map(str.split, re.findall(r"(?:^|`)tao ([^`\n]+)", text, re.MULTILINE)):
            assert verb in VERBS, f"{page}: {verb}"
            ours = words[: words.index("--")] if "--" in words else words
            flags = [word for word in ours if word.startswith("-")]
            assert not [flag for flag in flags if flag not in shown[verb]], f"{page}: {verb}"
        alone = {flag for part in re.findall(r"`--[^`\n]+`", text) for flag in FLAG.findall(part)}
        assert alone <= known, page


@pytest.mark.slow
@pytest.mark.parametrize("platform", platforms())
def test_every_flag_that_a_platforms_skill_explains_is_one_of_run(
    platform: str, typed: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    (path,) = [each for each in TEXTS if each.parent.name == load_named(BANK, platform).name]
    text = path.read_text()
    flags = set(re.findall(r"`(--[a-z-]+)", text)) - {"--fix", "--smoke"}  # of the doctor
    shown = set(re.findall(r"--[a-z-]+", typed("run", "--platform", platform, "--help").out))
    assert flags <= shown


def test_no_file_of_the_bank_is_left_out_of_the_wheel() -> None:
    """The build leaves out what git ignores."""
    files = [str(PACKAGED / path) for path, _ in packaged_files() if (PACKAGED / path).is_file()]
    ignored = subprocess.run(
        ["git", "check-ignore", "--stdin"],
        input="\n".join(files),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ignored.stdout == ""


def test_every_skill_of_the_bank_is_listed_with_its_kind() -> None:
    kinds = {each.entry.name: each.kind for each in summaries(BANK)}
    assert kinds["tao-train-dino"] == kinds["tao-deploy-dino"] == "model"
    assert kinds["tao-run-on-slurm"] == "platform"
    assert kinds["tao-generate-image-grounding"] == "data"
