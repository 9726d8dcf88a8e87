"""Whatever is wrong: one line that says it, exit code 1, the container's spec untouched."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from conftest import Host


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[broken\n", "failed to load specified config file: (1, 8)"),
        ("a = \n", "failed to load specified config file"),
        ("a = 1\na = 2\n", "defined twice"),
        (
            "[nvidia-container-runtime]\nmode = 5\n",
            "failed to unmarshal config: nvidia-container-runtime.mode: Can't convert 5(int64) to string",
        ),
        (
            "[nvidia-container-runtime]\nruntimes = 'runc'\n",
            "Can't convert 'runc'(string) to []string",
        ),
        ("[nvidia-container-runtime]\nruntimes = [1]\n", "to []string"),
        ("disable-require = 'yes'\n", "to bool"),
        ("nvidia-container-runtime = 5\n", "to a table"),
        ("[features]\nallow-unknown-oci-spec-fields = 1\n", "to bool"),
        ("[nvidia-container-cli]\nldconfig = '/sbin/ldconfig'\n", "is not host-relative"),
        ("# " + "x" * (1 << 20) + "\n", "file too large"),
        ("a = '\x01'\n", "control character"),
    ],
    ids=lambda text: text[:40],
)
def test_a_configuration_that_cannot_be_used_stops_every_command(
    host: Host, text: str, said: str
) -> None:
    host.spec()
    host.config_file.write_text(text)
    assert said in host.refused()
    done = host.run("state", "x")
    assert done.returncode == 1
    assert said in done.stderr


def test_a_configuration_that_is_no_text_or_no_file_is_an_error(host: Host) -> None:
    host.spec()
    host.config_file.write_bytes(b"\xff\xfe")
    assert "is not UTF-8" in host.refused()
    host.config_file.unlink()
    host.config_file.mkdir()
    assert "is a directory" in host.refused()


@pytest.mark.parametrize("kind", ["pipe", "endless", "huge"])
@pytest.mark.parametrize("place", ["config.json", "config.toml", "a.csv", "a.yaml"])
def test_a_file_that_never_ends_is_an_error_and_not_waited_for(
    host: Host, place: str, kind: str
) -> None:
    host.configure(
        f'[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{host.root}/lists"\n'
        f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{host.root}/lists"]\n',
        mode="csv" if place == "a.csv" else "cdi",
    )
    host.spec("NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_REQUIRE_JETPACK=csv-mounts=all")
    (host.root / "lists").mkdir()
    places = {"config.json": host.bundle, "config.toml": host.config_file.parent}
    path = places.get(place, host.root / "lists") / place
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 1 << 40)
    done = host.create()
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    said = done.stderr + (host.log.read_text() if host.log.exists() else "")
    assert any(words in said for words in ("no plain file", "file too large")), said


def test_ldconfig_may_be_the_containers_where_that_is_allowed(host: Host) -> None:
    host.configure(
        '[nvidia-container-cli]\nldconfig = "/sbin/ldconfig"\n[features]\nallow-ldconfig-from-container = true\n'
    )
    host.created()


def test_unknown_keys_are_ignored(host: Host) -> None:
    host.configure("surprise = 1979\n[more.tables]\nx = {y = [1, 2]}\n")
    host.created()


SPECS: list[tuple[bytes, str]] = [
    (b"", "EOF"), (b"   ", "EOF"), (b"[]", "cannot unmarshal list"), (b'"x"', "cannot unmarshal str"), (b"{", "line 1"), (b"{n", "line 1"),
    (b"nope", "invalid character 'n'"), (b'{"a": "\x01"}', "ontrol character"), (b"\xff{}", "decode"), (b'{"process": []}', "process has the wrong type"),
    (b'{"process": {"env": {}}}', "process.env has the wrong type"), (b'{"process": {"env": [1]}}', "process.env has the wrong type"),
    (b'{"hooks": {"prestart": [1]}}', "hooks.prestart has the wrong type"), (b'{"mounts": [null]}', "mounts has the wrong type"),
    (b'{"linux": 1}', "linux has the wrong type"), (b'{"a": 1e999}', "number 1e999 is out of range"), (b"[" * 100000, "depth"), (b'{"a":' * 100000, "depth"),
    (b'{"process": {"env": ["NOEQUALS"]}}', "invalid environment variable: NOEQUALS"), (b'{"a": NaN}', "invalid character 'N'"),
    (b'{"ociVersion": 5}', "ociVersion has the wrong type"), (b"\xef\xbb\xbf{}", "invalid character"), (b'{"process": {"args": [true]}}', "process.args has the wrong type"),
    (b'{"root": {"path": 1}}', "root.path has the wrong type"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "said"), SPECS, ids=[spec[:30].decode(errors="replace") for spec, _ in SPECS]
)
def test_a_broken_spec_is_an_error(host: Host, spec: bytes, said: str) -> None:
    (host.bundle / "config.json").write_bytes(spec)
    assert said in host.refused()


def test_a_large_number_comes_out_as_large_as_it_went_in(host: Host) -> None:
    (host.bundle / "config.json").write_bytes(
        b'{"ociVersion": "1.0.2", "a": [1e22, 1.5e308, 12345678901234567890123]}'
    )
    assert host.create().returncode == 0
    assert host.read_spec()["a"] == [1e22, 1.5e308, 12345678901234567890123]


PLANNING = "failed to create NVIDIA Container Runtime: failed to construct OCI spec modifier: "
APPLYING = "could not apply required modification to OCI specification: error modifying OCI spec: "


@pytest.mark.parametrize(
    ("mode", "spec", "said"),
    [
        ("foo", "{}", PLANNING + 'invalid mode \\"foo\\"'),
        (
            "legacy",
            "",
            PLANNING
            + "failed to load OCI spec: error loading OCI specification from file: error reading",
        ),
        (
            "legacy",
            '{"process": {"env": ["NOEQUALS"]}}',
            PLANNING + "invalid environment variable: NOEQUALS",
        ),
        (
            "cdi",
            '{"process": {"env": ["NVIDIA_VISIBLE_DEVICES=9"]}}',
            APPLYING + "failed to inject CDI devices",
        ),
    ],
)
def test_an_error_says_whether_the_change_failed_in_planning_or_when_it_was_applied(
    host: Host, mode: str, spec: str, said: str
) -> None:
    host.configure(mode=mode)
    (host.bundle / "config.json").write_text(spec)
    assert said in host.refused()


@pytest.mark.parametrize(
    "spec", [b"null", b"{}", b'{"hooks": null, "process": null, "mounts": null, "linux": null}']
)
def test_an_empty_spec_is_the_runtimes_to_judge(host: Host, spec: bytes) -> None:
    (host.bundle / "config.json").write_bytes(spec)
    assert host.create().returncode == 0
    assert host.read_spec()["hooks"]["prestart"][0]["path"].endswith(
        "nvidia-container-runtime-hook"
    )


def test_a_missing_bundle_or_spec_is_an_error(host: Host) -> None:
    for place in (host.root / "no-such-bundle", host.bundle):
        done = host.run("create", "--bundle", str(place), "x")
        assert done.returncode == 1
        assert f"open {place}/config.json: no such file or directory" in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("place", ["/proc/no-such/shim.log", "/etc"])
@pytest.mark.parametrize(
    "words", [("state", "x"), ("--debug", "state", "x"), ("create", "--bundle", "{bundle}", "x")]
)
def test_a_log_that_cannot_be_written_is_passed_over_in_silence(
    host: Host, place: str, words: tuple[str, ...]
) -> None:
    """The engine reads a runtime's stderr as the runtime's own words."""
    host.configure(debug=place)
    host.spec()
    done = host.run(*(word.format(bundle=host.bundle) for word in words))
    assert (done.returncode, done.stderr) == (0, "")


def test_an_attack_on_the_log_is_quoted(host: Host) -> None:
    host.spec('evil"\n time level:info "forged\x1b[31m')
    line = host.refused()
    assert 'evil\\"\\n time level:info \\"forged\\u001b[31m' in line
    assert "\x1b" not in line
    assert all(entry.startswith("time=") for entry in host.log.read_text().splitlines())


def mounted_run(
    host: Host, script: str, command: str = "create"
) -> subprocess.CompletedProcess[str]:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    words = f"{script} && exec {host.prefix}/bin/nvidia-container-runtime {command} --bundle {host.bundle} x"
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", words],
        env=host.environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_read_only_file_system_is_an_error(host: Host) -> None:
    host.spec()
    before = host.raw_spec()
    done = mounted_run(
        host, f"mount --bind {host.bundle} {host.bundle} && mount -o remount,bind,ro {host.bundle}"
    )
    assert done.returncode == 1
    assert "error writing OCI specification" in done.stderr
    assert "read-only file system" in done.stderr
    assert host.raw_spec() == before


def test_a_file_system_without_room_is_an_error(host: Host) -> None:
    spec = host.spec(annotations={"big": "x" * 60000})
    script = (
        f"cp {host.bundle}/config.json {host.root}/keep && mount -t tmpfs -o size=72k none {host.bundle}"
        f" && cp {host.root}/keep {host.bundle}/config.json"
    )
    words = f"{script} && {host.prefix}/bin/nvidia-container-runtime create --bundle {host.bundle} x; ls -A {host.bundle}; cat {host.bundle}/config.json"
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", words],
        env=host.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no space left on device" in done.stderr
    listing, _, rest = done.stdout.partition("\n")
    assert listing == "config.json", "a draft was left behind"
    assert json.loads(rest) == spec


def test_a_spec_that_its_owner_may_not_write_is_an_error(host: Host) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    host.spec()
    for path in (host.root, *host.root.parents):
        if path != path.parent and path.stat().st_uid == 0 and "pytest" in str(path):
            path.chmod(0o755)
    (host.bundle / "config.json").chmod(0o444)
    host.bundle.chmod(0o777)
    host.prefix.chmod(0o755)
    for path in (host.prefix.parent, host.recorder.parent, host.recorder.parent.parent):
        path.chmod(0o755)
    program = [
        str(host.prefix / "bin/nvidia-container-runtime"),
        "create",
        "--bundle",
        str(host.bundle),
        "x",
    ]
    before = host.raw_spec()
    done = subprocess.run(
        program,
        env=host.environment,
        capture_output=True,
        text=True,
        user=65534,
        group=65534,
        check=False,
    )
    assert "permission denied" in done.stderr
    assert done.returncode == 1
    assert host.raw_spec() == before


def test_a_runtime_that_cannot_be_executed_is_one_line(host: Host) -> None:
    broken = host.root / "broken-runtime"
    broken.write_bytes(b"\x7fELFnot really")
    broken.chmod(0o755)
    host.configure(runtimes=[str(broken)])
    done = host.run("state", "x")
    assert done.returncode == 1
    assert "could not exec" in done.stderr
    assert "exec format error" in done.stderr


@pytest.mark.parametrize(
    "value", ["\n", "a" * 100000, "0,\n", "\t", "'; rm -rf /; '", "$(touch x)", "🎉", "%s"]
)
def test_a_device_value_that_is_odd_reaches_legacy_mode_unharmed(host: Host, value: str) -> None:
    after: dict[str, Any] = host.created(f"NVIDIA_VISIBLE_DEVICES={value}")
    assert after["process"]["env"][-1] == f"NVIDIA_VISIBLE_DEVICES={value}"
