"""Keep results in a folder: copy outputs from elsewhere to it, and update its manifest."""

from __future__ import annotations

from tao_sdk.net.crew import catch_error
from tao_sdk.net.failure import Failure
from tao_sdk.runner.outputs.manifest import Manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tao_sdk.runner.document import Document
    from tao_sdk.runner.outputs.copies import Copies
    from tao_sdk.runner.outputs.ending import Ending
    from tao_sdk.runner.results_folder import ResultsFolder


class Folder:
    """A mounted folder as destination. A problem with a file affects only that file."""

    def __init__(self, document: Document, results: ResultsFolder) -> None:
        self.results = results
        self.closed = False  # True once every file is accounted for
        self.copies: Copies | None = None
        if document["copies"]:
            from tao_sdk.runner.outputs.copies import Copies

            self.copies = Copies(document["copies"], results, document["excludes"])
        self.manifest = Manifest(results, document["excludes"]) if results.rank == 0 else None

    def sync(self, hurry: Callable[[], bool]) -> list[str]:  # noqa: ARG002  a copy is short
        """Update the copies and the manifest. Return a line for each problem."""
        problems = self.renew_copies(final=False)
        if self.manifest:
            problems += self.manifest.renew(None, False, self.manifest.is_known)
            self.manifest.seen_shapes = self.manifest.found_shapes
        return problems

    def renew_copies(self, final: bool) -> list[str]:
        if not self.copies:
            return []
        return self.copies.renew(final) + self.copies.failed

    def finish(self, ending: Ending, *_: object) -> list[str]:
        """Update the copies and the manifest for the last time, a quick manifest first: the runner
        may be killed at any moment. Return a line for each problem. Raises Failure.
        """
        try:
            return self.account_all(ending)
        except OSError as error:
            raise lost_failure(
                "The manifest of the results cannot be written.", [str(error)], self.results
            ) from error

    def account_all(self, ending: Ending) -> list[str]:
        manifest = self.manifest
        if manifest:
            # the last renewal reports its error
            catch_error(manifest.renew, ending.exit_code, False, manifest.is_hashed)
        problems = self.renew_copies(final=True)
        if manifest:
            problems += manifest.renew(
                ending.exit_code,
                True,
                lambda path, shape: ending.vouches_for(shape[1]) or manifest.is_hashed(path, shape),
            )
        return problems

    def given_up(self) -> Failure:
        """The Failure if there was no time left for all results."""
        what = (
            f"Not all results could be brought to {self.results.folder} before the job had to end."
        )
        return lost_failure(what, [], self.results)

    def abandon(self) -> None:
        """Do nothing: a copy gets its name only once it is complete."""

    @property
    def missing(self) -> list[str]:
        if not self.copies:
            return []
        return self.copies.missing

    @property
    def failure(self) -> Failure | None:
        """The Failure for files that were not kept, or None. Valid after `finish`."""
        failed = self.copies.failed if self.copies else []
        if not failed:
            return None
        return lost_failure(f"{len(failed)} files could not be kept.", failed, self.results)


def lost_failure(what: str, paths: list[str], results: ResultsFolder) -> Failure:
    return Failure(
        "output.lost",
        what,
        "; ".join(paths[:5]),
        f"Free space in {results.folder}. They are still where the command wrote them, "
        "for as long as that is there.",
    )
