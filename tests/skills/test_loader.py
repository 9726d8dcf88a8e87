"""A skill_info.yaml as a Skill: what its keys mean, and where it says that one is wrong."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tao_sdk.model.errors import SpecError
from tao_sdk.payload.keys import steps
from tao_sdk.skills.bank_file import LARGEST
from tao_sdk.skills.errors import ActionNotFound, SkillError
from tao_sdk.skills.loader import load_skill, read_skill
from tao_sdk.skills.node import is_spec_key
from tao_sdk.skills.skill import (
    Credential,
    CredentialGroup,
    DataSource,
    Download,
    HostNeeds,
    Input,
    MappedFile,
    Mode,
    Output,
    Selective,
    Skill,
)
from tao_sdk.skills.templates import template_file

from .conftest import GOOD, MakeBank

PATH = "tao-train-toy/references/skill_info.yaml"
Load = Callable[[str], Skill]


@pytest.fixture
def load(make_bank: MakeBank) -> Load:
    def load_text(text: str) -> Skill:
        bank = make_bank({PATH: text})
        return load_skill(bank.root, bank.skills / PATH, "tao-train-toy")

    return load_text


def mistake(load: Load, text: str) -> SkillError:
    with pytest.raises(SkillError) as told:
        load(text)
    return told.value


def told(load: Load, text: str) -> str:
    """The key, the line and the words of the mistake."""
    error = mistake(load, text)
    words = error.what.partition(f"{error.place}: ")[2]
    return f"{error.key}@{error.place.line}: {words}"


def test_an_action_has_what_is_needed_to_run_it(load: Load) -> None:
    skill = load(GOOD)
    action = skill.action("train")
    assert (skill.name, skill.network_arch, skill.kind) == ("toy", "toynet", "model")
    assert (action.mode, action.command) == (Mode.CONFIG, "toynet train -e {config_path}")
    assert action.inputs == {
        "dataset.sources[0].image_dir": Input("dataset.sources[0].image_dir", "folder"),
        "train.pretrained": Input("train.pretrained", "file", optional=True),
    }
    assert action.outputs == {"results_dir": Output("results_dir", "folder")}
    assert action.upload_excludes == ("inputs/",)
    assert skill.image_of("train") == "tao_toolkit.toy"


def test_a_skill_cannot_be_changed(load: Load) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load(GOOD).name = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_every_attribute_of_an_input_is_read(load: Load) -> None:
    text = GOOD + (
        "  evaluate:\n"
        "    mode: config\n"
        "    container_image: own/image:1\n"
        "    command: toynet evaluate -e {config_path}\n"
        "    inputs:\n"
        "      annotation: {type: file}\n"
        "      media: {type: folder, selective: {annotation: annotation, keys: [video]}}\n"
        "      root: {type: folder, container_path: /data/root, extract_to_parent: true}\n"
    )
    skill = load(text)
    inputs = skill.action("evaluate").inputs
    assert inputs["media"].selective == Selective("annotation", "json", ("video",))
    assert (inputs["root"].container_path, inputs["root"].extract_to_parent) == ("/data/root", True)
    assert skill.image_of("evaluate") == "own/image:1"


def test_types_that_banks_call_otherwise_are_read(load: Load) -> None:
    text = (
        "actions:\n"
        "  analyze:\n"
        "    mode: config\n"
        "    command: analyze -e {config_path}\n"
        "    metric: val_loss\n"
        "    inputs:\n"
        "      truth: {type: path, required: true}\n"
        "      images: {type: directory, required: false}\n"
        "      strict: {type: bool}\n"
        "    outputs:\n"
        "      run_dir: {type: directory, config_path: output.run_dir}\n"
    )
    action = load(text).action("analyze")
    assert action.inputs == {
        "truth": Input("truth", "file"),
        "images": Input("images", "folder", optional=True),
        "strict": Input("strict", "text"),
    }
    assert action.outputs == {"output.run_dir": Output("output.run_dir", "folder")}


def test_the_data_of_a_skill_is_read(load: Load) -> None:
    text = GOOD + (
        "data_sources:\n"
        "  train:\n"
        "    dataset.dir: {source: train_datasets, path: images.tar.gz, runtime: extracted_folder,"
        " list: true, multiple_sources: true}\n"
        "    dataset.media: {source: eval_dataset, path_from_format: {llava: [a.tar, b.tar],"
        " '*': a.tar}}\n"
        "    dataset.all: {source: train_datasets, optional: true, mapping: {image_dir:"
        " {path: images.tar.gz}, suffix: {optional: true}}}\n"
    )
    sources = load(text).data_sources["train"]
    assert sources["dataset.dir"] == DataSource(
        "dataset.dir", "train_datasets", "images.tar.gz", "extracted_folder", True, True
    )
    assert sources["dataset.media"].path_from_format == {
        "llava": ("a.tar", "b.tar"),
        "*": ("a.tar",),
    }
    assert sources["dataset.all"].mapping == {
        "image_dir": MappedFile("images.tar.gz"),
        "suffix": MappedFile("", True),
    }


def test_what_fills_a_key_of_the_spec_is_a_word_or_a_file_of_the_web(load: Load) -> None:
    text = GOOD + (
        "spec_params:\n"
        "  train:\n"
        "    results_dir: output_dir\n"
        "    model.path: {link: https://example.com/w.pth, destination_path: /ptm/w.pth}\n"
    )
    assert load(text).spec_params["train"] == {
        "results_dir": "output_dir",
        "model.path": Download("https://example.com/w.pth", "/ptm/w.pth"),
    }


def test_credentials_are_names_or_say_how_to_get_them(load: Load) -> None:
    text = GOOD + (
        "required_credentials: [HF_TOKEN]\n"
        "optional_credentials:\n"
        "- {name: NGC_KEY, source: env_var, only_when: the image is private}\n"
        "credential_groups:\n"
        "- {name: login, require_one_of: [SSH_KEY_PATH, SSH_AUTH_SOCK], preferred: SSH_KEY_PATH}\n"
    )
    skill = load(text)
    assert skill.required_credentials == (Credential("HF_TOKEN"),)
    assert skill.optional_credentials == (Credential("NGC_KEY", only_when="the image is private"),)
    assert skill.credential_groups == (
        CredentialGroup("login", ("SSH_KEY_PATH", "SSH_AUTH_SOCK"), "SSH_KEY_PATH"),
    )


def test_the_machine_that_a_skill_and_its_action_need_is_read(load: Load) -> None:
    text = GOOD.replace(
        "    mode: config\n",
        "    mode: config\n"
        "    runtime_requirements: {gpu_host: {min_gpu_count: 4, min_gpu_memory_gb: 80}}\n",
    ) + (
        "runtime_requirements:\n"
        "  gpu_host: {min_driver_version: '580', min_cuda_version: '13.0', gpu_archs: [8.0, sm_90]}\n"
        "conditional_credentials: {HF_TOKEN: only for a gated checkpoint}\n"
    )
    skill = load(text)
    general = HostNeeds(gpu_archs=("sm_80", "sm_90"), driver="580", cuda="13.0")
    assert skill.needs_of("evaluate") == general
    assert skill.needs_of("train") == dataclasses.replace(general, gpu_count=4, gpu_memory_gb=80)
    assert skill.optional_credentials == (
        Credential("HF_TOKEN", only_when="only for a gated checkpoint"),
    )


def test_a_format_may_be_described_by_a_mapping(load: Load) -> None:
    described = "data_format: {type: coco, categories: [{id: 1, name: defect}]}\n"
    assert load(GOOD + described).data_format == "coco"


def test_arguments_of_an_action_may_have_hyphens(load: Load) -> None:
    text = (
        "actions:\n"
        "  analyze:\n"
        "    mode: args\n"
        "    command: analyze it\n"
        "    args: {videos: '{videos_dir}', out: '{results_dir}'}\n"
        "    defaults: {videos_dir: ''}\n"
        "    inputs: {videos-dir: folder}\n"
        "    outputs: {results-dir: folder}\n"
    )
    action = load(text).action("analyze")
    assert action.inputs["videos-dir"] == Input("videos-dir", "folder")
    assert action.args == {"videos": "{videos_dir}", "out": "{results_dir}"}


def test_an_argument_may_be_a_value_that_the_user_sets_and_a_default_a_flag(load: Load) -> None:
    text = (
        "actions:\n"
        "  generate:\n"
        "    mode: args\n"
        "    command: generate\n"
        "    args: {name: '--name {name}', safe: '--safe/--no-safe {safe}'}\n"
        "    defaults: {safe: true, workers: 2}\n"
    )
    assert load(text).action("generate").defaults == {"safe": "true", "workers": "2"}


def test_a_command_is_left_as_it_is(load: Load) -> None:
    text = (
        "actions:\n"
        "  convert:\n"
        "    mode: config\n"
        "    command: |\n"
        "      python - {config_path} <<'PY'\n"
        "      print({'a': \"{b}\"})\n"
        "      PY\n"
    )
    command = load(text).action("convert").command
    assert command == "python - {config_path} <<'PY'\nprint({'a': \"{b}\"})\nPY\n"


def test_a_missing_mode_is_invalid_metadata_that_names_skill_and_file(load: Load) -> None:
    error = mistake(load, GOOD.replace("    mode: config\n", ""))
    assert "invalid metadata of skill toy" in error.what
    assert error.place.path.endswith(PATH)
    assert (error.key, error.place.line) == ("actions.train.mode", 5)
    assert error.next == "Add mode: config, args or passthrough."


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("mode: config", "mode: confg", "actions.train.mode@6: actions.train.mode is 'confg'"),
        ("mode: config", "mode: yes", "actions.train.mode@6: actions.train.mode is true or false"),
        ("    command: toynet train -e {config_path}\n", "", "actions.train.command@5: "),
        ("-e {config_path}", "-e spec.yaml", "actions.train.command@7: "),
        ("config_format: yaml", "config_format: ini", "actions.train.config_format@8: "),
        ("dataset.sources[0].image_dir:", "dataset.*.image_dir:", "actions.train.inputs.dataset.*"),
        ("dataset.sources[0].image_dir:", "dataset..image_dir:", "actions.train.inputs.dataset.."),
        ("dataset.sources[0].image_dir:", "image-dir:", "actions.train.inputs.image-dir@10: "),
        ("{type: folder}\n      train", "{optional: true}\n      train", "actions.train.inputs.data"),
        ("{type: file, optional: true}", "{type: fil}", "actions.train.inputs.train.pretrained.type"),
        ("optional: true", "optional: maybe", "actions.train.inputs.train.pretrained.optional@11"),
        ("results_dir: {type: folder}", "results_dir: {type: list}", "actions.train.outputs.resul"),
        ("upload_excludes: [inputs/]", "upload_excludes: inputs/", "actions.train.upload_excludes"),
        ("network_arch: toynet", "network_arch: [a]", "network_arch@2: network_arch is a list"),
        ("container_image: tao_toolkit.toy", "container_image: a b", "container_image@3: "),
        ("actions:\n", "gpu_spec_key: train gpus\nactions:\n", "gpu_spec_key@4: "),
        ("actions:\n", "data_sources: {train: {a: {path: x}}}\nactions:\n", "data_sources.train.a@4"),
        ("actions:\n", "data_sources: {train: {a: {source: x, path: ../y}}}\nactions:\n", "data_so"),
        ("actions:\n", "spec_params: {train: {a: {link: 'http://x'}}}\nactions:\n", "spec_params.tr"),
        ("actions:\n", "required_credentials: [not-a-name]\nactions:\n", "required_credentials[0]@4"),
        ("actions:\n", "spec_templates: {train: /etc/passwd}\nactions:\n", "spec_templates.train@4"),
        ("actions:\n", "conditional_credentials: {a b: x}\nactions:\n", "conditional_credentials.a"),
        ("mode: config", "mode: config\n    runtime_requirements: {gpu_host: {gpu_archs: [turing]}}",
         "actions.train.runtime_requirements.gpu_host.gpu_archs[0]@7: "),
        ("mode: config", "mode: config\n    runtime_requirements: {gpu_host: {min_gpu_count: some}}",
         "actions.train.runtime_requirements.gpu_host.min_gpu_count@7: "),
        ("mode: config", "mode: config\n    runtime_requirements: {gpu_host: {min_cuda_version: new}}",
         "actions.train.runtime_requirements.gpu_host.min_cuda_version@7: "),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_key_and_line(
    load: Load, old: str, new: str, words: str
) -> None:
    assert old in GOOD
    assert words in told(load, GOOD.replace(old, new))


@pytest.mark.parametrize(
    "key",
    [
        "a",
        "a.b[0].c",
        "a[1][2]",
        "a-b.c",
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a[",
        "a[x]",
        "[0]",
        "a[0]b",
    ],
)
def test_a_key_of_a_spec_is_what_a_job_reads_as_one(key: str) -> None:
    def reads() -> bool:
        try:
            return bool(steps(key))
        except SpecError:
            return False

    assert is_spec_key(key) == reads()


def test_a_placeholder_that_nothing_fills_is_a_mistake(load: Load) -> None:
    text = "actions: {a: {mode: args, command: x, args: {out: '{results}'}}}\n"
    assert "names {results}, which is no input" in told(load, text)


def test_all_mistakes_of_a_file_are_found_in_one_reading(make_bank: MakeBank) -> None:
    text = GOOD.replace("mode: config", "mode: x").replace("toynet\n", "[]\n", 1)
    bank = make_bank({PATH: text})
    _, reading = read_skill(bank.root, bank.skills / PATH, "toy", "model")
    assert [error.key for error in reading.errors] == ["network_arch", "actions.train.mode"]
    with pytest.raises(SkillError, match="network_arch.*1 more: tao skills check"):
        load_skill(bank.root, bank.skills / PATH, "toy")


def test_an_unknown_key_is_a_warning_with_the_right_one(make_bank: MakeBank) -> None:
    bank = make_bank({PATH: GOOD.replace("container_image", "conatiner_image")})
    _, reading = read_skill(bank.root, bank.skills / PATH, "toy", "model")
    assert reading.errors == []
    assert [(each.key, each.next) for each in reading.warnings] == [
        ("conatiner_image", "Did you mean container_image?")
    ]


def test_an_image_that_is_a_rule_is_a_warning_and_the_jobs_name_theirs(
    make_bank: MakeBank,
) -> None:
    rule = "container_image: {policy: derived, runtime_input: image_tag}"
    bank = make_bank({PATH: GOOD.replace("container_image: tao_toolkit.toy", rule)})
    skill, reading = read_skill(bank.root, bank.skills / PATH, "toy", "model")
    assert reading.errors == []
    assert [each.next for each in reading.warnings] == ["Give an image to each job of it."]
    assert skill.image_of("train") == ""


def test_an_unknown_action_names_the_one_that_is_meant(load: Load) -> None:
    with pytest.raises(ActionNotFound, match="Did you mean train?"):
        load(GOOD).action("trian")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", "a skill is a mapping; this is a list"),
        ("", "a skill is a mapping; this is empty"),
        ("a: &a [*a]\n", "refers to what it is in"),
        ("a: [\n", "this is not YAML"),
        ("a: 1\na: 2\n", "a is given a second time"),
        ("[" * 200 + "]" * 200, "nested more than"),
        ("name: !!python/object:os.system x\n", "has no meaning here"),
        ('network_arch: "a\\x1b[2Jb"\n', "U+001B, which cannot be seen"),
        ('network_arch: "a\\u202eb"\n', "U+202E, which cannot be seen"),
        ('"a\\x1bb": 1\n', "is no name"),
    ],
)
def test_a_file_that_is_no_skill_is_refused_with_its_place(
    load: Load, text: str, words: str
) -> None:
    error = mistake(load, text)
    assert words in error.what
    assert PATH in str(error.place)


def test_aliases_that_grow_without_end_are_refused(load: Load) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 5)]
    assert "holds more than 50,000 values" in mistake(load, "\n".join(lines)).what


def test_a_file_of_ten_megabytes_is_refused(load: Load) -> None:
    assert "larger than 1.0 MB" in mistake(load, "#" * (10 * LARGEST)).what


def test_a_file_that_leads_out_of_the_bank_is_refused(make_bank: MakeBank, tmp_path: Path) -> None:
    bank = make_bank({PATH: GOOD})
    secret = tmp_path / "secret.yaml"
    secret.write_text("password: hidden\n")
    path = bank.skills / PATH
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(SkillError, match="leads out of the skill bank") as told:
        load_skill(bank.root, path, "toy")
    assert "hidden" not in str(told.value)


def test_a_link_within_the_bank_is_followed(make_bank: MakeBank) -> None:
    bank = make_bank({PATH: GOOD})
    (bank.skills / "tao-train-other").symlink_to(bank.skills / "tao-train-toy")
    other = bank.skills / "tao-train-other" / "references" / "skill_info.yaml"
    assert load_skill(bank.root, other, "toy").network_arch == "toynet"


def test_a_pipe_is_refused_and_not_waited_for(make_bank: MakeBank) -> None:
    bank = make_bank({PATH: GOOD})
    (bank.skills / PATH).unlink()
    os.mkfifo(bank.skills / PATH)
    with pytest.raises(SkillError, match="no plain file"):
        load_skill(bank.root, bank.skills / PATH, "toy")


TEMPLATED = GOOD + "spec_templates: {train: ../references/template.yaml}\n"


def test_a_template_lies_beside_the_skills_file(make_bank: MakeBank) -> None:
    beside = "tao-train-toy/references/template.yaml"
    bank = make_bank({PATH: TEMPLATED, beside: "a: &a {b: 1}\nc: *a\n"})
    skill = load_skill(bank.root, bank.skills / PATH, "toy")
    template = template_file(bank.root, skill, "train")
    assert template is not None
    assert template.samefile(bank.skills / beside)
    assert template_file(bank.root, skill, "evaluate") is None


def test_a_template_may_be_named_from_the_skills_folder(make_bank: MakeBank) -> None:
    beside = "tao-train-toy/references/template.yaml"
    named = GOOD + "spec_templates: {train: references/template.yaml}\n"
    bank = make_bank({PATH: named, beside: "a: 1\n"})
    template = template_file(bank.root, load_skill(bank.root, bank.skills / PATH, "toy"), "train")
    assert template is not None
    assert template.samefile(bank.skills / beside)


def test_templates_of_tasks_are_found_by_task_and_action(load: Load) -> None:
    skill = load(GOOD + "spec_templates: {classify: {train: a.yaml}, segment: {train: b.yaml}}\n")
    paths = {name: template.path for name, template in skill.spec_templates.items()}
    assert paths == {"classify.train": "a.yaml", "segment.train": "b.yaml"}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../references/template.yaml", "there is no template"),
        ("../../../../outside.yaml", "is outside the bank"),
    ],
)
def test_a_template_that_is_not_there_is_told_with_the_line_that_names_it(
    make_bank: MakeBank, tmp_path: Path, path: str, words: str
) -> None:
    (tmp_path / "outside.yaml").write_text("a: 1\n")
    bank = make_bank({PATH: GOOD + f"spec_templates:\n  train: {path}\n"})
    skill = load_skill(bank.root, bank.skills / PATH, "toy")
    with pytest.raises(SkillError, match=words) as told:
        template_file(bank.root, skill, "train")
    assert (told.value.key, told.value.place.line) == ("spec_templates.train", 16)


def test_a_template_that_a_link_takes_from_elsewhere_is_refused(
    make_bank: MakeBank, tmp_path: Path
) -> None:
    (tmp_path / "outside.yaml").write_text("a: 1\n")
    bank = make_bank({PATH: TEMPLATED})
    (bank.skills / PATH).with_name("template.yaml").symlink_to(tmp_path / "outside.yaml")
    skill = load_skill(bank.root, bank.skills / PATH, "toy")
    with pytest.raises(SkillError, match="is outside the bank"):
        template_file(bank.root, skill, "train")
