"""Codes in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from alebrije.errors import InputError
from alebrije.instruments.analogy import INSTRUMENT, long_codes
from alebrije.instruments.analogy.long_codes import CodesInFile
from alebrije.studies.folder import ResultFolder
from alebrije.studies.request import Request
from tests.instruments.analogy.running import Results


def test_codes_in_files_score_the_same(
    folder: ResultFolder, references: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_codes, "LONG", 0)
    written: list[CodesInFile] = []

    class Watched(CodesInFile):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            written.append(self)

    monkeypatch.setattr(long_codes, "CodesInFile", Watched)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as when a study runs: the number of threads changes the last digit
    try:
        for job in INSTRUMENT.jobs(folder, Request(size="tiny")):
            in_memory = references[job.cell.labels["model"], job.cell.labels["corpus"]]
            assert job.work() == in_memory.values
    finally:
        torch.set_num_threads(threads)
    assert len(written) == 3 * (2 * 11 + 2 * 10)  # the oracle and its projection have no code for `pixel`
    assert {codes.shape for codes in written} >= {(32, 3 * 64 * 64), (32, 64)}


def test_a_slice_of_codes_in_a_file(tmp_path: Path) -> None:
    codes = torch.randn(10, 2, 3)
    kept = CodesInFile([codes[:4], codes[4:8], codes[8:]], tmp_path)
    assert (kept.shape, len(kept)) == ((10, 2, 3), 10)
    for rows in (slice(None), slice(3), slice(2, 7), slice(8, 99), slice(5, 5), slice(-2, None)):
        assert torch.equal(kept[rows], codes[rows])
    with pytest.raises(IndexError, match="must be 1, not 2"):
        kept[::2]
    assert list(tmp_path.iterdir()) == []  # the file has no name, so nothing is left behind


def test_codes_in_a_file_have_one_shape_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="same shape"):
        CodesInFile([torch.zeros(2, 3), torch.zeros(2, 4)], tmp_path)
    with pytest.raises(InputError, match="nowhere"):
        CodesInFile([torch.zeros(2, 3)], tmp_path / "nowhere")
