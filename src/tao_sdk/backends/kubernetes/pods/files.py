"""Files of a pod. Files on a claim are read through a reader's pod; others go with their pod."""

from __future__ import annotations

from tao_sdk.backends.contract import Files, FileStat
from tao_sdk.backends.kubernetes.claims.claim_files import ClaimFiles, FindReader
from tao_sdk.backends.kubernetes.claims.known_claims import SCHEME
from tao_sdk.model.errors import PathNotFound

ADVICE = (
    "Set TAO_RESULTS_ROOT=s3://bucket/prefix, or mount a claim (pvc://claim:/results), and tao "
    "results shows and fetches them."
)


class PodFiles:
    """Files on claims. For any other path, raises PathNotFound with the reason."""

    def __init__(self, find_reader: FindReader) -> None:
        self.claims = ClaimFiles(find_reader)

    def stat(self, path: str) -> FileStat:
        return self._claims_for(path).stat(path)

    def list(self, path: str) -> list[FileStat]:
        return self._claims_for(path).list(path)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        return self._claims_for(path).read(path, offset, limit)

    def below(self, folder: str) -> Files:
        return self.claims.below(folder) if folder.startswith(SCHEME) else self

    def why_lost(self, path: str) -> str:
        return "" if path.startswith(SCHEME) else f"{in_a_pod(path)} {ADVICE}"

    def _claims_for(self, path: str) -> ClaimFiles:
        if path.startswith(SCHEME):
            return self.claims
        raise PathNotFound(in_a_pod(path), "", ADVICE)


def in_a_pod(path: str) -> str:
    return f"{path} is in the pod alone, and goes with it."
