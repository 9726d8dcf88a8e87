"""Writes digits.npz from scikit-learn's copy of the UCI handwritten digits. Needed once; the file
is kept beside this.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
np.savez_compressed(
    Path(__file__).with_name("digits.npz"),
    images=digits.data.astype(np.uint8),  # 1797 images of 8 x 8 pixels, 0 to 16
    labels=digits.target.astype(np.uint8),
)
