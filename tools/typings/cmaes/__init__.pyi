# What the search uses of cmaes, which has no types.
import numpy as np
from numpy.typing import NDArray

class CMA:
    def __init__(
        self,
        mean: NDArray[np.float64],
        sigma: float,
        bounds: NDArray[np.float64] | None = ...,
        n_max_resampling: int = ...,
        seed: int | None = ...,
        population_size: int | None = ...,
    ) -> None: ...
    def ask(self) -> NDArray[np.float64]: ...
    def tell(self, solutions: list[tuple[NDArray[np.float64], float]]) -> None: ...
