"""Job ids: find the job that a person means by an id, a name, or the beginning of an id."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NoReturn

from tao_sdk.model.errors import JobNotFound, SeveralJobs
from tao_sdk.model.spec import is_unicode

# ids: one more than an error shows, so that it can say there are more
MOST_READ = SeveralJobs.MOST_SHOWN + 1
NEWEST_SEARCHED = 200  # jobs to search for an id or name like a wrong one

ID_KNOWN = "SELECT 1 FROM jobs WHERE id = ?"
IDS_WITH_NAME = "SELECT id FROM jobs WHERE name = ? ORDER BY number DESC"
IDS_BEGINNING = "SELECT id FROM jobs WHERE id >= ? AND id < ? ORDER BY id"
NEWEST_NAMES = "SELECT id, name FROM jobs ORDER BY number DESC LIMIT ?"


def find_id(db: sqlite3.Connection, text: str) -> str:
    """Return the id of the one job that `text` means: its id, else its name, else how its id
    begins.

    Raises JobNotFound if it means none, SeveralJobs if it means several.
    """
    if not is_unicode(text):
        raise_not_found(text)
    if db.execute(ID_KNOWN, (text,)).fetchone():
        return text
    matches = _matching_ids(db, text)
    if not matches:
        raise_not_found(text, db.execute(NEWEST_NAMES, (NEWEST_SEARCHED,)))
    if len(matches) > 1:
        raise SeveralJobs.of(text, matches)
    return matches[0]


def ids_named(db: sqlite3.Connection, text: str) -> list[str]:
    """The id `text` if a job has it; else the ids of all jobs of that name, newest first."""
    if not is_unicode(text):
        return []
    if db.execute(ID_KNOWN, (text,)).fetchone():
        return [text]
    return _first_column(db, IDS_WITH_NAME, text)


def _matching_ids(db: sqlite3.Connection, text: str) -> list[str]:
    """At most MOST_READ ids of jobs with that name, else of jobs whose id begins with it."""
    limit = f" LIMIT {MOST_READ}"
    named = _first_column(db, IDS_WITH_NAME + limit, text)
    if named or not text:
        return named
    first_beyond = text + "\U0010ffff"
    return _first_column(db, IDS_BEGINNING + limit, text, first_beyond)


def _first_column(db: sqlite3.Connection, sql: str, *values: object) -> list[str]:
    return [row[0] for row in db.execute(sql, values)]


def raise_not_found(job_id: str, known: Iterable[tuple[str, str]] = ()) -> NoReturn:
    """Raise JobNotFound that names the nearest of the `known` (id, name)."""
    import difflib

    id_of_word = {word: job for job, name in known for word in (name, job)}
    similar_words = difflib.get_close_matches(job_id, id_of_word, n=3)
    similar_ids = dict.fromkeys(id_of_word[word] for word in similar_words)
    what = f"no such job: {job_id!r}"
    if similar_ids:
        raise JobNotFound(what, "", f"Did you mean {' or '.join(similar_ids)}?")
    if any(sign in job_id for sign in "*?["):
        why = "A job is named by its id, its name or the start of its id, and by no pattern."
        raise JobNotFound(what, why, "Name each, or those of a label: --label NAME=VALUE")
    raise JobNotFound(what, "", "List the jobs with:", "tao ls")
