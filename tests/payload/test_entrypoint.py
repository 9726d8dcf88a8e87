"""build_entrypoint: modes, what is refused before submit, sizes, and that the same input gives the
same bytes.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

import tao_sdk
from tao_sdk.model.errors import SpecError
from tao_sdk.payload import declared, pack, values
from tao_sdk.payload.kept_program import find_program
from tao_sdk.payload.program import abbreviated, modules
from tao_sdk.payload.source import imports, slim, source
from tao_sdk.runner.boot import written_out
from tao_sdk.script_runner import build_entrypoint

PACKAGE = Path(tao_sdk.__file__).parent
PACKED = sorted(path for room in ("net", "runner") for path in (PACKAGE / room).rglob("*.py"))
DETR = {
    "dataset": {
        "train_data_sources": [{"image_dir": "/data/train", "json_file": "/data/train.json"}],
        "num_classes": 80,
    },
    "train": {
        "num_gpus": 8,
        "num_epochs": 12,
        "optim": {"lr": 0.0002},
        "resume_training_checkpoint_path": "",
    },
    "results_dir": "",
}
INPUTS = {
    "dataset.train_data_sources[0].image_dir": {"type": "file"},
    "dataset.train_data_sources[0].json_file": {"type": "file"},
    "train.pretrained": {"type": "file", "optional": True},
}


def detr(**changes):
    arguments = {
        "command": "dino train -e {config_path}",
        "specs": DETR,
        "inputs": INPUTS,
        "outputs": {"results_dir": {"type": "folder"}},
        "config_format": "yaml",
        "upload_excludes": ["inputs/"],
    }
    return build_entrypoint(**{**arguments, **changes})["command"]


def refused(**arguments):
    with pytest.raises(SpecError) as error:
        build_entrypoint(**{"command": "true", **arguments})
    assert isinstance(error.value, ValueError)
    return str(error.value)


def test_it_returns_a_command_and_an_args_template():
    assert set(build_entrypoint(command="true")) == {"command", "args_template"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_same_input_gives_the_same_bytes_in_another_process_too(seed):
    here = str(Path(__file__).parent)
    code = (
        f"import sys; sys.path.insert(0, {here!r}); import test_entrypoint "
        "as t; print(t.detr(), end='')"
    )
    env = {**os.environ, "PYTHONHASHSEED": seed}
    run = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert run.stdout == detr()


def test_a_job_of_local_files_that_may_send_to_a_bucket_is_at_most_48_kilobytes():
    training = {**DETR, "train": {"num_gpus": 8, "num_epochs": 12}}
    assert len(detr(specs=training).encode()) <= 48 * 1024


def test_one_that_copies_paths_of_its_container_is_at_most_51_kilobytes():
    passthrough = build_entrypoint(
        command="python3 a.py", inputs={"/d": "/s"}, outputs=["/o"], files={"a.py": "pass"}
    )
    assert len(passthrough["command"].encode()) <= 51 * 1024


@pytest.mark.parametrize(("checkpoint", "bound"), [("", 56), ("/checkpoints/epoch_3.pth", 48)])
def test_one_that_finds_its_checkpoint_itself_is_at_most_56_kilobytes(checkpoint, bound):
    training = {**DETR["train"], "resume_training_checkpoint_path": checkpoint}
    text = detr(specs={**DETR, "train": training})
    assert len(text.encode()) <= bound * 1024


def test_the_program_of_a_job_is_packed_once_and_not_for_every_job():
    detr()
    packed = find_program.cache_info().misses
    others = [detr(command=f"train {number} -e {{config_path}}") for number in range(20)]
    assert len(set(others)) == 20
    assert find_program.cache_info().misses == packed


def test_the_text_is_plain_ascii_without_long_lines():
    text = detr(specs={**DETR, "x": "é😀" * 5000})
    assert text.isascii()
    assert not set(text.partition("<<'TAO'")[2].partition("TAO")[0]) & set("'\"`\\$!")
    assert max(map(len, text.splitlines())) <= 4000


OPTIONAL = {
    f"runner.{name}"
    for name in ("spec", "inputs.fetch", "files", "outputs.resume", "outputs.copies")
}


def test_only_what_the_job_can_need_is_packed():
    document = _document()
    assert OPTIONAL.isdisjoint(modules_of(document))
    document["files"] = ["x"]
    assert "runner.files" in modules_of(document)


@pytest.mark.slow
def test_a_job_with_outputs_can_send_them_to_a_bucket_and_one_without_has_nothing_that_could():
    document = _document()
    assert {"runner.outputs.bucket", "net.s3", "net.web"}.isdisjoint(modules_of(document))
    document["copies"] = [{"path": "/x", "name": "x"}]
    assert {"runner.outputs.bucket", "net.s3", "net.web"} <= set(modules_of(document))
    assert build_entrypoint(command="true", outputs=["/x"], bucket=False) == build_entrypoint(
        command="true", outputs=["/x"]
    )


def modules_of(document):
    return modules(pack.optional_modules(document))


def _document():
    from tao_sdk.payload.entrypoint import empty_document

    return empty_document("true", None, None)


def test_every_module_a_packed_one_imports_is_packed_with_it():
    document = _document()
    document.update(
        files=["x"],
        resume="k",
        spec={"parts": [""], "holes": []},
        inputs=[{"key": "k", "uri": "/x", "kind": "", "target": "", "options": {}}],
        copies=[{"path": "/x", "name": "x"}],
    )
    packed = set(modules_of(document))
    for module in packed:
        needed = imports(module)
        assert needed.at_once | needed.later <= packed | NEVER_HERE, module


NEVER_HERE = {
    "runner.inputs.staging",
    "runner.inputs.unpacking",
    "runner.inputs.archive",
    "runner.inputs.annotation",
}  # no input asks for them


@pytest.mark.slow
@pytest.mark.parametrize("path", PACKED, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_packed_module_is_the_same_program_on_the_same_lines(path):
    text = path.read_text()
    short = source(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    assert short.isascii()
    assert first_lines(short.decode()) <= first_lines(text)
    assert program(short.decode()) == program(text)
    assert passed_by_keyword().isdisjoint(renamed_parameters(text, short.decode()))


@cache
def passed_by_keyword():
    """The keywords of all calls in packed modules."""
    nodes = (node for path in PACKED for node in ast.walk(ast.parse(path.read_text())))
    return {node.arg for node in nodes if isinstance(node, ast.keyword)}


def renamed_parameters(text, short):
    """The names in the text of those parameters that are called otherwise in the short one."""
    before = parameters(text)
    return {before[place] for place, name in parameters(short).items() if before[place] != name}


def parameters(text):
    """(line of a function, number of a parameter) -> name."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return {
        (function.lineno, number): node.arg
        for function in functions
        for number, node in enumerate(arguments_of(function))
    }


def arguments_of(function):
    return [node for node in ast.walk(function.args) if isinstance(node, ast.arg)]


def first_lines(text):
    """(what, line) of what a traceback names."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return {(type(node), node.name, node.lineno) for node in nodes}


@pytest.mark.parametrize("text", [b"", b"word", b"a word, a word\n  and a word\n", b"x" * 300])
def test_an_abbreviated_text_is_written_out_as_it_was(text):
    pieces, short = abbreviated(text)
    assert written_out(short, pieces) == text


@pytest.mark.slow
def test_all_that_can_be_packed_is_written_out_as_it_was():
    text = "\n".join(slim(path.read_text()) for path in PACKED).encode("ascii", "backslashreplace")
    pieces, short = abbreviated(text)
    assert written_out(short, pieces) == text
    assert len(short) + sum(map(len, pieces)) < 0.7 * len(text)


def program(text):
    """What Python runs: the syntax tree without docstrings, annotations, what only a type
    checker reads, and the names of local variables and parameters.
    """

    class Strip(ast.NodeTransformer):
        def visit(self, node):
            self.generic_visit(node)
            body = getattr(node, "body", None)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and body:
                node.body = [each for each in body if not is_nothing(each)] or [ast.Pass()]
            if isinstance(node, ast.FunctionDef):
                node.returns = None
            if isinstance(node, ast.arg):
                node.annotation = None
            if isinstance(node, ast.AnnAssign) and node.value:
                return ast.Assign(targets=[node.target], value=node.value)
            return node

    def is_nothing(node):
        if isinstance(node, ast.ImportFrom):
            return node.module == "__future__"
        named = (
            node.test
            if isinstance(node, ast.If)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        checked = isinstance(named, ast.Name) and named.id == "TYPE_CHECKING"
        return checked or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))

    return ast.dump(with_numbered_variables(Strip().visit(ast.parse(text)), text))


def with_numbered_variables(tree, text):
    """The syntax tree with the local variables of each function numbered as they come, its
    parameters among them.
    """
    variables = variables_by_line(compile(text, "m", "exec"))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        numbers = {}
        for node in ast.walk(function):
            attribute = {ast.Name: "id", ast.arg: "arg"}.get(type(node), "")
            name = getattr(node, attribute, "")
            if name in variables.get(first_line(function), ()):
                number = numbers.setdefault(name, f"variable {len(numbers)}")
                setattr(node, attribute, number)
    return tree


def first_line(function):
    return min(node.lineno for node in (function, *function.decorator_list))


def variables_by_line(code):
    """The local variables of each outermost function of compiled code, by the line of its `def`."""
    found = {}
    for each in (const for const in code.co_consts if isinstance(const, types.CodeType)):
        if each.co_flags & inspect.CO_NEWLOCALS:
            found[each.co_firstlineno] = set(local_variables(each))
        else:  # the body of a class
            found.update(variables_by_line(each))
    return found


def local_variables(code):
    """What a function's own code and that of functions inside it assign to, or take."""
    yield from {*code.co_varnames, *code.co_cellvars}
    for each in (const for const in code.co_consts if isinstance(const, types.CodeType)):
        yield from local_variables(each)


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        ({"specs": {}}, "config"),
        ({"args": {}}, "args"),
        ({"flags": ["x"]}, "args"),
        ({}, "passthrough"),
        ({"inputs": {"/a": "/b"}}, "passthrough"),
    ],
)
def test_the_mode_follows_what_is_passed_and_a_named_one_has_to_agree(arguments, mode):
    assert build_entrypoint(command="true", **arguments) == build_entrypoint(
        command="true", mode=mode, **arguments
    )
    for other in {"config", "args", "passthrough"} - {mode}:
        assert f"means '{mode}'" in refused(mode=other, **arguments)


def test_an_unknown_mode_names_the_three():
    assert "config, args or passthrough" in refused(mode="magic")


def test_specs_and_args_together_are_refused():
    assert "specs and args" in refused(specs={}, args={})
    assert "specs and flags" in refused(specs={}, flags=["x"])


def test_the_default_format_is_the_documented_one(tmp_path):
    assert build_entrypoint(command="true", specs={"a": 1}) == build_entrypoint(
        command="true", specs={"a": 1}, config_format="toml"
    )


@pytest.mark.parametrize("wrong", ["ini", "YAML", "", 3])
def test_an_unknown_format_names_what_is_allowed(wrong):
    assert "toml, yaml, json" in refused(specs={}, config_format=wrong)


@pytest.mark.parametrize(
    "uri", ["hf_model://o/n", "hf_dataset://o/n", "ngc://o/t/n:1", "http://h/x", "https://h/x"]
)
def test_results_cannot_be_written_where_nothing_takes_them(uri):
    told = refused(specs={"a": {"b": uri}}, outputs=["a.b"], config_format="yaml")
    assert uri in told and "s3://bucket/prefix" in told
    assert uri in refused(outputs=[uri])


@pytest.mark.parametrize(
    "uri",
    ["hf_model://", "hf_dataset:///x", "ngc://org", "ngc://", "http://", "https:///x", "s3:///k"],
)
def test_an_address_that_is_not_complete_is_answered_with_its_shape(uri):
    told = refused(specs={"a": uri}, inputs=["a"], config_format="yaml")
    assert "specs.a" in told and f"Write {uri.partition(':')[0]}://" in told


@pytest.mark.parametrize(
    "host", ["127.0.0.1:notaport", "user:pw@h:0x50", "h:99999", "h:0", "[::1", "::1", "a b"]
)
def test_a_web_address_that_nothing_can_connect_to_is_refused_with_its_field(host):
    told = refused(specs={"a": f"http://{host}/x"}, inputs=["a"], config_format="yaml")
    assert "specs.a" in told and "port" in told
    assert "pw" not in told


@pytest.mark.parametrize(
    "host", ["h", "h:80", "user:p@ss@h:65535", "[::1]:8080", "[fe80::1%eth0]", "h:", "bücher.de"]
)
def test_a_web_address_with_a_port_or_a_login_is_taken(host):
    build_entrypoint(
        command="true {config_path}", specs={"a": f"https://{host}/x?y=1:2"}, inputs=["a"]
    )


def test_a_folder_of_a_web_server_is_refused_with_the_reason():
    told = refused(inputs={"/data/": "https://host/images/"})
    assert "slash" in told and ".tar.gz" in told


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("aws://b/k", "s3://bucket"),
        ("lustr:///a", "lustre://"),
        ("lustre:/a/b", "lustre://"),
        ("s3//b/k", "s3://"),
        ("hf://org/name", "hf_model://"),
        ("slurm://x", "slurm:///"),
    ],
)
def test_a_mistaken_scheme_is_answered_with_what_to_write(wrong, right):
    assert right in refused(specs={"a": wrong}, inputs=["a"], config_format="yaml")


def test_an_address_that_no_program_reads_is_fetched_wherever_it_stands():
    tree = {
        "m": {"n": ["hf_model://org/name", {"o": "ngc://org/x:1"}]},
        "captions": ["hf_model://is/text"],
    }
    keys = declared.SpecKeys(values.plain_mapping(tree, "specs"), "specs")
    assert keys.inputs({"captions": {"type": "list"}}) == []
    assert [each["key"] for each in keys.undeclared()] == ["m.n[0]", "m.n[1].o"]
    assert keys.tree["captions"] == ["hf_model://is/text"]


def test_an_address_of_a_shared_file_system_becomes_the_path_that_it_names_but_in_a_text():
    tree = {
        "m": ["lustre:///a/b", {"o": "slurm:///c"}],
        "glob": "lustre:///d/*.jpg",
        "note": "lustre:///is/text",
    }
    keys = declared.SpecKeys(values.plain_mapping(tree, "specs"), "specs")
    keys.inputs({"glob": {"type": "local_glob"}, "note": {"type": "text"}})
    keys.put_shared()
    assert keys.tree == {
        "m": ["/a/b", {"o": "/c"}],
        "glob": "/d/*.jpg",
        "note": "lustre:///is/text",
    }


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"extract": "maybe"}, "true or false"),
        ({"extract": False, "extract_to_parent": True}, "excludes"),
        ({"selective": "x"}, "selective: {annotation:"),
        ({"selective": {"annotation": "b"}}, "Declare b in inputs"),
        ({"selective": {"annotation": "a", "format": "xml"}}, "json, jsonl, csv, parquet"),
        ({"selective": {"annotation": "a", "keys": [3]}}, "list of texts"),
        ({"patterns": {"a": 1}}, "list of texts"),
        ({"type": "dir"}, "file, folder, list, local_glob, text"),
        ({"type": 7}, "file, folder, list, local_glob, text"),
        ({"optional": "maybe"}, "true or false"),
    ],
)
def test_an_option_of_an_input_that_cannot_be_is_refused_with_what_can(about, told):
    assert told in refused(specs={"a": "s3://b/k/"}, inputs={"a": about}, config_format="yaml")


@pytest.mark.parametrize("about", [{"type": "dir"}, {"type": 7}, {"optional": "maybe"}, "dir"])
def test_an_option_that_cannot_be_is_refused_of_an_output_and_without_specs_too(about):
    assert "It " in refused(specs={"a": ""}, outputs={"a": about}, config_format="yaml")
    assert "outputs['/out']" in refused(outputs={"/out": about})
    if isinstance(about, dict):
        assert "inputs['/in']" in refused(inputs={"/in": {"uri": "/data", **about}})


def test_an_address_beside_the_key_of_an_input_is_refused_as_it_belongs_in_the_spec():
    assert "s3://b/x" in refused(specs={"a": "/x"}, inputs={"a": "s3://b/x"}, config_format="yaml")


@pytest.mark.parametrize("key", ["/out", "./out", "out/model"])
def test_an_output_that_is_a_path_beside_specs_is_refused_with_what_to_write(key):
    for given in ({"specs": {"a": 1}, "config_format": "yaml"}, {"args": {"a": 1}}):
        told = refused(outputs=[key], **given)
        assert key in told and "$TAO_RESULTS_DIR" in told


def test_an_output_that_is_nearly_a_key_left_empty_is_refused_with_that_key():
    specs = {"train": {"results_dir": "", "epochs": 1}}
    assert "train.results_dir?" in refused(
        specs=specs, outputs=["train.reslts_dir"], config_format="yaml"
    )
    build_entrypoint(
        command="true",
        specs=specs,
        outputs=["train.results_dir", "train.results_dir2", "results_dir"],
    )


def test_an_input_comes_after_the_annotation_that_it_needs():
    keys = declared.SpecKeys({"media": "s3://b/m/", "list": "s3://b/l.json"}, "specs")
    found = keys.inputs({"media": {"selective": {"annotation": "list"}}, "list": {}})
    assert [each["key"] for each in found] == ["list", "media"]
    assert found[1]["options"] == {
        "selective": {"annotation": "list", "format": "", "keys": ["video"]}
    }


@pytest.mark.parametrize("uri", ["file://relative/path", "lustre://x"])
def test_a_path_has_to_be_absolute_behind_its_scheme(uri):
    assert "three slashes" in refused(specs={"a": uri}, inputs=["a"])


def test_an_address_is_quoted_without_its_secrets():
    told = refused(inputs={"/d": "https://user:hunter2@host/x/?X-Signature=hunter3"})
    assert "hunter" not in told and "https://host/x/" in told


@pytest.mark.parametrize(
    ("field", "written", "meant"),
    [
        ("inputs", "optonal", "optional"),
        ("inputs", "container-path", "container_path"),
        ("outputs", "typ", "type"),
    ],
)
def test_a_misspelt_attribute_is_told_instead_of_ignored_and_one_of_others_is_left_to_them(
    field, written, meant
):
    def told(attribute):
        specs = {"data": "/data", "results_dir": ""}
        key = {"inputs": "data", "outputs": "results_dir"}[field]
        return {
            "command": "x",
            "specs": specs,
            field: {key: {attribute: "file", "description": "what is read"}},
        }

    assert f"Did you mean {meant}?" in refused(**told(written))
    build_entrypoint(**told("type"))


@pytest.mark.parametrize(
    "specs", [{}, {"a": {}}, {"a": {"b": ""}}, {"a": {"b": None}}, {"a": {"b": []}}]
)
def test_a_declared_input_that_the_spec_does_not_have_is_refused_with_its_key(specs):
    told = refused(specs=specs, inputs={"a.b": {"type": "file"}}, config_format="yaml")
    assert "a.b" in told and "optional" in told


def test_an_input_that_is_no_path_is_refused_with_its_place():
    assert "specs.a[1] is 3" in refused(specs={"a": ["/x", 3]}, inputs=["a"])
    assert "specs.a is {'b': 1}" in refused(specs={"a": {"b": 1}}, inputs=["a"])


def test_a_key_is_an_input_or_an_output_once():
    assert "declared twice" in refused(specs={"a": "/x"}, inputs=["a"], outputs=["a"])


def test_outputs_that_would_lie_in_one_folder_are_refused_and_one_with_a_path_of_its_own_is_not():
    told = refused(specs={"a/b": "", "a_b": ""}, outputs=["a/b", "a_b"])
    assert "a/b and a_b would lie in one folder" in told
    build_entrypoint(command="true", specs={"a/b": "/elsewhere", "a_b": ""}, outputs=["a/b", "a_b"])


def test_a_flat_dotted_key_of_a_spec_is_refused_and_of_arguments_is_not():
    assert "{'a': {'b': '/x'}}" in refused(specs={"a.b": "/x"}, inputs=["a.b"])
    build_entrypoint(command="true", args={"train.lr": 1, "a.b": "/x"}, inputs=["a.b"])


def test_arguments_with_a_config_path_in_the_command_are_refused():
    assert "{config_path}" in refused(command="x -e {config_path}", args={"a": 1})


def test_null_at_an_output_or_optional_input_is_fine_in_toml():
    build_entrypoint(
        command="true",
        specs={"o": None, "i": None},
        outputs=["o"],
        inputs={"i": {"optional": True}},
    )
    assert "specs.x is None" in refused(specs={"x": None})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": 3}, "command is a int"),
        ({"command": "a\0b"}, "NUL"),
        ({"specs": 3}, "specs is a int"),
        ({"specs": {"a": 1}, "inputs": "a"}, "Write ['a']"),
        ({"specs": {"a": "/x"}, "inputs": {"a": 3}}, "inputs['a'] is 3"),
        ({"specs": {"a": "/x"}, "inputs": {"a": {"container_path": "rel"}}}, "container_path"),
        ({"inputs": {"s3://b/k": "/x"}}, "path in the job"),
        ({"inputs": {"/x": None}}, "inputs['/x']"),
        ({"outputs": ["s3://b/k"]}, "s3"),
        ({"files": {"../x": ""}}, "'../x'"),
        ({"files": {"x/": ""}}, "'x/'"),
        ({"files": {"a": "1", "./a": "2"}}, "files has two files for a: 'a' and './a'"),
        ({"files": {"a/b": "1", "c": "2", "a/./c/../b": "3"}}, "files has two files for a/b"),
        ({"files": {"a/b/c": "1", "a": "2"}}, "files has 'a', and 'a/b/c' below it"),
        ({"files": {"": ""}}, "''"),
        ({"files": {"x": 3}}, "files['x'] is a int"),
        ({"mount_path": "rel"}, "mount_path"),
        ({"upload_excludes": [3]}, "upload_excludes"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(arguments, told):
    assert told in refused(**arguments)


def test_inputs_that_would_lie_in_each_other_are_refused():
    for first, second in (("/d", "/d/"), ("/d", "/d/sub"), ("/d/x/y", "/d/x")):
        assert "place of its own" in refused(inputs={first: "/a", "/d-e": "/c", second: "/b"})
    specs, about = {"a": ["/x/same", "/y/same"]}, {"a": {"container_path": "/in"}}
    assert "/in/same" in refused(specs=specs, inputs=about)


@pytest.mark.parametrize(
    "path", ["/", "//", "/proc", "/proc/", "//proc/self", "/sys/class", "/dev", "/tmp/../dev"]
)
def test_all_of_a_machine_and_what_its_kernel_shows_are_no_output(path):
    with pytest.raises(SpecError, match="outputs has .*(all of the machine|the kernel shows)"):
        build_entrypoint(command="x", outputs=[path])


@pytest.mark.parametrize("path", ["/dev/shm/out", "/device", "/processed", "proc", "/data/proc"])
def test_a_path_that_is_only_called_like_the_kernels_is_an_output(path):
    assert build_entrypoint(command="x", outputs=[path])["command"]


@pytest.mark.parametrize("path", [".", "./", "..", "../..", "a/.."])
def test_a_path_without_a_name_is_no_output(path):
    with pytest.raises(SpecError, match="has no name under which"):
        build_entrypoint(command="true", outputs=[path])


@pytest.mark.parametrize(
    "outputs", [["s3://b/x"], {"/out": "s3://b/x"}, {"/out": {"uri": "s3://b/x"}}]
)
def test_a_passthrough_output_with_an_address_of_its_own_is_refused_with_what_to_write(outputs):
    with pytest.raises(SpecError, match="TAO_RESULTS_ROOT: s3://bucket/prefix"):
        build_entrypoint(command="true", outputs=outputs)


def test_an_optional_passthrough_input_that_is_empty_is_skipped():
    assert build_entrypoint(
        command="true", inputs={"/d": {"uri": "", "optional": True}}
    ) == build_entrypoint(command="true")


def test_a_job_id_that_leaves_the_results_is_refused():
    assert "'../x'" in refused(job_id="../x")


def test_secrets_in_values_are_not_quoted_by_errors():
    told = refused(specs={"token": "hunter2", "x": float("nan")})
    assert "hunter2" not in told


@pytest.mark.slow
def test_a_spec_of_four_megabytes_builds():
    specs = {f"k{number}": json.dumps(list(range(100))) for number in range(12_000)}
    assert (
        len(build_entrypoint(command="true", specs=specs, config_format="yaml")["command"]) > 10_000
    )


def test_args_run_end_to_end_with_inputs_and_outputs(tmp_path):
    (tmp_path / "p.json").write_text("[]")
    text = build_entrypoint(
        command="printf '%s\\n' {predictions_json}",
        args={
            "predictions-json": f"file://{tmp_path}/p.json",
            "results-dir": "",
            "videos-dir": "",
            "name": "it's; id #",
            "fast": True,
        },
        inputs={
            "predictions-json": {"type": "file"},
            "videos-dir": {"type": "folder", "optional": True},
        },
        outputs={"results-dir": {"type": "folder"}},
    )["command"]
    env = {**os.environ, "TAO_RESULTS_ROOT": str(tmp_path / "r"), "TAO_JOB_ID": "j"}
    done = subprocess.run(["bash", "-c", text], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        *(
            f"{tmp_path}/p.json",
            "--results-dir",
            f"{tmp_path}/r/j/results-dir",
            "--name",
            "it's; id #",
            "--fast",
        ),
    ]


@pytest.mark.parametrize("field", ["inputs", "outputs"])
@pytest.mark.parametrize("given", [5, object(), True])
def test_data_that_is_no_mapping_or_list_is_refused(field: str, given: object) -> None:
    with pytest.raises(SpecError, match=f"{field} is .* It has to be a mapping or a list"):
        build_entrypoint(command="true", **{field: given})


@pytest.mark.slow
def test_threads_that_pack_at_once_parse_one_after_the_other(monkeypatch, tmp_path):
    """CPython 3.11 fails when two threads parse in the same moment."""
    parse, parsing, overlaps = ast.parse, [], []

    def noted(text, *more, **named):
        overlaps.append(list(parsing))
        parsing.append(text)
        time.sleep(0.001)
        parsing.remove(text)
        return parse(text, *more, **named)

    monkeypatch.setattr(ast, "parse", noted)
    source.cache_clear()
    find_program.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        packed = list(
            pool.map(
                lambda _: build_entrypoint(command="true {config_path}", specs={})["command"],
                range(8),
            )
        )
    assert len(set(packed)) == 1 and overlaps and not any(overlaps)


@pytest.mark.parametrize("bucket", ["127.0.0.1:9#", "host:443", "a#b", "user@host", "a b"])
def test_an_input_in_a_bucket_that_would_become_another_host_is_refused_before_it_is_submitted(
    bucket,
):
    with pytest.raises(ValueError, match="cannot be the name of a bucket"):
        build_entrypoint(command="x {config_path}", specs={"x": f"s3://{bucket}/k"}, inputs=["x"])


def test_a_text_that_names_a_file_here_is_not_packed_as_its_content(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    told = refused(files={"train.py": "train.py"})
    assert "is the text 'train.py', and not the file of that name" in told
    assert "Path('train.py').read_bytes()" in told
    build_entrypoint(command="true", files={"train.py": "train.py\n", "b.py": "absent.py"})


@pytest.mark.parametrize(
    ("inputs", "files"),
    [
        ({"train.py": "/data/other.py"}, ["train.py"]),
        ({"./train.py": "/data/other.py"}, ["train.py"]),
        ({"code": "/data/code"}, ["code/a.py"]),
        ({"code/data": "/data/x"}, ["code"]),
        ({"./": "/data/a.py"}, ["a.py"]),
        ({"/opt/a": "/data/a"}, ["/opt/a"]),
    ],
)
def test_an_input_and_a_file_for_one_place_in_the_job_are_refused(inputs, files):
    told = refused(inputs=inputs, files=dict.fromkeys(files, b""))
    assert f"files has '{files[0]}': one place in the job" in told


@pytest.mark.parametrize(
    "inputs",
    [{"data": "/data"}, {"train.py": "train.py"}, {"code/data": "/data"}, {"./": "/data/b.py"}],
)
def test_an_input_beside_the_files_and_a_file_that_travels_itself_are_not(inputs):
    build_entrypoint(command="true", inputs=inputs, files={"train.py": b"", "code/a.py": b""})
