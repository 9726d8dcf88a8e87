"""What NVIDIA_* variables, annotations and mounts ask for."""

from __future__ import annotations

from typing import Any

import pytest

from nvidia_container_runtime import demands, request, schema, settings
from nvidia_container_runtime.errors import RuntimeFault

NULL = "/dev/null"
FOLDER = "/var/run/nvidia-container-devices"


def configured(**values: Any) -> settings.Settings:
    names = {key.replace("_", "-"): value for key, value in values.items()}
    return settings.Settings({**schema.DEFAULTS, **names})


def container(*env: str, privileged: bool = False, **parts: Any) -> request.Container:
    bounding = ["CAP_SYS_ADMIN"] if privileged else []
    return request.Container(
        {
            "ociVersion": "1.0.2",
            "process": {"env": list(env), "capabilities": {"bounding": bounding}},
            **parts,
        }
    )


def asked(*env: str, **values: Any) -> list[str]:
    return request.devices(container(*env), configured(**values)).ids


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        ("all", ["all"]), ("none", [request.NO_GPU]), ("void", []), ("", []), (" , ,", []), ("0", ["0"]), ("0,1,2", ["0", "1", "2"]),
        ("GPU-fef8089b", ["GPU-fef8089b"]), ("0:0,1:1", ["0:0", "1:1"]), ("MIG-GPU-fef8089b/0/1", ["MIG-GPU-fef8089b/0/1"]),
        (" 0 , 1 ", ["0", "1"]), ("0,all", ["all"]), ("0,none,all", [request.NO_GPU]), ("all,void", []), ("Void", ["Void"]),
    ],
)  # fmt: skip
def test_visible_devices(value: str, devices: list[str]) -> None:
    assert asked(f"NVIDIA_VISIBLE_DEVICES={value}") == devices


def test_a_device_named_twice_is_given_once_and_leaves_no_hole() -> None:
    assert asked("NVIDIA_VISIBLE_DEVICES=0,0,1,0") == ["0", "1"]


def test_unset_is_nothing() -> None:
    assert asked() == []


def test_of_a_variable_given_twice_the_last_counts() -> None:
    assert asked("NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_VISIBLE_DEVICES=1") == ["1"]


def test_a_legacy_image_asks_for_all() -> None:
    assert asked("CUDA_VERSION=9.0.176") == ["all"]
    assert asked("CUDA_VERSION=9.0.176", "NVIDIA_REQUIRE_CUDA=cuda>=9.0") == []
    assert asked("CUDA_VERSION=9.0", "NVIDIA_VISIBLE_DEVICES=1") == ["1"]
    assert asked("CUDA_VERSION=9.0", "NVIDIA_VISIBLE_DEVICES=") == []
    assert asked("CUDA_VERSION=") == []


def test_an_entry_without_equals_is_an_error() -> None:
    with pytest.raises(RuntimeFault, match="invalid environment variable: BROKEN"):
        container("BROKEN")


def test_a_swarm_resource_takes_the_variables_place_when_it_is_set() -> None:
    swarm = {"swarm_resource": "DOCKER_RESOURCE_GPU, OTHER"}
    assert asked("NVIDIA_VISIBLE_DEVICES=9", "DOCKER_RESOURCE_GPU=1", **swarm) == ["1"]
    assert asked("OTHER=2", "DOCKER_RESOURCE_GPU=1", **swarm) == ["1", "2"]
    assert asked("NVIDIA_VISIBLE_DEVICES=9", **swarm) == ["9"]


def test_an_unprivileged_containers_variable_can_be_refused() -> None:
    gated = configured(accept_nvidia_visible_devices_envvar_when_unprivileged=False)
    refused = request.devices(container("NVIDIA_VISIBLE_DEVICES=all"), gated)
    assert refused.ids == []
    assert refused.warning.endswith("in unprivileged container: [NVIDIA_VISIBLE_DEVICES]")
    assert request.devices(container("NVIDIA_VISIBLE_DEVICES=all", privileged=True), gated).ids == [
        "all"
    ]


def mounts(*names: str) -> list[dict[str, str]]:
    return [{"source": NULL, "destination": f"{FOLDER}/{name}"} for name in names]


def test_volume_mounts_ask_before_the_environment_where_they_are_enabled() -> None:
    box = container(
        "NVIDIA_VISIBLE_DEVICES=9",
        mounts=mounts("0", "GPU-x", "0", "cdi/nvidia.com/gpu/1", "cdi/a/b=c", "imex/3"),
    )
    enabled = configured(accept_nvidia_visible_devices_as_volume_mounts=True)
    assert request.devices(box, enabled).ids == ["0", "GPU-x", "nvidia.com/gpu=1", "a/b=c"]
    assert demands.imex_channels(box, enabled) == ["3"]
    assert request.devices(box, configured()).ids == ["9"]


def test_only_dev_null_below_the_folder_itself_is_a_volume_request() -> None:
    others = [
        {"source": "/dev/zero", "destination": f"{FOLDER}/0"},
        {"source": NULL, "destination": f"{FOLDER}/../0"},
        {"source": NULL, "destination": f"{FOLDER}0"},
        {"source": NULL, "destination": FOLDER},
    ]
    enabled = configured(accept_nvidia_visible_devices_as_volume_mounts=True)
    assert request.devices(container(mounts=others), enabled).ids == []


def test_annotations_ask_first_in_the_order_of_their_keys() -> None:
    box = container(
        "NVIDIA_VISIBLE_DEVICES=9",
        annotations={"cdi.k8s.io/b": "v.com/c=2", "cdi.k8s.io/a": "v.com/c=1,v.com/c=2", "x": "y"},
    )
    assert request.devices(box, configured(), with_annotations=True).ids == [
        "v.com/c=1",
        "v.com/c=2",
    ]
    assert request.devices(box, configured()).ids == ["9"]


@pytest.mark.parametrize(
    ("process", "version", "privileged"),
    [
        ({"capabilities": {"bounding": ["CAP_SYS_ADMIN"]}}, "1.0.2", True),
        ({"capabilities": {"effective": ["CAP_SYS_ADMIN"]}}, "1.0.2", False),
        ({"capabilities": ["CAP_SYS_ADMIN"]}, "1.0.0-rc3", True),
        ({"capabilities": ["CAP_SYS_ADMIN"]}, "1.0.2", False),
        ({"capabilities": None}, "1.0.2", False),
        ({}, "", False),
    ],
)
def test_privileged_is_sys_admin_in_the_bounding_set(
    process: dict[str, Any], version: str, privileged: bool
) -> None:
    assert request.is_privileged(process, version) is privileged


# --- capabilities


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ("", ["compute", "utility"]), ("all", list(schema.CAPABILITIES)), ("video,compute", ["compute", "video"]),
        ("compute,compute", ["compute"]), ("display,all", list(schema.CAPABILITIES)),
    ],
)  # fmt: skip
def test_driver_capabilities(value: str, got: list[str]) -> None:
    assert (
        demands.capabilities(container(f"NVIDIA_DRIVER_CAPABILITIES={value}"), configured()) == got
    )


def test_unset_capabilities_are_utility_and_compute_and_all_for_a_legacy_image() -> None:
    assert demands.capabilities(container(), configured()) == ["compute", "utility"]
    assert demands.capabilities(container("CUDA_VERSION=8.0"), configured()) == list(
        schema.CAPABILITIES
    )


@pytest.mark.parametrize("value", ["bogus,compute", "none", "compute;video"])
def test_a_capability_that_is_not_supported_is_an_error(value: str) -> None:
    with pytest.raises(RuntimeFault, match="unsupported capabilities found in"):
        demands.capabilities(container(f"NVIDIA_DRIVER_CAPABILITIES={value}"), configured())


def test_a_host_can_support_fewer_capabilities() -> None:
    few = configured(supported_driver_capabilities="compute,video")
    assert demands.capabilities(container(), few) == ["compute"]
    assert demands.capabilities(container("NVIDIA_DRIVER_CAPABILITIES=all"), few) == [
        "compute",
        "video",
    ]
    with pytest.raises(
        RuntimeFault, match=r"unsupported capabilities found in 'graphics' \(allowed ''\)"
    ):
        demands.capabilities(container("NVIDIA_DRIVER_CAPABILITIES=graphics"), few)
    with pytest.raises(
        RuntimeFault,
        match="Invalid value for config option 'supported-driver-capabilities'; compute,foo",
    ):
        demands.capabilities(container(), configured(supported_driver_capabilities="compute,foo"))


# --- requirements, IMEX, features


def test_requirements_are_all_require_variables_but_jetpacks_in_order() -> None:
    box = container(
        "NVIDIA_REQUIRE_CUDA=cuda>=12",
        "NVIDIA_REQUIRE_ARCH=arch>=7",
        "NVIDIA_REQUIRE_JETPACK=csv-mounts=all",
        "NVIDIA_REQUIRE_JETPACK_X=y",
    )
    assert demands.requirements(box, configured()) == ["arch>=7", "cuda>=12"]


@pytest.mark.parametrize(
    ("value", "off"),
    [("1", True), ("true", True), ("T", True), ("yes", False), ("0", False), ("", False)],
)
def test_requirements_can_be_switched_off(value: str, off: bool) -> None:
    box = container("NVIDIA_REQUIRE_CUDA=cuda>=99", f"NVIDIA_DISABLE_REQUIRE={value}")
    assert demands.requirements(box, configured()) == ([] if off else ["cuda>=99"])
    assert demands.requirements(box, configured(disable_require=True)) == []


def test_a_legacy_images_cuda_version_is_a_requirement() -> None:
    assert demands.requirements(container("CUDA_VERSION=9.0.176"), configured()) == ["cuda>=9.0"]
    with pytest.raises(RuntimeFault, match="invalid CUDA version: nine"):
        demands.requirements(container("CUDA_VERSION=nine"), configured())


def test_imex_channels() -> None:
    assert demands.imex_channels(container("NVIDIA_IMEX_CHANNELS=0,1,0"), configured()) == [
        "0",
        "1",
    ]
    assert demands.imex_channels(container("NVIDIA_IMEX_CHANNELS=all"), configured()) == []
    ignoring = configured(**{"features.ignore_imex_channel_requests": True})
    assert demands.imex_channels(container("NVIDIA_IMEX_CHANNELS=0"), ignoring) == []


def test_a_gated_feature_is_asked_for_by_enabled_alone() -> None:
    assert request.gated_features(
        container("NVIDIA_GDS=enabled", "NVIDIA_MOFED=1", "NVIDIA_GDRCOPY=enabled")
    ) == [
        "gds",
        "gdrcopy",
    ]
