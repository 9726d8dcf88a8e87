"""Conditions on the driver (NVIDIA_REQUIRE_*) in the modes that inject devices themselves.

legacy mode leaves them to nvidia-container-cli. csv mode asks the CUDA driver library, which a
Tegra has without NVML.
"""

from . import demands, host
from .errors import RuntimeFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .journal import Journal
    from .request import Container
    from .settings import Settings


def check_by_nvml(container: "Container", settings: "Settings", journal: "Journal") -> None:
    """Raise a RuntimeFault where the driver does not meet them. A driver that cannot be asked is a
    warning.
    """
    wanted = demands.requirements(container, settings)
    if not wanted:
        return
    from . import nvml

    try:
        with nvml.Driver(host.nvml_library(settings.driver_root)) as driver:
            properties = driver.properties()
    except nvml.DriverFault as fault:
        journal.warning(f"Conditions on the driver are not checked, NVML does not answer: {fault}")
        return
    verify(wanted, properties)


def check_by_cuda(container: "Container", settings: "Settings", journal: "Journal") -> None:
    wanted = demands.requirements(container, settings)
    if not wanted:
        return
    from . import nvml

    try:
        properties = nvml.cuda_properties()
    except nvml.DriverFault as fault:
        journal.warning(f"Failed to get CUDA version: {fault.args[1]}")
        properties = {}
    verify(wanted, properties)


def verify(wanted: "list[str]", properties: "dict[str, str]") -> None:
    from . import requirements

    try:
        requirements.verify(wanted, properties)
    except requirements.RequirementFault as fault:
        raise RuntimeFault(f"requirements not met: {fault}") from None
