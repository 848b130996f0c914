"""The report page: everything is shown, names are escaped, nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import html
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest

from alebrije.errors import InputError
from alebrije.evaluate import write_figures, write_report
from alebrije.instruments import sections_of
from alebrije.report.findings import read_findings
from alebrije.report.page import figures_of
from alebrije.results import Value
from alebrije.studies.commands import note_command
from alebrije.studies.folder import ResultFolder
from tests.report.fake_studies import (
    HOSTILE,
    LONG,
    analogies,
    everything,
    fail,
    groupings,
    hostile,
    imaginations,
    neurons,
    put,
    value,
)


class Reader(HTMLParser):
    """Every tag with its attributes, and the text outside of style and script."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self._inside = [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("style", "script") else ""

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        self.text += "" if self._inside else data

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = everything(tmp_path_factory.mktemp("study"), side=32)
    note_command(folder, "grouping", "alebrije study grouping --size tiny --jobs 2 --out DIR")
    fail(folder, "neurons", {"model": "vae", "world": "rooms"}, "no memory")
    return folder


@pytest.fixture(scope="module")
def text(study, tmp_path_factory):
    return write_report(study, tmp_path_factory.mktemp("page") / "report.html").read_text()


@pytest.fixture(scope="module")
def read(text):
    return Reader(text)


def test_the_header_says_what_was_examined_and_what_failed(read):
    for words in (
        "slot-attention, vae, pixels, oracle, noise",
        "Linux-x86_64, Python 3.12.1, torch 2.11.0",
        "1 failed",
    ):
        assert words in read.text
    assert "RuntimeError: no memory" in read.text
    assert "Traceback (most recent call last)" in read.text


def test_each_instrument_has_a_section_and_each_model_a_verdict(text, read):
    assert {attributes.get("id") for attributes in read.of("h2")} >= {"analogy", "imagination", "grouping", "neurons"}
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', text, re.S)
    marks = {re.match(r"[^<]+", row)[0]: re.findall(r'class="mark (\w+)"', row) for row in rows}
    assert marks["oracle"] == ["good"] * 4
    assert marks["noise"] == ["chance"] * 4
    assert marks["vae"] == ["partly", "partly", "none", "partly"]
    assert list(marks) == ["slot-attention", "vae", "pixels", "oracle", "noise"], "models before references"


def test_header_and_summary_name_the_size_and_the_worlds(text):
    header, summary = text.split("<main>")[0], text.split('id="summary"')[1].split("<table")[0]
    assert "<dt>size</dt><dd>tiny</dd>" in header
    assert "<dt>worlds</dt><dd>clevr6, sprites, dsprites</dd>" in header
    assert "size tiny, scenes of COAT occluded and unoccluded, worlds clevr6, sprites and dsprites. The size" in summary


def test_only_the_size_tiny_is_called_a_try_out(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    put(folder, "neurons", {"model": "mine", "size": "small", "world": "rooms"}, {"SNC": 0.5})
    text = write_report(folder, tmp_path / "report.html").read_text()
    assert "Computed at size small, worlds rooms." in text
    assert "try-out" not in text


def test_training_and_test_worlds_stand_side_by_side(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    plan = {"plan": {"world": "sprites", "rule": "S-A", "alpha": 0.6}}
    put(folder, "neurons", {"model": "trained here", "world": "rooms"}, {"SNC": 0.5}, subject=plan)
    put(folder, "neurons", {"model": "checkpoint", "world": "rooms", "trained_on": "dsprites"}, {"SNC": 0.5})
    put(folder, "neurons", {"model": "foreign", "world": "rooms"}, {"SNC": 0.5})
    put(folder, "neurons", {"model": "noise", "world": "rooms"}, {"SNC": 0.0})
    put(folder, "analogy", {"model": "foreign", "corpus": "occluded"}, {"coat": 0.5})
    text = write_report(folder, tmp_path / "report.html").read_text()
    articles = {re.search("<h3>(.*?)</h3>", one)[1]: one for one in text.split('<article class="model">')[1:]}
    rows = {re.match("[^<]+", row)[0]: row for row in re.findall(r'<tr><th scope="row">(.*?)</tr>', text, re.S)}
    about = {
        "trained here": "trained on sprites/S-A at alpha 0.6",
        "checkpoint": "trained on dsprites",
        "noise": "reference: numbers unrelated to the image",
    }
    for model, words in about.items():
        assert f"<small>{words}</small>" in rows[model]
        assert words in articles[model].split("<dl>")[0]
    assert "trained on" not in articles["foreign"] + rows["foreign"]
    assert all("Tested on rooms." in article for article in articles.values())
    assert "Tested on the corpus occluded." in articles["foreign"]


def test_the_summary_explains_the_marks(read):
    assert "It fails the hard negatives drop and size under occlusion" in read.text
    assert "No verdict: the model has no masks." in read.text
    assert "One of its cells failed." in read.text


def test_published_numbers_can_be_left_out(read, tmp_path):
    assert "Xie et al. 2022, Table 1" in read.text
    folder = ResultFolder(tmp_path / "study")
    analogies(folder, {"pixels": 0.7}, 32)
    assert "Xie et al." in Reader(write_report(folder, tmp_path / "report.html").read_text()).text
    without = Reader(write_report(folder, tmp_path / "plain.html", published=False).read_text())
    assert "Xie et al." not in without.text
    assert "published numbers" not in without.text


def test_notes_on_published_numbers_are_footnotes_below_the_table(text):
    table, below = text.split('id="analogy-published"')[1].split("</table>")[:2]
    footnotes = re.findall("<li>(.*?)</li>", below.split('<ol class="small footnotes">')[1].split("</ol>")[0])
    assert "ours was computed at the size tiny" in footnotes
    assert len(footnotes) == len(set(footnotes))
    assert not any(footnote in table for footnote in footnotes)
    numbers = [row.rpartition("<td")[2] for row in table.split("<tbody>")[1].split("</tr>")[:-1]]
    used = {int(number) for cell in numbers for number in re.findall(r"\b\d+\b", cell.partition(">")[2])}
    assert used == set(range(1, len(footnotes) + 1))


def test_each_section_names_its_commands_once(text):
    sections = text.split("<section ")[1:]
    assert len(sections) == 4
    for section in sections:
        assert section.count("Made by") == 1
        assert section.index("Made by") < section.index("<figure")
    (grouping,) = [section for section in sections if 'id="grouping"' in section]
    assert "Made by <code>alebrije study grouping --size tiny --jobs 2 --out DIR</code></p>" in grouping
    assert text.count("Made by") == 4


def test_wrong_choices_and_faulty_groups_are_marked(text):
    assert text.count("✕ drop") == text.count("✕ size") > 0
    assert "1 of 4 objects split" in text
    assert "1 group over several objects" in text


def test_the_page_loads_nothing(text, read):
    (policy,) = [meta["content"] for meta in read.of("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]
    sources = [value for _, attributes in read.tags for name, value in attributes.items() if name in ("src", "href")]
    assert sources
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert not re.search(r"url\(\s*['\"]?(?!#)|@import", text)
    handlers = [name for _, attributes in read.tags for name in attributes if name.startswith("on")]
    assert not handlers


def test_pictures_are_inside_the_page_and_have_alternative_texts(read):
    pictures = read.of("img")
    assert len(pictures) > 100
    assert all(one["alt"] for one in pictures)
    assert sum(len(one["src"]) for one in pictures) < 4_000_000


def test_ids_are_unique(read):
    names = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(names) == len(set(names))


def test_names_of_users_are_escaped(tmp_path):
    text = write_report(hostile(tmp_path / "study"), tmp_path / "report.html").read_text()
    read = Reader(text)
    assert len(read.of("script")) == 1
    assert not read.of("b") or all(not attributes for attributes in read.of("b"))
    assert HOSTILE not in text
    assert html.escape(HOSTILE) in text
    assert LONG not in text.split("</h1>")[0], "a long name is shortened where it would break the page"
    assert f">{LONG}<" in text, "and written in full in a table"
    assert "is truncated, or is not JSON" in read.text
    assert "</pre><script>alert(2)" in read.text


def test_an_instrument_whose_cells_all_failed_is_shown(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    fail(folder, "imagination", {"model": "vae"})
    read = Reader(write_report(folder, tmp_path / "report.html").read_text())
    assert "failed" in read.text.split("What they can and cannot do")[1].split("Imagination")[1]


def test_null_values_and_missing_samples_are_shown_as_such(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    null = Value(score=None, reason="the image is empty")
    put(folder, "analogy", {"model": "a"}, {"coat": null})
    put(folder, "imagination", {"model": "a"}, {"out-of-distribution error": null, "skill": null})
    put(folder, "grouping", {"model": "a"}, {"fg-ari": null})
    put(folder, "neurons", {"model": "a"}, {"SNC": null, "CG accuracy": null})
    read = Reader(write_report(folder, tmp_path / "report.html").read_text())
    assert read.text.count("No verdict: the image is empty.") == 3
    assert "No verdict on single neurons: the image is empty." in read.text
    assert "Not examined" not in read.text


def test_columns_say_what_is_better_and_which_are_baselines(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    imaginations(folder, {"vae": 0.4}, 32)
    put(folder, "neurons", {"model": "vae", "pair": "size 0, shape 0"}, {"CG shape": value(0.5), "SNC": value(0.5)})
    put(folder, "neurons", {"model": "vae"}, {"CG accuracy": value(0.5), "SNC": value(0.5)})
    grids = [grid for section in sections_of(read_findings(folder)) for grid in section.grids]
    hints = {name: hint for grid in grids for name, hint in grid.hints.items()}
    assert hints["out-of-distribution error"] == "lower is better"
    for baseline in ("error of an unchanged image", "factor accuracy of true images"):
        assert hints[baseline] == "baseline, not the model"
    notes = " ".join(grid.note for grid in grids)
    assert "CG accuracy is adjusted for chance" in notes
    assert "Not adjusted for chance: CG shape" in notes


def test_samples_and_details_of_the_wrong_shape_are_skipped(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    wrong = {"images": np.zeros((2, 3, 8, 8), np.uint8), "true": np.zeros((2, 9, 9), np.uint8), "groups": np.zeros(3)}
    score = value(0.5, details={"by objects": "none", "information": [[1], [2, 3]], "alignment": ["x"], "tests": 3})
    put(folder, "grouping", {"model": "a"}, {"fg-ari": score}, wrong)
    put(folder, "neurons", {"model": "a"}, {"SNC": score})
    put(folder, "analogy", {"model": "a", "corpus": "occluded"}, {"coat": score}, {"a": np.zeros(3), "d": np.zeros(3)})
    assert not Reader(write_report(folder, tmp_path / "report.html").read_text()).of("img")


def test_empty_and_missing_folders(tmp_path):
    with pytest.raises(InputError, match="no results here"):
        write_report(tmp_path, tmp_path / "report.html")
    (tmp_path / "cells").mkdir()
    text = write_report(tmp_path, tmp_path / "report.html").read_text()
    assert "This folder has no results of any instrument." in text
    with pytest.raises(InputError, match="is a folder"):
        write_report(tmp_path, tmp_path / "cells")


def test_the_same_folder_gives_the_same_page(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    groupings(folder, {"slot-attention": 0.8}, 32)
    first, again = (write_report(folder, tmp_path / name).read_text() for name in ("a.html", "new/b.html"))
    assert first == again


def test_figures_are_written_for_documents(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    groupings(folder, {"noise": 0.0}, 32)
    neurons(folder, {HOSTILE: 0.5})
    written = write_figures(folder, tmp_path / "figures")
    assert {path.suffix for path in written} == {".svg", ".pdf"}
    assert len(written) == len(set(written)) > 8
    for path in written:
        assert path.parent == tmp_path / "figures"
        if path.suffix == ".pdf":
            assert path.read_bytes().startswith(b"%PDF")
        else:
            assert ET.parse(path).getroot().tag.endswith("svg")
            assert "<script" not in path.read_text()


def test_figures_with_the_same_name_get_a_number(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    neurons(folder, {"日本": 0.5, "한국": 0.4})
    named = figures_of(sections_of(read_findings(folder)))
    assert sum(name.startswith("neurons-hinton") for name in named) == 2
