"""The driver's own library, asked for what device selection needs. Only here is ctypes loaded."""

import ctypes
from ctypes import byref, c_char, c_int, c_uint, c_void_p

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIBRARY, CUDA_LIBRARY = "libnvidia-ml.so.1", "libcuda.so.1"
NAMES = {
    1: "ERROR_UNINITIALIZED", 2: "ERROR_INVALID_ARGUMENT", 3: "ERROR_NOT_SUPPORTED",
    4: "ERROR_NO_PERMISSION",
    6: "ERROR_NOT_FOUND", 9: "ERROR_DRIVER_NOT_LOADED", 12: "ERROR_LIBRARY_NOT_FOUND",
    13: "ERROR_FUNCTION_NOT_FOUND",
    15: "ERROR_GPU_IS_LOST", 17: "ERROR_OPERATING_SYSTEM", 18: "ERROR_LIB_RM_VERSION_MISMATCH",
    999: "ERROR_UNKNOWN",
}  # fmt: skip
NOT_SUPPORTED, NOT_FOUND = 3, 6
# By NVML's numbers, in the words of nvidia-container-cli.
BRANDS = (
    "unknown", "quadro", "tesla", "nvs", "grid", "geforce", "titan", "vapps", "vpc", "vcs", "vws",
    "cloudgaming",
    "quadrortx", "nvidiartx", "nvidia", "geforcertx", "titanrtx",
)  # fmt: skip
TEXT = 96


class DriverFault(Exception):
    """The driver cannot be asked, or said no."""

    def __init__(self, code: int, doing: str = "") -> None:
        self.code = code
        super().__init__(NAMES.get(code, f"ERROR_{code}"), doing)

    def __str__(self) -> str:
        return str(self.args[0])


class PciInfo(ctypes.Structure):
    _fields_ = (
        ("legacy_id", c_char * 16), ("domain", c_uint), ("bus", c_uint), ("device", c_uint),
        ("device_id", c_uint),
        ("subsystem_id", c_uint), ("id", c_char * 32),
    )  # fmt: skip


class Gpu:
    """A full GPU."""

    def __init__(self, driver: "Driver", index: int, handle: "Any") -> None:
        self.driver = driver
        self.index = index
        self.handle = handle
        self.name = driver.text("nvmlDeviceGetName", handle)
        self.uuid = driver.text("nvmlDeviceGetUUID", handle)

    @property
    def minor(self) -> int:
        return self.driver.number("nvmlDeviceGetMinorNumber", self.handle)

    @property
    def pci_bus(self) -> str:
        """As sysfs spells it: 0000:01:00.0, where the driver says 00000000:01:00.0."""
        info = PciInfo()
        self.driver.call("nvmlDeviceGetPciInfo_v3", self.handle, byref(info))
        found = info.id.decode().lower()
        return found[4:] if len(found.partition(":")[0]) == 8 else found

    @property
    def compute_capability(self) -> str:
        major, minor = c_int(), c_int()
        self.driver.call(
            "nvmlDeviceGetCudaComputeCapability", self.handle, byref(major), byref(minor)
        )
        return f"{major.value}.{minor.value}"

    @property
    def brand(self) -> str:
        """As conditions spell it; "" where the driver cannot tell."""
        try:
            number = self.driver.number("nvmlDeviceGetBrand", self.handle)
        except DriverFault:
            return ""
        return BRANDS[number] if number < len(BRANDS) else BRANDS[0]

    @property
    def mig_enabled(self) -> bool:
        now, pending = c_uint(), c_uint()
        try:
            self.driver.call("nvmlDeviceGetMigMode", self.handle, byref(now), byref(pending))
        except DriverFault:
            return False
        return now.value == 1

    def migs(self) -> "list[Mig]":
        if not self.mig_enabled:
            return []
        found: list[Mig] = []
        for index in range(self.driver.number("nvmlDeviceGetMaxMigDeviceCount", self.handle)):
            handle = c_void_p()
            try:
                self.driver.call(
                    "nvmlDeviceGetMigDeviceHandleByIndex", self.handle, c_uint(index), byref(handle)
                )
            except DriverFault as fault:
                if fault.code in (NOT_FOUND, 2):
                    continue
                raise
            found.append(Mig(self, index, handle))
        return found


class Mig:
    """A slice of a GPU."""

    def __init__(self, gpu: Gpu, index: int, handle: "Any") -> None:
        self.gpu = gpu
        self.index = index
        self.uuid = gpu.driver.text("nvmlDeviceGetUUID", handle)
        self.gpu_instance = gpu.driver.number("nvmlDeviceGetGpuInstanceId", handle)
        self.compute_instance = gpu.driver.number("nvmlDeviceGetComputeInstanceId", handle)


class Driver:
    """An open NVML: use it in a with statement."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self.library = ctypes.CDLL(library)
        except OSError:
            raise DriverFault(12) from None

    def __enter__(self) -> "Driver":
        self.call("nvmlInit_v2")
        return self

    def __exit__(self, *_: object) -> None:
        self.library.nvmlShutdown()

    def call(self, name: str, *arguments: "Any") -> None:
        try:
            function = getattr(self.library, name)
        except AttributeError:
            raise DriverFault(13, name) from None
        code = function(*arguments)
        if code:
            raise DriverFault(code, name)

    def text(self, name: str, *handle: "Any") -> str:
        buffer = ctypes.create_string_buffer(TEXT)
        self.call(name, *handle, buffer, c_uint(TEXT))
        return buffer.value.decode(errors="replace")

    def number(self, name: str, *handle: "Any") -> int:
        value = c_uint()
        self.call(name, *handle, byref(value))
        return value.value

    @property
    def version(self) -> str:
        return self.text("nvmlSystemGetDriverVersion")

    @property
    def cuda_version(self) -> str:
        found = c_int()
        self.call("nvmlSystemGetCudaDriverVersion_v2", byref(found))
        return f"{found.value // 1000}.{found.value % 1000 // 10}"

    def gpus(self) -> "list[Gpu]":
        return [self.gpu(index) for index in range(self.number("nvmlDeviceGetCount_v2"))]

    def gpu(self, index: int) -> Gpu:
        handle = c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
        return Gpu(self, index, handle)

    def properties(self) -> "dict[str, str]":
        """The properties that conditions can ask for: driver versions, and the first GPU's kind."""
        found = {"cuda": self.cuda_version, "driver": self.version}
        if self.number("nvmlDeviceGetCount_v2"):
            first = self.gpu(0)
            found.update(arch=first.compute_capability, brand=first.brand)
        return found


def cuda_properties(library: str = CUDA_LIBRARY) -> "dict[str, str]":
    """cuda and arch by the CUDA driver library: the version it supports, the capability of device
    0.
    """
    try:
        cuda: Any = ctypes.CDLL(library)
    except OSError as error:
        raise DriverFault(12, str(error)) from None
    found: dict[str, str] = {}
    version, major, minor, device = c_int(), c_int(), c_int(), c_int()
    if cuda.cuDriverGetVersion(byref(version)) == 0:
        found["cuda"] = f"{version.value // 1000}.{version.value % 100 // 10}"
    asked = cuda.cuInit(0) or cuda.cuDeviceGet(byref(device), 0)
    if not (
        asked
        or cuda.cuDeviceGetAttribute(byref(major), 75, device)
        or cuda.cuDeviceGetAttribute(byref(minor), 76, device)
    ):
        found["arch"] = f"{major.value}.{minor.value}"
    return found
