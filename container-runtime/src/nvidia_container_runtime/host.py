"""The host as the modes see it: is it a Tegra, is a driver there, is its GPU integrated?"""

import posix

from . import paths
from .lowlevel import search_folders

NVML, DXCORE = "libnvidia-ml.so.1", "libdxcore.so"
TEGRA_RELEASE, SOC_FAMILY = "/etc/nv_tegra_release", "/sys/devices/soc0/family"
RTLD_LAZY = 1


def has_tegra_files() -> bool:
    if paths.exists(TEGRA_RELEASE) and not paths.is_dir(TEGRA_RELEASE):
        return True
    try:
        family = posix.open(SOC_FAMILY, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return False
    text = posix.read(family, 64)
    posix.close(family)
    return text.lower().startswith(b"tegra")


def can_load(library: str) -> bool:
    import _ctypes

    try:
        _ctypes.dlclose(_ctypes.dlopen(library, RTLD_LAZY))
    except OSError:
        return False
    return True


def has_integrated_gpu() -> bool:
    """Orin's and Thor's GPUs are driven by files listed in CSV even where NVML is there."""
    from . import nvml

    try:
        with nvml.Driver() as driver:
            return any("(nvgpu)" in gpu.name or "NVIDIA Thor" in gpu.name for gpu in driver.gpus())
    except nvml.DriverFault:
        return False


def is_csv_platform() -> bool:
    if can_load(DXCORE):
        return False  # WSL
    if not can_load(NVML):
        return has_tegra_files()
    return has_integrated_gpu()


def find_container_cli(configured: str, root: str, path: str) -> str:
    """nvidia-container-cli: where the configuration says, else in PATH, below the driver root
    first; "" if nowhere.
    """
    if configured.startswith("/"):
        return configured if paths.is_executable(configured) else ""
    for folder in cli_folders(root, path):
        place = paths.join(folder, configured or "nvidia-container-cli")
        if paths.is_executable(place):
            return place
    return ""


def cli_folders(root: str, path: str) -> "list[str]":
    """The folders in which nvidia-container-cli and its programs are looked for: the driver root's
    folders, $PATH, the usual ones.
    """
    folders = search_folders(path)
    if root in ("", "/"):
        return folders
    return [paths.join(root, folder) for folder in folders] + folders


def nvml_library(root: str) -> str:
    """The driver's own library below a driver root; where none is there, the name that the dynamic
    linker looks up.
    """
    if root in ("", "/"):
        return NVML
    from . import files

    for folder in files.LIBRARY_FOLDERS:
        for name in (NVML, "libnvidia-ml.so.*.*"):
            for path in files.resolved(root, f"{folder}/{name}"):
                return path
    return NVML
