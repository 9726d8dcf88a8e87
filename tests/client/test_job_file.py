"""Job files: what every key means, and that every mistake is told with its place."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tao_sdk.client import Client
from tao_sdk.client.document import DocumentError, compose, read_document
from tao_sdk.client.job_file import JobFile, read_job_file
from tao_sdk.client.job_schema import SCHEMA_FILE, job_schema, text
from tao_sdk.client.mistakes import Mistakes
from tao_sdk.model.errors import SpecError, TaoError

Read = Callable[..., JobFile]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_text(content: str, name: str = "job.yaml", **changes: object) -> JobFile:
        path = tmp_path / name
        path.write_text(content)
        return read_job_file(path, changes)

    return read_text


def mistake(read: Read, content: str, **changes: object) -> str:
    """What is told, from the line on."""
    with pytest.raises(DocumentError) as told:
        read(content, **changes)
    return str(told.value).partition("/job.yaml")[2].lstrip(":")


def test_every_documented_key_reaches_the_spec(read: Read, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    job = read(
        """
        name: digits
        platform: slurm
        image: nvcr.io/nvidia/x:1.10
        command: python3 train.py -e {config_path}
        mode: config
        specs: {train: {lr: 1e-05, epochs: 20}}
        config_format: json
        inputs: {train.data: {type: folder, optional: true}}
        outputs: {results_dir: folder}
        upload_excludes: [inputs/]
        files: {train.py: ./train.py}
        gpu_count: 8
        num_nodes: 2
        cpus: 1.5
        memory: 32g
        shm_size: 8g
        time_limit: 4h
        env_vars: {NCCL_DEBUG: INFO}
        secrets: [WANDB_KEY]
        mounts: ["/data:/data:ro"]
        labels: {team: vision}
        retries: 3
        hooks: {on_error: ./tell.sh}
        options: {slurm: {partition: gpu}, docker: {network: host}}
        native: {slurm: {comment: hello}, kubernetes: {spec: {}}}
        """
    )
    spec = job.spec_for("slurm")
    assert (spec.name, job.platform, spec.image) == ("digits", "slurm", "nvcr.io/nvidia/x:1.10")
    assert spec.specs == {"train": {"lr": 1e-05, "epochs": 20}}
    assert spec.inputs == {"train.data": {"type": "folder", "optional": True}}
    assert spec.files == {"train.py": b"print(1)\n"}
    assert spec.time_limit == timedelta(hours=4)
    assert (spec.gpu_count, spec.num_nodes, spec.cpus, spec.memory, spec.retries) == (
        8,
        2,
        1.5,
        "32g",
        3,
    )
    assert (spec.secrets, spec.mounts, spec.labels) == (
        ("WANDB_KEY",),
        ["/data:/data:ro"],
        {"team": "vision"},
    )
    assert spec.hooks == {"on_error": "./tell.sh"}
    assert job.options_for("slurm") == {"partition": "gpu"}
    assert spec.native == {"comment": "hello"}


def test_only_the_chosen_platforms_options_and_native_patch_are_used(read: Read) -> None:
    job = read("command: x\noptions: {slurm: {partition: gpu}}\nnative: {k8s: {a: 1}}")
    assert job.options_for("docker") == {}
    assert job.spec_for("docker").native == {}
    assert job.spec_for("kubernetes").native == {"a": 1}
    assert job.spec_for("k8s").native == {"a": 1}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("command: x\ngpu_cont: 2", "2:1: unknown key 'gpu_cont'. Did you mean gpu_count?"),
        ("command: x\ngpus: 2", "2:1: unknown key 'gpus'. Did you mean gpu_count?"),
        ("command: x\ntimeout: 1h", "2:1: unknown key 'timeout'. Did you mean time_limit?"),
        ("command: [python, train.py]", "1:11: command is ['python', 'train.py']; it must be a text. Write 'python train.py'."),
        ("command: x\nenv: {A: b}", "2:1: unknown key 'env'. Did you mean env_vars?"),
        ("command: x\ngpu_count: two", "2:12: gpu_count is 'two'; it must be a whole number of -1 or more."),
        ("command: x\ntime_limit: soon", (
            "2:13: time_limit is 'soon'; it must be a duration such as "
            "90s, 30m, 4h or 1-12:00:00."
        )),
        ("command: x\nmode: confg", "2:7: mode is 'confg'; it must be one of config, args, passthrough."),
        ("command: x\nupload_excludes: [a, {b: c}]", "2:22: upload_excludes is ['a', {'b': 'c'}]; it must be a list of texts."),
        ("command: x\nupload_excludes: a", "2:18: upload_excludes is 'a'; it must be a list of texts."),
        ("command: x\nlabels: [a]", "2:9: labels is a list; it must be a mapping of names to texts."),
        ("command: x\nlabels: {a: {b: c}}", "2:13: labels.a is a mapping; it must be a text."),
        ("command: x\nplatform: slrum", "2:11: unknown platform 'slrum'. Did you mean slurm?"),
        ("command: x\noptions: {slrum: {}}", "2:11: unknown platform 'slrum'. Did you mean slurm?"),
        ("command: x\noptions: {slurm: [a]}", "2:18: options.slurm is a list; it must be a mapping."),
        ("command: x\noptions: {k8s: {}, kubernetes: {}}", "2:20: options names kubernetes a second time, as kubernetes."),
        ("command: x\noptions: {local: {venv_pth: /v}}", "2:19: unknown key 'venv_pth' of local. Did you mean venv_path?"),
        ("command: x\nvenv_path: /v", "2:1: unknown key 'venv_path'. It is an option of local"),
        ("command: x\ninputs: {a: {optinal: true}}", "2:14: unknown key 'optinal' of inputs.a. Did you mean optional?"),
        ("command: x\nhooks: {on_complet: y}", "2:9: unknown key 'on_complet' of hooks. Did you mean on_complete?"),
        ("command: x\ncommand: y", "2:1: command is given a second time. It stands in line 1 already."),
        ("command: x\nspecs: {a: {b: 1, b: 2}}", "2:19: b is given a second time. It stands in line 2 already."),
        ("command: x\nspecs: {a.b: 1}", (
            "2:9: specs has the flat key 'a.b'. The program would find "
            "no value under it. Nest it: "
        )),
        ("command: x\nspecs: {a: .nan}", "2:12: .nan is not a finite number."),
        ("command: x\nspecs: {a: 1e999}", "2:12: 1e999 is not a finite number."),
        ("command: x\nfiles: {a: nowhere}", "2:12: files.a: there is no "),
        ("command: x\nfiles: [a]", "2:8: files is a list; it must be a mapping of paths in the job to files here"),
        ("command: x\nspecs: nowhere.yaml", "2:8: specs: there is no file "),
        ("command: x\nenv_vars: {A-B: c}", "2:11: env_vars has the name 'A-B'; letters, digits and _ are allowed."),
        ("command: [a]", "1:11: command is ['a']; it must be a text."),
        ("command: x\n\tgpu_count: 1", "2:1: a tab indents this line. YAML takes spaces only. Replace the tab by spaces."),
        ("command: a: b", "1:11: this is not YAML: mapping values are not allowed in this context."),
        ("command: [a\ngpu_count: 1", "2:10: this is not YAML: while parsing a flow sequence"),
        ("command: 'x", "1:12: this is not YAML: while scanning a quoted scalar"),
        ("command: *x", "1:10: *x refers to nothing above."),
        ("command: &x [*x]", "1:14: *x refers to what it is in."),
        ("command: !!python/object:os.system x", "1:10: the tag tag:yaml.org,2002:python/object:os.system has no meaning here."),
        ("command: x\n---\ncommand: y", "2:1: a second document starts here."),
        ("? [a]\n: b", "1:3: a key is a list. A key is a text."),
        ("- command", "1:1: a job file is a mapping; this is a list."),
        ("", "this job file is empty."),
        ("# nothing\n---\n", "this job file is empty."),
        ("gpu_count: 1", "command is missing. Say what the job runs, e.g. command: python train.py"),
        ("command: x\nspecs: {a: 1}\nargs: {b: 2}", "3:7: both specs and args are given."),
        ("a: " + "[" * 200, "1:103: this is nested more than 100 levels deep."),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_and_column_and_what_was_meant(
    read: Read, content: str, told: str
) -> None:
    assert mistake(read, content).strip().startswith(told)


def test_nesting_that_would_crash_a_parser_is_a_mistake_like_others(read: Read) -> None:
    assert "nested more than 100 levels" in mistake(read, "a: " + "[" * 200_000)


def test_aliases_that_multiply_are_refused_before_they_fill_the_memory(read: Read) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 20)
    )
    assert "holds more than 1,000,000 values" in mistake(read, bomb)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1e-05", 1e-05),
        ("1e5", 1e5),
        (".5", 0.5),
        ("-1.5E+3", -1500.0),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 15),
        ("true", True),
        ("~", None),
        ("4:30:00", "4:30:00"),
        ("2026-01-01", "2026-01-01"),
        ("1.2.3", "1.2.3"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("!!float 1", 1.0),
    ],
)
def test_a_spec_value_is_read_as_it_is_meant(written: str, meant: object) -> None:
    value = compose(f"v: {written}", "f").plain()["v"]
    assert value == meant
    assert type(value) is type(meant)


def test_keys_are_texts_also_where_yaml_makes_them_something_else(read: Read) -> None:
    job = read("command: x\nspecs: {on: 1, yes: 2, no: 3, 1: 4, null: 5}")
    assert job.spec.specs == {"on": 1, "yes": 2, "no": 3, "1": 4, "null": 5}


def test_texts_stay_as_they_are_written(read: Read) -> None:
    job = read(
        "command: x\nimage: 1.10\ntime_limit: 4:30:00\nlabels: {on: 1e3}\n"
        "env_vars: {VERSION: 1.10, FLAG: yes, ID: 007, EMPTY: ''}"
    )
    assert job.spec.image == "1.10"
    assert job.spec.env_vars == {"VERSION": "1.10", "FLAG": "yes", "ID": "007", "EMPTY": ""}
    assert job.spec.time_limit == timedelta(hours=4, minutes=30)
    assert job.spec.labels == {"on": "1e3"}


def test_a_key_without_a_value_counts_as_not_given(read: Read) -> None:
    job = read(
        "command: x\nname:\ngpu_count: ~\noptions:\nnative: {slurm: "
        "}\nplatform:\nenv_vars: {A: , B: b}"
    )
    assert (job.spec.gpu_count, job.options, job.platform) == (1, {}, None)
    assert job.spec.env_vars == {"B": "b"}


def test_anchors_and_merge_keys_work(read: Read) -> None:
    job = read(
        "command: x\nspecs:\n  a: &a {lr: 1, n: 2}\n  b: {<<: *a, lr: 3}\n  c: {<<: [{n: 5}, *a]}"
    )
    assert job.spec.specs == {
        "a": {"lr": 1, "n": 2},
        "b": {"lr": 3, "n": 2},
        "c": {"lr": 1, "n": 5},
    }


@pytest.mark.parametrize(
    ("name", "job"), [("digits.yaml", "digits"), ("job.yaml", "folder"), ("My Run.yml", "My Run")]
)
def test_the_name_is_the_files_or_for_a_file_called_job_the_folders(
    tmp_path: Path, name: str, job: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / name).write_text("command: x")
    assert read_job_file(folder / name).spec.name == job


def test_changes_win_over_the_file_and_add_to_mappings_and_secrets(read: Read) -> None:
    content = (
        "command: x\ngpu_count: 1\nenv_vars: {A: file, B: file}\nsecrets: "
        "[ONE]\nupload_excludes: [a]"
    )
    job = read(
        content,
        gpu_count="4",
        env_vars={"B": "flag", "C": "flag"},
        secrets=["TWO"],
        upload_excludes=["b"],
    )
    assert job.spec.gpu_count == 4
    assert job.spec.env_vars == {"A": "file", "B": "flag", "C": "flag"}
    assert job.spec.secrets == ("ONE", "TWO")
    assert job.spec.upload_excludes == ("b",)


def test_a_mistake_in_a_change_does_not_blame_a_line_of_the_file(read: Read) -> None:
    with pytest.raises(SpecError) as told:
        read("command: x\ngpu_count: 1", gpu_count="many")
    assert re.search(r"job\.yaml: gpu_count is 'many'", str(told.value))


def test_all_mistakes_of_a_file_are_told_at_once_each_with_its_line_and_key(read: Read) -> None:
    with pytest.raises(Mistakes) as told:
        read(
            """command: x
gpu_cont: 2
time_limit: soon
platform: slrum
options:
  local: {venv_pth: /v, nothing_like_it: 1}
  slurm: {nodes: many}
env_vars: {A-B: c}
hooks: {on_complet: y}
"""
        )
    assert [(one.place.line, one.key) for one in told.value.mistakes] == [
        (2, "gpu_cont"), (3, "time_limit"), (4, "platform"), (6, "options.local.venv_pth"),
        (6, "options.local.nothing_like_it"), (7, "options.slurm.nodes"), (8, "env_vars"),
        (9, "hooks"),
    ]  # fmt: skip


def test_a_misspelt_key_is_one_mistake_not_also_a_missing_one(read: Read) -> None:
    assert mistake(read, "comand: x").startswith("1:1: unknown key 'comand'. Did you mean command?")


@pytest.mark.slow
def test_of_very_many_mistakes_the_first_are_told(read: Read) -> None:
    with pytest.raises(Mistakes) as told:
        read("\n".join(f"wrong_{number}: 1" for number in range(10_000)))
    assert len(told.value.mistakes) == 20


def test_files_are_carried_with_all_that_is_below_a_folder(read: Read, tmp_path: Path) -> None:
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "src/__pycache__").mkdir()
    for path in ("src/a.py", "src/deep/b.bin", "src/__pycache__/a.pyc"):
        (tmp_path / path).write_bytes(bytes(range(256)))
    (tmp_path / "src/link.py").symlink_to("a.py")
    job = read("command: x\nfiles: {code/: src, /etc/one: src/a.py}")
    assert set(job.spec.files) == {"code/a.py", "code/link.py", "code/deep/b.bin", "/etc/one"}
    assert job.spec.files["code/deep/b.bin"] == bytes(range(256))


def test_the_files_of_a_folder_can_lie_where_the_command_starts(read: Read, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a")
    assert read("command: x\nfiles: {.: src}").spec.files == {"a.py": b"a"}


def test_two_files_for_one_place_in_the_job_are_told(read: Read, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a")
    (tmp_path / "b.py").write_text("b")
    told = mistake(read, "command: x\nfiles: {code: src, code/a.py: b.py}")
    assert "files has two files for code/a.py in the job" in told


def test_a_folder_that_links_to_itself_and_a_broken_link_are_told(
    read: Read, tmp_path: Path
) -> None:
    (tmp_path / "round").mkdir()
    (tmp_path / "round/again").symlink_to(tmp_path / "round")
    assert "The folder would have no end" in mistake(read, "command: x\nfiles: {a: round}")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/link").symlink_to("nowhere")
    assert "not a readable file: " in mistake(read, "command: x\nfiles: {a: broken}")


def test_a_named_pipe_among_the_files_is_told_and_not_waited_for(
    read: Read, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a readable file: " in mistake(read, "command: x\nfiles: {a: pipe}")


def test_files_that_are_too_large_to_travel_are_told_with_the_limit(
    read: Read, tmp_path: Path
) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    told = mistake(read, "command: x\nfiles: {a: large}")
    assert told.startswith("2:12: with ")
    assert "more than 67.1 MB" in told
    assert "under inputs" in told


def test_specs_may_stand_in_a_yaml_or_json_file_beside_the_job_file(
    read: Read, tmp_path: Path
) -> None:
    (tmp_path / "spec.yaml").write_text("train: {lr: 1e-05}")
    (tmp_path / "spec.json").write_text(
        '{\n\t"train": {"lr": 1e-05, "text": "\\ud83d\\ude00 \\\\ud83d"}}'
    )
    assert read("command: x\nspecs: spec.yaml").spec.specs == {"train": {"lr": 1e-05}}
    assert read("command: x\nspecs: spec.json").spec.specs == {
        "train": {"lr": 1e-05, "text": "😀 \\ud83d"}
    }


def test_a_mistake_in_a_spec_file_is_told_with_that_files_line(read: Read, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{\n "a": 1\n "b": 2\n}')
    with pytest.raises(DocumentError, match=r"spec\.json:3:2: this is not JSON"):
        read("command: x\nspecs: spec.json")
    (tmp_path / "spec.yaml").write_text("a: 1\na: 2")
    with pytest.raises(DocumentError, match=r"spec\.yaml:2:1: a is given a second time"):
        read("command: x\nspecs: spec.yaml")
    (tmp_path / "list.yaml").write_text("[a]")
    with pytest.raises(DocumentError, match=r"list\.yaml:1:1: specs is a list"):
        read("command: x\nspecs: list.yaml")


def test_a_spec_of_4_mb_is_read(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({"values": ["x" * 100] * 40_000}))
    (tmp_path / "job.yaml").write_text("command: x\nspecs: spec.json")
    specs = read_job_file(tmp_path / "job.yaml").spec.specs
    assert specs is not None
    assert len(specs["values"]) == 40_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("jb.yaml", "there is no such file. Did you mean "),
        ("folder", "this is a folder. Name the file in it."),
        ("large.yaml", "this file has 50.0 MB; 16.0 MB is the limit."),
        ("latin.yaml", ":2:3: this is not UTF-8 text. Save the file as UTF-8."),
        ("binary.yaml", "1:3: this character cannot be here: U+0000."),
        ("none/job.yaml", "There is no folder "),
        ("zebra.yaml", "there is no such file. Here are: "),
    ],
)
def test_what_is_no_job_file_is_told_in_plain_words(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "job.yaml").write_text("command: x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large.yaml").write_bytes(b"#" * 50_000_000)
    (tmp_path / "latin.yaml").write_bytes(b"a: b\n# \xe9")
    (tmp_path / "binary.yaml").write_bytes(b"ab\x00c")
    with pytest.raises(DocumentError) as error:
        read_job_file(tmp_path / name)
    assert told in str(error.value)


def test_what_is_suggested_for_a_missing_file_is_a_document(tmp_path: Path) -> None:
    for name in (
        "nul.yaml",
        "nofile.txt",
        "nofile.py",
        *(f"train-{number}.yaml" for number in range(8)),
    ):
        (tmp_path / name).write_text("command: x")
    with pytest.raises(DocumentError) as error:
        read_job_file(tmp_path / "nofile.yaml")
    assert error.value.next == f"To write one: tao init {tmp_path}/nofile.yaml"
    with pytest.raises(DocumentError) as error:
        read_job_file(tmp_path / "trian-3.yml")
    assert error.value.next == f"Did you mean {tmp_path}/train-3.yaml?"


def test_a_spec_that_is_no_ordinary_file_is_not_called_missing(read: Read) -> None:
    with pytest.raises(DocumentError, match="/dev/null:1:1: specs is empty"):
        read("command: x\nspecs: /dev/null")


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(b"\xef\xbb\xbfcommand: x\r\ngpu_count: 2\r\n")
    assert read_job_file(tmp_path / "job.yaml").spec.gpu_count == 2


def test_no_value_of_an_environment_is_shown_by_a_mistake(read: Read) -> None:
    for content in (
        "env_vars: [NGC_KEY=hunter2hunter2]",
        "env_vars: {NGC_KEY: hunter2hunter2, B: [1]}",
        "env_vars: NGC_KEY=hunter2hunter2",
    ):
        assert "hunter2" not in mistake(read, f"command: x\n{content}")


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@pytest.mark.slow
@given(st.dictionaries(st.text(), TREES))
def test_whatever_json_can_hold_is_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, object]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(value))
    assert read_document(path).plain() == value


@given(st.text())
def test_any_text_is_a_document_or_a_told_mistake(content: str) -> None:
    try:
        compose(content, "f")
    except DocumentError as error:
        assert str(error).startswith("f")


def test_the_schema_for_editors_is_current() -> None:
    assert SCHEMA_FILE.read_text() == text(), "run: python -m tao_sdk.client.job_schema"


def test_the_schema_knows_every_key_of_a_job_file_and_no_other() -> None:
    schema = job_schema()
    known = set(schema["properties"])
    assert {"platform", "options", "native", "command", "files", "specs", "hooks"} <= known
    assert schema["additionalProperties"] is False
    assert schema["properties"]["options"]["properties"]["local"]["additionalProperties"] is False


def test_a_key_that_was_meant_for_another_is_told_once_whatever_the_words(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = TaoError.__init__

    def says_noise(error: TaoError, *_: str, **__: str) -> None:
        plain(error, "noise", "noise", "noise")

    monkeypatch.setattr(TaoError, "__init__", says_noise)
    with pytest.raises(DocumentError) as raised:
        read("comand: python train.py")
    assert not isinstance(raised.value, Mistakes)


def test_an_error_of_the_plan_stands_at_the_line_of_its_field(read: Read) -> None:
    job = read("command: x\nspecs: {a: 1}\noutputs: [a, b]\ninputs: {c.d: /x}\n")
    for what, field, line in (
        ("inputs names c.d.", "inputs", 4),
        ("The outputs a and b would lie in one folder.", "outputs", 3),
    ):
        error = SpecError(what)
        error.field = field
        located = job.located(error)
        assert isinstance(located, DocumentError)
        assert located.place.line == line
    assert job.located(SpecError("inputs are many.")).what == "inputs are many."


def test_an_output_and_an_input_of_one_key_are_told_with_their_line(
    read: Read, tmp_path: Path
) -> None:
    job = read("command: x\nspecs: {a: /x}\ninputs: [a]\noutputs: [a]\n")
    with pytest.raises(SpecError) as told, Client(state_file=tmp_path / "jobs.db") as client:
        client.plan(job.spec, "local")
    assert job.located(told.value).what.endswith(":4:10: a is declared twice.")
