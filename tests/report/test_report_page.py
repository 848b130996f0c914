"""The report as a file: it says what is there, escapes what users named, and asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
from fake_studies import (
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

from alebrije.errors import InputError
from alebrije.report import page
from alebrije.report.charts import Bar, as_inline_svg, bars, styled
from alebrije.report.commands import NAME, derived_command, note_command, noted_commands
from alebrije.report.findings import read_findings
from alebrije.report.page import write_figures, write_report
from alebrije.report.words import Verdict
from alebrije.results import Estimate, Value
from alebrije.studies.folder import Folder


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
    fail(folder, "neurons", {"model": "vae", "world": "rooms"}, "out of luck")
    return folder


@pytest.fixture(scope="module")
def text(study, tmp_path_factory):
    return write_report(study, tmp_path_factory.mktemp("page") / "report.html").read_text()


@pytest.fixture(scope="module")
def read(text):
    return Reader(text)


def test_it_says_what_was_examined_when_where_and_what_failed(read):
    for told in ("slot-attention, vae, pixels, oracle, noise", "Linux-x86_64, Python 3.12.1, torch 2.11.0", "1 failed"):
        assert told in read.text
    assert "RuntimeError: out of luck" in read.text
    assert "Traceback (most recent call last)" in read.text


def test_it_has_a_section_for_each_instrument_and_a_verdict_for_each_model(text, read):
    assert {attributes.get("id") for attributes in read.of("h2")} >= {"analogy", "imagination", "grouping", "neurons"}
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', text, re.S)
    told = {re.match(r"[^<]+", row)[0]: re.findall(r'class="mark (\w+)"', row) for row in rows}
    assert told["oracle"] == ["good"] * 4
    assert told["noise"] == ["chance"] * 4
    assert told["vae"] == ["partly", "partly", "none", "partly"]
    assert list(told) == ["slot-attention", "vae", "pixels", "oracle", "noise"], "models before references"


def test_the_summary_speaks_in_words(read):
    assert "It fails the hard negatives drop and size under occlusion" in read.text
    assert "No verdict: the model has no masks." in read.text
    assert "One of its cells failed." in read.text


def test_published_numbers_stand_beside_ours_and_can_be_left_out(read, tmp_path):
    assert "Xie et al. 2022, Table 1" in read.text
    assert "ours is of the size tiny, not the paper's" in read.text
    folder = Folder(tmp_path / "study")
    analogies(folder, {"pixels": 0.7}, 32)
    assert "Xie et al." in Reader(write_report(folder, tmp_path / "report.html").read_text()).text
    without = Reader(write_report(folder, tmp_path / "plain.html", published=False).read_text())
    assert "Xie et al." not in without.text
    assert "published numbers" not in without.text


def test_every_figure_names_its_command(text):
    figures = re.findall(r'<figure class="chart">.*?</figure>', text, re.S)
    galleries = re.findall(r'<details class="gallery.*?</details>', text, re.S)
    assert len(figures) > 10
    assert len(galleries) > 10
    for drawn in (*figures, *galleries):
        assert "Made by <code>alebrije study " in drawn
    assert "alebrije study grouping --size tiny --jobs 2 --out DIR" in text


def test_wrong_answers_and_faulty_groups_are_marked(text):
    assert text.count("✕ drop") == text.count("✕ size") > 0
    assert "1 of 4 objects split" in text
    assert "1 group over several objects" in text


def test_it_needs_nothing_but_itself(text, read):
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


def test_pictures_are_whole_and_have_words(read):
    pictures = read.of("img")
    assert len(pictures) > 100
    assert all(one["alt"] for one in pictures)
    assert sum(len(one["src"]) for one in pictures) < 4_000_000


def test_no_two_things_have_one_name(read):
    names = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(names) == len(set(names))


def test_names_of_users_are_text(tmp_path):
    text = write_report(hostile(tmp_path / "study"), tmp_path / "report.html").read_text()
    read = Reader(text)
    assert len(read.of("script")) == 1
    assert not read.of("b") or all(not attributes for attributes in read.of("b"))
    assert HOSTILE not in text
    assert html.escape(HOSTILE) in text
    assert LONG not in text.split("</h1>")[0], "a long name is shortened where it would break the page"
    assert f">{LONG}<" in text, "and written in full in a table"
    assert "is cut short, or is not JSON" in read.text
    assert "</pre><script>alert(2)" in read.text


def test_an_instrument_all_of_whose_cells_failed_is_not_passed_over(tmp_path):
    folder = Folder(tmp_path / "study")
    fail(folder, "imagination", {"model": "vae"})
    read = Reader(write_report(folder, tmp_path / "report.html").read_text())
    assert "failed" in read.text.split("What they can and cannot do")[1].split("Imagination")[1]


def test_values_without_numbers_and_cells_without_samples_are_no_reason_to_fail(tmp_path):
    folder = Folder(tmp_path / "study")
    null = Value(score=None, reason="there is nothing to see")
    put(folder, "analogy", {"model": "a"}, {"coat": null})
    put(folder, "imagination", {"model": "a"}, {"out-of-distribution error": null, "skill": null})
    put(folder, "grouping", {"model": "a"}, {"fg-ari": null})
    put(folder, "neurons", {"model": "a"}, {"SNC": null, "CG accuracy": null})
    read = Reader(write_report(folder, tmp_path / "report.html").read_text())
    assert read.text.count("No verdict: there is nothing to see.") == 3
    assert "No verdict on single neurons: there is nothing to see." in read.text
    assert "Not examined" not in read.text


@pytest.mark.parametrize(
    ("study", "values", "needed"),
    [
        ("analogy", {"tre": 0.5}, "No verdict: it needs COAT, which was not asked for."),
        ("imagination", {"gap": 0.5}, "No verdict: it needs skill, which was not asked for."),
        ("grouping", {"ari": 0.5}, "No verdict: it needs FG-ARI, which was not asked for."),
        ("neurons", {"MIG": 0.5}, "No verdict on single neurons: it needs SNC, which was not asked for."),
    ],
)
def test_what_a_verdict_lacks_is_named(tmp_path, study, values, needed):
    folder = Folder(tmp_path / "study")
    put(folder, study, {"model": "a"}, values)
    assert page.verdicts(folder)["a"][study] == Verdict("none", needed)
    fail(folder, study, {"model": "a", "seed": 1})
    told = page.verdicts(folder)["a"][study].text
    assert told == needed.replace("asked for", "computed") + " One of its cells failed."


def test_accuracy_of_factors_alone_is_enough_for_a_verdict(tmp_path):
    folder = Folder(tmp_path / "study")
    put(folder, "imagination", {"model": "a"}, {"factor accuracy": value(0.95)})
    assert page.verdicts(folder)["a"]["imagination"].mark == "good"


def test_what_an_encoder_learned_from_is_said(tmp_path):
    folder = Folder(tmp_path / "study")
    seen = {"all": "all combinations", "other": "training combinations of alpha 0.2", "own": "training combinations"}
    for model, saw in {**seen, "stranger": None, "pixels": None}.items():
        labels = {"model": model, "alpha": 0.6, "drawn_by": "head", **({"encoder_saw": saw} if saw else {})}
        put(folder, "imagination", labels, {"out-of-distribution error": value(3.0), "skill": value(0.9, 0.01)})
    told = {name: found["imagination"].text for name, found in page.verdicts(folder).items()}
    assert "Only the head has not seen the new combinations" in told["all"]
    assert "The encoder learned at another alpha than that of the test (0.2)." in told["other"]
    assert all("ncoder" not in told[name] for name in ("own", "stranger", "pixels"))
    text = Reader(write_report(folder, tmp_path / "report.html").read_text()).text
    listed = "all combinations (all); training combinations of alpha 0.2 (other); training combinations (own)"
    assert f"{listed}; not known (stranger)." in text


def test_a_model_worse_than_the_source_is_not_partly_right(tmp_path):
    folder = Folder(tmp_path / "study")
    errors = {"out-of-distribution error": value(86.6), "error of an unchanged image": value(55.4)}
    put(folder, "imagination", {"model": "a"}, {**errors, "skill": value(0.64, 0.02)})
    verdict = page.verdicts(folder)["a"]["imagination"]
    assert verdict.mark == "chance"
    assert "worse than showing the source unchanged: error 86.6 against 55.4" in verdict.text


def test_what_was_done_to_slots_is_named_with_the_score(tmp_path):
    folder = Folder(tmp_path / "study")
    for variant, score in {"raw": 0.85, "no-duplicates": 0.92}.items():
        put(folder, "analogy", {"model": "a", "corpus": "occluded", "variant": variant}, {"coat": value(score, 0.01)})
    assert "COAT 0.92 without duplicate slots, 0.85 raw" in page.verdicts(folder)["a"]["analogy"].text


def test_the_slots_that_groups_were_judged_by_are_named(tmp_path):
    folder = Folder(tmp_path / "study")
    groupings(folder, {"slot-attention": 0.8, "noise": 0.5}, 32)
    told = page.verdicts(folder)
    assert "Test slots: 3, 5 and 7, as in training." in told["slot-attention"]["grouping"].text
    assert "slots" not in told["noise"]["grouping"].text


def test_columns_say_what_is_better_of_the_model_alone_and_which_accuracy_is_corrected(tmp_path):
    folder = Folder(tmp_path / "study")
    imaginations(folder, {"vae": 0.4}, 32)
    put(folder, "neurons", {"model": "vae", "pair": "size 0, shape 0"}, {"CG shape": value(0.5), "SNC": value(0.5)})
    put(folder, "neurons", {"model": "vae"}, {"CG accuracy": value(0.5), "SNC": value(0.5)})
    grids = [grid for section in page.sections_of(read_findings(folder)) for grid in section.grids]
    hints = {name: hint for grid in grids for name, hint in grid.hints.items()}
    assert hints["out-of-distribution error"] == "lower is better"
    for yardstick in ("error of an unchanged image", "factor accuracy of true images"):
        assert hints[yardstick] == "a yardstick, not the model's"
    notes = " ".join(grid.note for grid in grids)
    assert "CG accuracy is corrected for chance" in notes
    assert "CG shape: plain shares that are right" in notes


def test_samples_and_details_of_another_shape_are_left_out(tmp_path):
    folder = Folder(tmp_path / "study")
    wrong = {"images": np.zeros((2, 3, 8, 8), np.uint8), "true": np.zeros((2, 9, 9), np.uint8), "groups": np.zeros(3)}
    score = value(0.5, details={"by objects": "none", "information": [[1], [2, 3]], "alignment": ["x"], "tests": 3})
    put(folder, "grouping", {"model": "a"}, {"fg-ari": score}, wrong)
    put(folder, "neurons", {"model": "a"}, {"SNC": score})
    put(folder, "analogy", {"model": "a", "corpus": "occluded"}, {"coat": score}, {"a": np.zeros(3), "d": np.zeros(3)})
    assert not Reader(write_report(folder, tmp_path / "report.html").read_text()).of("img")


def test_seeds_are_taken_together(study):
    (group,) = [one for one in read_findings(study).of("neurons", "vae") if one.known("SNC")]
    found = group.known("SNC")
    assert found.n == 3
    assert found.value == pytest.approx(0.35 * 0.9 + 0.02)


def test_models_of_one_name_and_other_weights_are_told_apart(tmp_path):
    folder = Folder(tmp_path / "study")
    for weights in ("aa", "bb"):
        put(folder, "neurons", {"model": "mine"}, {"SNC": 0.5}, subject={"encoder": weights})
    assert len({one for one in read_findings(folder).subjects if re.fullmatch(r"mine \[[0-9a-f]{6}\]", one)}) == 2


def test_metrics_of_one_model_that_were_asked_for_one_after_another_are_together(tmp_path):
    folder = Folder(tmp_path / "study")
    put(folder, "neurons", {"model": "mine"}, {"SNC": 0.5, "NK": 0.1}, metrics={"SNC": 1, "NK": 1})
    put(folder, "neurons", {"model": "mine"}, {"SNC": 0.6}, metrics={"SNC": 2})
    (group,) = read_findings(folder).groups
    assert (group.known("SNC").value, group.known("NK").value) == (0.6, 0.1)


def test_of_the_same_model_computed_twice_the_later_result_counts(tmp_path):
    folder = Folder(tmp_path / "study")
    for version, score in ((1, 0.5), (2, 0.7)):
        put(folder, "neurons", {"model": "mine"}, {"SNC": score}, rows={"snc": version})
    findings = read_findings(folder)
    (group,) = findings.groups
    assert (group.known("SNC").value, findings.older, findings.subjects) == (0.7, 1, ("mine",))


def test_sizes_are_not_mixed(tmp_path):
    folder = Folder(tmp_path / "study")
    for size, score in (("tiny", 0.5), ("small", 0.7)):
        put(folder, "neurons", {"model": "mine", "size": size}, {"SNC": score})
    assert set(read_findings(folder).subjects) == {"mine (tiny)", "mine (small)"}


def test_an_empty_and_a_missing_folder(tmp_path):
    with pytest.raises(InputError, match="no results here"):
        write_report(tmp_path, tmp_path / "report.html")
    (tmp_path / "cells").mkdir()
    assert "There are no results" in write_report(tmp_path, tmp_path / "report.html").read_text()
    with pytest.raises(InputError, match="is a folder"):
        write_report(tmp_path, tmp_path / "cells")


def test_the_same_folder_gives_the_same_page(tmp_path):
    folder = Folder(tmp_path / "study")
    groupings(folder, {"slot-attention": 0.8}, 32)
    first, again = (write_report(folder, tmp_path / name).read_text() for name in ("a.html", "new/b.html"))
    assert first == again


# ---------------------------------------------------------------------------------------------------------- figures


def test_figures_are_written_for_documents(tmp_path):
    folder = Folder(tmp_path / "study")
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


def test_two_figures_of_one_name_do_not_replace_each_other(tmp_path):
    folder = Folder(tmp_path / "study")
    neurons(folder, {"日本": 0.5, "한국": 0.4})
    named = page.figures_of(page.sections_of(read_findings(folder)))
    assert sum(name.startswith("neurons-hinton") for name in named) == 2


def test_a_chart_is_text_that_can_be_read_and_names_nothing_twice():
    found = Estimate(0.5, low=0.4, high=0.6)
    with styled():
        figure = bars([Bar("$\\frac{<b>", kind, found, Estimate(0.4)) for kind in ("plain", "hatched")], "score")
    svg = as_inline_svg(figure, "first")
    assert "$\\frac{&lt;b&gt;" in svg
    assert "<style" not in svg
    root = ET.fromstring(svg)
    names = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(names) == len(set(names))
    assert all(name.startswith("first-") for name in names)
    used = set(re.findall(r"url\(#(.+?)\)", svg)) | set(re.findall(r'href="#(.+?)"', svg))
    assert used == set(names)
    assert used
    colors = set(re.findall(r'(?:fill|stroke)="(#.+?)"', svg))
    assert colors
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in colors)


# --------------------------------------------------------------------------------------------------------- commands


def test_commands_are_kept_once_and_in_their_order(tmp_path):
    folder = Folder(tmp_path / "study")
    assert noted_commands(folder) == {}
    for command in ("one", "two", "one"):
        note_command(folder, "analogy", command)
    note_command(folder, "neurons", "three")
    assert noted_commands(folder) == {"analogy": ("one", "two"), "neurons": ("three",)}
    assert json.loads((folder.path / NAME).read_text())[0] == {"study": "analogy", "command": "one"}


@pytest.mark.parametrize("content", ["", "{", "[1, null]", '{"study": 3}', '[{"study": "x"}]', "\x00"])
def test_damaged_commands_are_no_reason_to_fail(tmp_path, content):
    folder = Folder(tmp_path)
    (tmp_path / NAME).write_text(content)
    assert noted_commands(folder) == {}
    note_command(folder, "analogy", "one")
    assert noted_commands(folder) == {"analogy": ("one",)}


def test_the_command_that_is_named_fits_the_size_and_is_derived_where_none_was_kept(tmp_path):
    folder = Folder(tmp_path / "my study")
    analogies(folder, {"vae": 0.5}, 32, 1)
    findings = read_findings(folder)
    derived = f"alebrije study analogy --size tiny --out '{folder.path}'"
    assert findings.command("analogy") == derived == derived_command("analogy", "tiny", folder.path)
    for size in ("tiny", "small"):
        note_command(folder, "analogy", f"alebrije eval my:model --size {size} --out x")
    assert read_findings(folder).command("analogy", {"size": "tiny"}).endswith("--size tiny --out x")
