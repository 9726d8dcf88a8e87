"""cdi mode: specs found, judged and applied."""

from __future__ import annotations

import json
import marshal
import os
from typing import Any

import pytest

from conftest import Host
from nvidia_container_runtime import cdi_spec


@pytest.fixture
def cdi(host: Host) -> Host:
    """A host with two folders for CDI specs; the second has priority."""
    (host.root / "low").mkdir()
    (host.root / "high").mkdir()
    host.configure(
        f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{host.root}/low", "{host.root}/high"]\n',
        mode="cdi",
    )
    return host


def spec(
    devices: dict[str, Any], version: str = "0.5.0", kind: str = "nvidia.com/gpu", **more: Any
) -> dict[str, Any]:
    return {
        "cdiVersion": version,
        "kind": kind,
        "devices": [{"name": name, "containerEdits": edits} for name, edits in devices.items()],
        **more,
    }


def offer(host: Host, value: Any, name: str = "low/a.json") -> None:
    (host.root / name).write_text(value if isinstance(value, str) else json.dumps(value))


def env(*entries: str) -> dict[str, Any]:
    return {"env": list(entries)}


def test_a_device_is_injected_by_index_and_by_its_whole_name(cdi: Host) -> None:
    offer(cdi, spec({"0": env("GPU=0"), "1": env("GPU=1")}))
    assert cdi.created("NVIDIA_VISIBLE_DEVICES=1")["process"]["env"][-1] == "GPU=1"
    assert cdi.created("NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0")["process"]["env"][-1] == "GPU=0"


def test_edits_of_a_spec_come_once_before_those_of_its_devices(cdi: Host) -> None:
    offer(cdi, spec({"0": env("A=0"), "1": env("B=1")}, containerEdits=env("S=s")))
    offer(
        cdi, spec({"x": env("X=x")}, kind="other.com/dev", containerEdits=env("T=t")), "low/b.json"
    )
    after = cdi.created("NVIDIA_VISIBLE_DEVICES=1,other.com/dev=x,0,1")
    assert after["process"]["env"][3:] == ["S=s", "B=1", "T=t", "X=x", "A=0"]


def test_a_variable_of_the_container_is_replaced_not_doubled(cdi: Host) -> None:
    """Upstream leaves the container's own entry beside the new one."""
    offer(cdi, spec({"0": env("NAME=new")}))
    after = cdi.created("NAME=old", "NVIDIA_VISIBLE_DEVICES=0", "LAST=1")
    assert after["process"]["env"] == [
        "PATH=/bin",
        "TERM=xterm",
        "NAME=new",
        "NVIDIA_VISIBLE_DEVICES=0",
        "LAST=1",
    ]


def test_device_nodes_are_filled_in_from_the_host(cdi: Host) -> None:
    nodes = [
        {"path": "/dev/gpu", "hostPath": "/dev/null"},
        {"path": "/dev/full", "permissions": "rw", "uid": 5},
        {"path": "/dev/x", "type": "c", "major": 7, "minor": 8, "fileMode": 384},
    ]
    offer(cdi, spec({"0": {"deviceNodes": nodes}}))
    linux = cdi.created("NVIDIA_VISIBLE_DEVICES=0")["linux"]
    assert linux["devices"] == [
        {"path": "/dev/gpu", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666},
        {"path": "/dev/full", "type": "c", "major": 1, "minor": 7, "fileMode": 0o666, "uid": 5},
        {"path": "/dev/x", "type": "c", "major": 7, "minor": 8, "fileMode": 0o600},
    ]
    assert [rule["access"] for rule in linux["resources"]["devices"]] == ["rwm", "rwm", "rw", "rwm"]


@pytest.mark.parametrize(
    "path", ["/dev/no-such-device", "/etc/passwd", "/dev", "/dev/../etc/passwd", "/dev/no\nsuch"]
)
def test_a_node_that_is_no_device_is_an_error(cdi: Host, path: str) -> None:
    offer(cdi, spec({"0": {"deviceNodes": [{"path": path}]}}))
    cdi.spec("NVIDIA_VISIBLE_DEVICES=0")
    assert "failed to inject CDI devices" in cdi.refused()


def test_mounts_replace_those_of_the_same_place_and_are_sorted_by_depth(cdi: Host) -> None:
    added = [
        {"hostPath": f"/h{n}", "containerPath": path, "options": ["ro"]}
        for n, path in enumerate(("/a/b/c", "/a", "/z", "/a/b"))
    ]
    offer(cdi, spec({"0": {"mounts": added}}))
    present = [
        {"destination": "/deep/er/x", "source": "t"},
        {"destination": "/a/b", "source": "old"},
        {"destination": "/", "source": "r"},
    ]
    after = cdi.created("NVIDIA_VISIBLE_DEVICES=0", mounts=present)
    assert [(mount["destination"], mount["source"]) for mount in after["mounts"]] == [
        ("/", "r"), ("/a", "/h1"), ("/z", "/h2"), ("/a/b", "/h3"), ("/deep/er/x", "t"), ("/a/b/c", "/h0"),
    ]  # fmt: skip


def test_everything_else_that_a_spec_can_hold(cdi: Host) -> None:
    hooks = [
        {"hookName": stage, "path": "/h", "args": ["h", stage], "env": ["A=b"], "timeout": 5}
        for stage in cdi_spec.HOOK_NAMES
    ]
    edits = {
        "hooks": hooks,
        "additionalGids": [0, 5, 5, 6],
        "intelRdt": {"closID": "c"},
        "netDevices": [{"hostInterfaceName": "eth9", "name": "eth0"}],
    }
    offer(cdi, spec({"0": edits}, version="1.1.0"))
    after = cdi.created("NVIDIA_VISIBLE_DEVICES=0")
    assert {stage: one[0] for stage, one in after["hooks"].items()} == {
        stage: {"path": "/h", "args": ["h", stage], "env": ["A=b"], "timeout": 5}
        for stage in cdi_spec.HOOK_NAMES
    }
    assert after["process"]["user"]["additionalGids"] == [5, 6]
    assert after["linux"]["intelRdt"] == {"closID": "c"}
    assert after["linux"]["netDevices"] == {"eth9": {"name": "eth0"}}


def test_a_hook_without_an_environment_gets_one(cdi: Host) -> None:
    """Else the low-level runtime would run it with the image's."""
    hooks = [{"hookName": stage, "path": "/h"} for stage in cdi_spec.HOOK_NAMES]
    offer(
        cdi,
        spec({"0": {"hooks": [*hooks, {"hookName": "createContainer", "path": "/h", "env": []}]}}),
    )
    after = cdi.created("NVIDIA_VISIBLE_DEVICES=0")["hooks"]
    assert [hook["env"] for found in after.values() for hook in found] == [
        ["NVIDIA_CTK_DEBUG=false"]
    ] * 7


def test_the_later_folder_wins(cdi: Host) -> None:
    offer(cdi, spec({"0": env("FROM=low")}))
    offer(cdi, spec({"0": env("FROM=high")}), "high/a.json")
    assert cdi.created("NVIDIA_VISIBLE_DEVICES=0")["process"]["env"][-1] == "FROM=high"


def test_a_device_offered_twice_in_one_folder_is_not_used(cdi: Host) -> None:
    offer(cdi, spec({"0": env("FROM=a"), "1": env("A=1")}))
    offer(cdi, spec({"0": env("FROM=b")}), "low/b.json")
    cdi.spec("NVIDIA_VISIBLE_DEVICES=0")
    assert "unresolvable CDI devices nvidia.com/gpu=0" in cdi.refused()
    assert cdi.created("NVIDIA_VISIBLE_DEVICES=1")["process"]["env"][-1] == "A=1"


def test_all_that_are_unknown_are_named_and_only_they(cdi: Host) -> None:
    offer(cdi, spec({"0": env("A=0")}))
    cdi.spec("NVIDIA_VISIBLE_DEVICES=9,0,8")
    assert cdi.refused().endswith('unresolvable CDI devices nvidia.com/gpu=9, nvidia.com/gpu=8"')


def test_annotations_ask_before_the_environment(cdi: Host) -> None:
    offer(cdi, spec({"0": env("A=0"), "1": env("A=1")}))
    after = cdi.created(
        "NVIDIA_VISIBLE_DEVICES=0", annotations={"cdi.k8s.io/plugin": "nvidia.com/gpu=1"}
    )
    assert after["process"]["env"][-1] == "A=1"


def test_the_default_kind_can_be_another(cdi: Host) -> None:
    cdi.configure(
        f'[nvidia-container-runtime.modes.cdi]\ndefault-kind = "x.com/y"\nspec-dirs = ["{cdi.root}/low"]\n',
        mode="cdi",
    )
    offer(cdi, spec({"0": env("A=0")}, kind="x.com/y"))
    assert cdi.created("NVIDIA_VISIBLE_DEVICES=0")["process"]["env"][-1] == "A=0"


def test_a_yaml_spec_is_read_too(cdi: Host) -> None:
    offer(
        cdi,
        "---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: '0'\n  containerEdits:\n    env: [A=0]\n",
        "high/x.yaml",
    )
    assert cdi.created("NVIDIA_VISIBLE_DEVICES=0")["process"]["env"][-1] == "A=0"


def test_a_plain_scalar_is_text_where_text_is_wanted(cdi: Host) -> None:
    offer(
        cdi,
        "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices:\n- name: 0\n  annotations: {1: 2}\n  containerEdits:\n    hooks:\n"
        "    - hookName: createContainer\n      path: /x\n      timeout: 5\n      env: [A=b]\n"
        "      args: [true, 0, 1.10, 0x10, null, 1e3, -3]\n",
        "high/x.yaml",
    )
    hooks = cdi.created("NVIDIA_VISIBLE_DEVICES=0")["hooks"]["createContainer"]
    args = ["true", "0", "1.10", "0x10", "1e3", "-3"]
    assert hooks == [{"path": "/x", "args": args, "env": ["A=b"], "timeout": 5}]


@pytest.mark.parametrize(
    "line",
    ["timeout: '5'", "timeout: true", "args: [[a]]", "args: {a: 1}", "path: [x]", "bogus: 1"],
)
def test_no_other_type_stands_in_for_another(cdi: Host, line: str) -> None:
    offer(
        cdi,
        "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: '0'\n  containerEdits:\n    hooks:\n"
        f"    - hookName: createContainer\n      {line}\n"
        + ("" if line.startswith("path") else "      path: /x\n"),
        "high/x.yaml",
    )
    cdi.spec("NVIDIA_VISIBLE_DEVICES=0")
    assert f"refused CDI spec {cdi.root}/high/x.yaml: " in cdi.refused()


def test_a_spec_that_is_refused_is_named_with_the_reason(cdi: Host) -> None:
    offer(cdi, spec({"0": env("A=0")}, unknown=1))
    cdi.spec("NVIDIA_VISIBLE_DEVICES=0")
    assert cdi.refused().endswith(
        f"unresolvable CDI devices nvidia.com/gpu=0; refused CDI spec {cdi.root}/low/a.json: unknown field 'unknown' in spec\""
    )


def test_a_second_creation_on_one_bundle_doubles_nothing(cdi: Host) -> None:
    edits = {
        **env("A=0"),
        "hooks": [{"hookName": "createContainer", "path": "/bin/true", "args": ["true"]}] * 2,
        "deviceNodes": [{"path": "/dev/full"}],
        "mounts": [{"hostPath": "/etc", "containerPath": "/e"}],
        "additionalGids": [44],
    }
    offer(cdi, spec({"0": edits}, version="0.7.0"))
    first = cdi.created("NVIDIA_VISIBLE_DEVICES=0")
    assert len(first["hooks"]["createContainer"]) == 2, "what a spec has twice is there twice"
    assert cdi.create().returncode == 0
    assert cdi.read_spec() == first


def test_a_device_that_is_denied_later_is_allowed_again(cdi: Host) -> None:
    offer(cdi, spec({"0": {"deviceNodes": [{"path": "/dev/full"}]}}))
    allowed = {"allow": True, "type": "c", "major": 1, "minor": 7, "access": "rwm"}
    denied = {"allow": False, "access": "rwm"}
    linux = {"resources": {"devices": [allowed, denied]}}
    after = cdi.created("NVIDIA_VISIBLE_DEVICES=0", linux=linux)
    assert after["linux"]["resources"]["devices"] == [allowed, denied, allowed]


BROKEN: list[Any] = [
    "", "{", "[]", "null", "{}", {"cdiVersion": "0.5.0"}, spec({}), spec({"0": {}}), spec({"-": env("A=1")}), spec({"0": env("A")}),
    spec({"0": env("A=1")}, version="9.9"), spec({"0": env("A=1")}, kind="nokind"), spec({"0": env("A=1")}, kind="1/2"),
    spec({"0": env("A=1")}, unknown=1), spec({"0": {"env": "A=1"}}), spec({"0": {"hooks": [{"hookName": "x", "path": "/h"}]}}),
    spec({"0": {"hooks": [{"hookName": "prestart"}]}}), spec({"0": {"hooks": [{"hookName": "createContainer", "path": "nvidia-ctk"}]}}), spec({"0": {"mounts": [{"hostPath": "/a"}]}}), spec({"0": {"deviceNodes": [{}]}}),
    spec({"0": {"deviceNodes": [{"path": "/dev/null", "permissions": "x"}]}}), spec({"0": {"deviceNodes": [None]}}),
    spec({"0": env("A=1")}, annotations={"bad key!": "x"}), spec({"0": {"additionalGids": [5]}}), spec({"0": env("A=1")}, annotations={"a": 1}),
    spec({"0": {"deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/null"}]}}, version="0.3.0"), {**spec({"0": env("A=1")}), "devices": [None]},
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda value: json.dumps(value)[:60])
def test_a_spec_that_breaks_a_rule_is_left_out_and_others_still_serve(
    cdi: Host, broken: Any
) -> None:
    offer(cdi, broken)
    offer(cdi, spec({"1": env("GOOD=1")}), "low/good.json")
    assert cdi.created("NVIDIA_VISIBLE_DEVICES=1")["process"]["env"][-1] == "GOOD=1"
    assert "failed to load CDI spec" in cdi.log.read_text()


@pytest.mark.parametrize("place", ["low/a.json", "low"])
@pytest.mark.parametrize("how", ["owner", "world-writable", "group-writable"])
def test_a_spec_that_another_user_can_write_is_refused(cdi: Host, place: str, how: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a file away")
    offer(cdi, spec({"0": env("A=0")}))
    path = cdi.root / place
    if how == "owner":
        os.chown(path, 65534, 0)
    elif how == "world-writable":
        path.chmod(0o777)
    else:
        os.chown(path, 0, 65534)
        path.chmod(0o775)
    cdi.spec("NVIDIA_VISIBLE_DEVICES=0")
    assert "refusing CDI spec" in cdi.refused()


@pytest.mark.parametrize(
    "device",
    [
        "../x",
        "a\nb",
        "*",
        "nvidia.com/gpu=../../etc",
        "$(id)",
        "%s%n",
        "'\"",
        "\x1b[31m",
        "=",
        "/=/",
    ],
)
def test_a_device_name_that_is_an_attack_is_unresolvable_in_one_line(
    cdi: Host, device: str
) -> None:
    offer(cdi, spec({"0": env("A=0")}))
    cdi.spec(f"NVIDIA_VISIBLE_DEVICES={device}")
    assert "unresolvable CDI devices" in cdi.refused()


def test_the_hook_of_docker_gpus_is_taken_out(cdi: Host) -> None:
    offer(cdi, spec({"0": env("A=0")}))
    after = cdi.created(
        "NVIDIA_VISIBLE_DEVICES=0",
        hooks={"prestart": [{"path": "/usr/bin/nvidia-container-runtime-hook"}]},
    )
    assert "prestart" not in after["hooks"]


def test_specs_made_when_needed_do_not_mix_with_others(cdi: Host) -> None:
    offer(cdi, spec({"0": env("A=0")}))
    cdi.spec("NVIDIA_VISIBLE_DEVICES=0,runtime.nvidia.com/gpu=0")
    assert "mixing CDI devices" in cdi.refused()


def test_a_changed_spec_counts_at_once_and_a_broken_one_is_forgotten(cdi: Host) -> None:
    """What a spec meant is remembered with its text; the file may change without its time or size
    changing.
    """
    for value in ("1", "2", "2", "1"):
        offer(cdi, spec({"0": env(f"GPU={value}")}))
        os.utime(cdi.root / "low/a.json", (1, 1))
        assert cdi.created("NVIDIA_VISIBLE_DEVICES=0")["process"]["env"][-1] == f"GPU={value}"
    offer(cdi, "{")
    cdi.spec("NVIDIA_VISIBLE_DEVICES=0")
    assert "unresolvable" in cdi.refused()


def test_no_memory_of_another_user_is_believed(cdi: Host) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a file away")
    offer(cdi, spec({"0": env("GPU=real")}))
    cdi.created("NVIDIA_VISIBLE_DEVICES=0")
    memory = cdi.prefix / "run/front-state.specs"
    assert b"GPU=real" in memory.read_bytes()
    forged = marshal.dumps(
        {
            f"{cdi.root}/low/a.json": (
                (cdi.root / "low/a.json").read_bytes(),
                spec({"0": env("GPU=forged")}),
            )
        }
    )
    memory.write_bytes(forged)
    assert cdi.created("NVIDIA_VISIBLE_DEVICES=0")["process"]["env"][-1] == "GPU=forged", (
        "it is not read at all"
    )
    for owner, mode in ((65534, 0o644), (0, 0o666)):
        memory.write_bytes(forged)
        os.chown(memory, owner, 0)
        memory.chmod(mode)
        assert cdi.created("NVIDIA_VISIBLE_DEVICES=0")["process"]["env"][-1] == "GPU=real"
        memory.unlink()
