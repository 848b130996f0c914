"""Compare our metrics with the code of others and write the tables of docs/agreement.md.

    python tools/agreement.py                          what to fetch into DIR
    python tools/agreement.py --foreign DIR            compare; write benchmarks/agreement.json and the tables
    python tools/agreement.py --foreign DIR --only ari compare what has this text in its name; write nothing
    python tools/agreement.py --page                   write the tables again from the record

A row whose code is missing in DIR keeps its former record. The table names our commit at which each was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import time
import traceback
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from foreign import analogy, grouping, images, neurons
from foreign.code import PACKAGES, REPOSITORIES, Foreign, MissingError, Row, differences

from alebrije.errors import UndefinedMetricWarning

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "agreement.json"
PAGE = ROOT / "docs" / "agreement.md"
INSTRUMENTS = {"grouping": grouping, "neurons": neurons, "analogy": analogy, "imagination": images}
ROUNDING = 1e-15  # smaller differences are shown as this


# --- Comparisons ---


def measure(row: Row, foreign: Foreign) -> dict[str, Any]:
    """The record of a row."""
    record: dict[str, Any] = {"metrics": list(row.metrics), "code": row.code, "data": row.data, "remark": row.remark}
    record["intended"] = row.intended
    if row.compare is None:
        return record
    try:
        outcome = row.compare(foreign)
    except MissingError as missing:
        return record | {"skipped": f"not run: {missing} is missing"}
    except Exception as error:  # code of others may fail in any way
        traceback.print_exc()
        return record | {"skipped": f"not run: {type(error).__name__}"}
    found = np.concatenate(list(differences(outcome)))
    record["remark"] = "; ".join(filter(None, (row.remark, outcome.note)))
    return record | {"values": len(found), "difference": float(found.max())}


def compare_all(foreign: Foreign, only: str) -> dict[str, list[dict[str, Any]]]:
    """The records of all rows by instrument, each printed when it is done."""
    records: dict[str, list[dict[str, Any]]] = {}
    for instrument, module in INSTRUMENTS.items():
        chosen = [row for row in module.rows() if only in ", ".join([*row.metrics, row.code])]
        records[instrument] = []
        for row in chosen:
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", UndefinedMetricWarning)
                record = measure(row, foreign)
            records[instrument].append(record)
            name = ", ".join(record["metrics"])
            seconds = f"{time.perf_counter() - started:.1f} s"
            print(f"{name:24.24} {record['code']:52.52} {difference(record):24} {seconds:>8}  {record['remark']}")
    return records


def keep_measured(records: dict[str, list[dict[str, Any]]], stored: dict[str, Any], commit: str) -> None:
    """Name the commit of rows that were measured now; put the stored record in place of those that were skipped."""
    known = {(name, *identity(row)): row for name, rows in stored["rows"].items() for row in rows}
    for name, rows in records.items():
        for index, row in enumerate(rows):
            if "difference" in row:
                row["commit"] = commit
            elif "difference" in known.get((name, *identity(row)), {}):
                rows[index] = known[name, *identity(row)]


def identity(row: dict[str, Any]) -> tuple[str, ...]:
    """What tells a row from all others of its instrument."""
    return (*row["metrics"], row["code"], row["data"])


# --- The page ---


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def difference(record: dict[str, Any]) -> str:
    """The largest difference in words."""
    if "difference" not in record:
        return str(record.get("skipped", "no code"))
    found = record["difference"]
    if found == 0:
        return "0"
    return f"{found:.2g}" if found >= ROUNDING else f"below {ROUNDING:g}"


def agreement_table(records: list[dict[str, Any]]) -> str:
    """The table of an instrument."""
    rows = []
    for record in records:
        names = ", ".join(f"`{name}`" for name in record["metrics"])
        remark = f"*by intention:* {record['remark']}" if record["intended"] else record["remark"]
        values = f"{record['values']:,}" if "values" in record else ""
        commit = record.get("commit", "")
        rows.append((names, record["code"], record["data"], values, difference(record), commit, remark))
    return table(("metric", "compared with", "data", "values", "largest difference", "commit", "remark"), rows)


def tables(stored: dict[str, Any]) -> dict[str, str]:
    """The tables of the page by their marks."""
    versions = ", ".join(f"{name} {version}" for name, version in stored["versions"].items())
    repositories = ", ".join(f"{name} at {commit}" for name, commit in stored["repositories"].items())
    packages = ", ".join(name.replace("==", " ") for name in stored["packages"])
    made = {name: agreement_table(records) for name, records in stored["rows"].items()}
    made["sources"] = f"*{stored['machine']}; {versions}*\n\nRepositories: {repositories}.\n\nPackages: {packages}."
    return made


def filled(text: str, stored: dict[str, Any]) -> str:
    """The page with its tables."""
    for name, made in tables(stored).items():
        marks = f"<!-- {name} -->", f"<!-- end of {name} -->"
        pattern = re.escape(marks[0]) + ".*?" + re.escape(marks[1])
        whole = f"{marks[0]}\n\n{made}\n\n{marks[1]}"
        text = re.sub(pattern, lambda _, whole=whole: whole, text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def write_page() -> None:
    """Write the tables of the record into the page."""
    stored = json.loads(RECORD.read_text(encoding="utf-8"))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), stored), encoding="utf-8")


def main() -> None:
    """Compare, and write the record and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foreign", type=Path, metavar="DIR", help="folder with the code of others")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows whose metric or code contains TEXT")
    parser.add_argument("--page", action="store_true", help="write the tables again from the record")
    options = parser.parse_args()
    if options.page:
        write_page()
    elif options.foreign is None:
        for name, commit in REPOSITORIES.items():
            print(f"repository {name} at commit {commit} as DIR/{name}")
        print(f"pip install --no-deps --target DIR/packages {' '.join(PACKAGES)}")
    else:
        torch.set_num_threads(1)  # small networks; more threads wait for each other
        commit = subprocess.check_output(("git", "rev-parse", "--short", "HEAD"), cwd=ROOT, text=True).strip()
        records = compare_all(Foreign(options.foreign.resolve()), options.only)
        if not options.only:
            keep_measured(records, json.loads(RECORD.read_text(encoding="utf-8")), commit)
            stored = {
                "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
                "versions": {
                    "python": platform.python_version(),
                    "torch": torch.__version__,
                    "scikit-learn": sklearn.__version__,
                },
                "packages": PACKAGES,
                "repositories": REPOSITORIES,
                "rows": records,
            }
            RECORD.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
            write_page()


if __name__ == "__main__":
    main()
