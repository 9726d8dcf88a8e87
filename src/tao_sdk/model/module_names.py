"""Module names: find the package of a Python module that a program could not import.

Pure. engine/own_modules.py finds out if the module is one of the user's own files.
"""

from __future__ import annotations

from collections.abc import Mapping

from tao_sdk.model.lazy_pattern import lazy_compile

# Modules whose package has another name on PyPI, where their own name may be a stranger's package.
PACKAGES: Mapping[str, str] = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "git": "GitPython",
    "mpl_toolkits": "matplotlib",
    "OpenSSL": "pyOpenSSL",
    "PIL": "Pillow",
    "pkg_resources": "setuptools",
    "pytorch_lightning": "pytorch-lightning",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}
# Modules whose package has their name.
SAME_NAMES = frozenset(
    "accelerate boto3 click datasets einops faiss h5py imageio joblib jsonschema keras lightning "
    "matplotlib mlflow networkx nibabel numba numpy nltk onnx onnxruntime packaging pandas peft "
    "psutil pyarrow pycocotools pydantic requests rich safetensors scipy seaborn sentencepiece "
    "setuptools SimpleITK six tensorboard tensorflow timm tokenizers torch torchaudio torchmetrics "
    "torchvision tqdm transformers wandb xgboost".split()
)
_MISSING = lazy_compile(r"No module named '([A-Za-z0-9_]+)((?:\.[A-Za-z0-9_]+)*)'")


def missing_module(text: str) -> tuple[str, str]:
    """Return `("yaml", ".foo")` for `No module named 'yaml.foo'`; two empty strings if the text
    names no module.

    The second is the part that is missing inside a package that is there.
    """
    match = _MISSING.search(text)
    return (match[1], match[2]) if match else ("", "")


def package_words(text: str) -> str:
    """The command that installs the module that an error names. It never guesses a package."""
    module, _ = missing_module(text)
    package = module if module in SAME_NAMES else PACKAGES.get(module)
    if package:
        return f"python3 -m pip install {package}"
    wanted = f"module {module}" if module else "module"
    return f"python3 -m pip install PACKAGE (the package that has the {wanted})"
