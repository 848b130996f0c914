"""The toys page: metrics detect the faults they should, and the page is self-contained."""

import base64
import html
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from alebrije import metrics, worlds
from alebrije.cli import main
from alebrije.demo import gallery, toys, toys_page
from alebrije.demo.toys_page import WorldGallery, table_rows, write_toys_page
from alebrije.results import MetricResult


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    write_toys_page(folder, rows=480, track=lambda names: names)
    return folder


@pytest.fixture(scope="module")
def tables(folder):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    content = json.loads((folder / "scores.json").read_text(), parse_constant=refuse)
    return {
        column: {r["metric"]: MetricResult.model_validate(r) for r in results}
        for column, results in content["scores"].items()
    }


def detected(tables, names):
    return {row.name: set(row.detects) for row in table_rows({name: tables[name] for name in names})}


def test_each_metric_detects_the_faults_it_claims_to_measure(tables):
    found = detected(tables, toys.REPRESENTATIONS)
    everything = {"rotated", "XOR-entangled", "collapsed"}
    assert {name for name, faults in found.items() if faults == everything} >= {"snc", "nk", "mig", "sap", "dci", "med"}
    for name in ("coat", "coat-l2", "coat-acos", "explicitness"):  # what a rotation leaves in place
        assert found[name] == {"XOR-entangled", "collapsed"}


def test_precision_detects_merging_and_recall_splitting(tables):
    found = detected(tables, ("perfect", "merged", "split", "random"))
    assert found["fg-ari"] == {"merged", "split", "random"}
    assert found["fg-arp"] == {"merged", "random"}
    assert found["fg-arr"] == {"split", "random"}


def test_every_metric_that_fits_is_there(tables, folder):
    page = (folder / "index.html").read_text()
    for record in metrics.catalog().values():
        if record.instrument == "grouping":
            assert record.name in tables["perfect"]
        elif record.instrument in ("neurons", "analogy"):
            assert record.name in tables["disentangled"]
        else:
            continue
        assert f'<th scope="row">{record.name}<' in page


def test_the_page_loads_nothing_external(folder):
    page = (folder / "index.html").read_text()
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", page.replace("xlink:href", "href"))
    assert not re.search(r"url\((?!#)", page)
    assert page.count("<svg") == 6


def test_the_same_seed_gives_the_same_page(folder, tables, tmp_path, monkeypatch):
    """Render everything again, and recompute every metric of one representation and one segmentation."""
    known, score, anew = iter(tables.items()), toys_page._score, []

    def scored(arrays):
        name, results = next(known)
        if name not in ("rotated", "merged"):
            return results
        anew.append(name)
        return score(arrays)

    monkeypatch.setattr(toys_page, "_score", scored)
    again = write_toys_page(tmp_path, rows=480, track=lambda names: names)
    assert anew == ["rotated", "merged"]
    assert again.read_text() == (folder / "index.html").read_text()


def test_names_are_escaped(tables):
    from alebrije.demo.toys_page import _render
    from alebrije.sheets.sheet import Card, Picture

    text = "<script>alert(2)</script>"
    drawn = WorldGallery((Card(text, ((Picture(text, np.zeros((2, 2, 3), np.uint8), text, text),),)),))
    evil = {"<script>alert(1)</script>": tables["disentangled"], **{n: tables[n] for n in toys.REPRESENTATIONS}}
    maps = toys.segmentations(2, seed=0)
    page = _render(evil, {name: tables[name] for name in maps.predictions}, maps, 1, drawn)
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;script&gt;alert(2)" in page


def pictures(page):
    """Every picture of the page, decoded, by what it shows."""
    found = re.findall(r'<img alt="([^"]*)" src="data:image/png;base64,([^"]+)">', page)
    return [(html.unescape(alt), np.asarray(Image.open(io.BytesIO(base64.b64decode(uri))))) for alt, uri in found]


def test_every_world_is_shown_with_its_masks(folder):
    page = (folder / "index.html").read_text()
    drawn = pictures(page)
    assert (
        len(drawn) == page.count("<img ") == 2 * gallery.SCENES * len(gallery.WORLDS) + 4 * len(gallery.EPISODES) + 11
    )
    assert all(picture.shape == (gallery.SIZE, gallery.SIZE, 3) for _, picture in drawn)
    assert all(f"<h3>{name}: " in page for name in gallery.WORLDS)
    assert {"sprites", "clevr", "clevrtex", "dsprites", "rooms", "clevr6", "coat"} <= gallery.WORLDS.keys()
    world = worlds.get("clevr6")
    frames = world.render(world.sample(gallery.SCENES), size=gallery.SIZE)
    for image in frames.images.permute(0, 2, 3, 1).numpy():
        assert any(np.array_equal(image, picture) for _, picture in drawn)


def test_one_analogy_with_all_its_negatives(folder):
    shown = [alt for alt, _ in pictures((folder / "index.html").read_text())][-11:]
    assert shown[:4] == ["scene A", "scene B", "scene C", "scene D"]
    assert {alt.split(":")[0].removeprefix("hard negative ") for alt in shown[4:]} == {
        "drop", "object", "color", "material", "shape", "size", "pixel"
    }  # fmt: skip


def test_the_progress_names_every_step(tmp_path, monkeypatch):
    monkeypatch.setattr("alebrije.demo.toys_page._score", lambda _: {})
    monkeypatch.setattr("alebrije.demo.toys_page._render", lambda *_: "")
    named = []
    write_toys_page(tmp_path, rows=16, track=lambda names: named.extend(names) or names)
    assert named == [
        *toys.REPRESENTATIONS,
        "perfect",
        "merged",
        "split",
        "random",
        *gallery.WORLDS,
        "episodes",
        "analogy",
    ]


def test_segmentations_are_what_their_names_say():
    maps = toys.segmentations(16, seed=1)
    assert all(len(np.unique(image)) == 5 for image in maps.true)
    ones = np.ones(16)
    perfect, merged, split = (maps.predictions[name] for name in ("perfect", "merged", "split"))
    np.testing.assert_array_equal(metrics.adjusted_rand_index(maps.true, perfect), ones)
    np.testing.assert_array_equal(metrics.adjusted_rand_recall(maps.true, merged), ones)
    np.testing.assert_array_equal(metrics.adjusted_rand_precision(maps.true, split), ones)


def test_figure_9_as_curves():
    """Merging costs precision alone, cutting recall alone; ARI falls on both sides of the truth."""
    curve = toys.slot_number_curve()
    assert list(curve) == list(range(1, 41))
    assert all(len(np.unique(pred)) == classes for classes, (_, pred) in curve.items())
    ari, arp, arr = (
        np.array([float(measure(*maps)[0]) for maps in curve.values()])
        for measure in (metrics.adjusted_rand_index, metrics.adjusted_rand_precision, metrics.adjusted_rand_recall)
    )
    fewer, right, more = slice(0, 15), 15, slice(16, None)
    assert ari[right] == arp[right] == arr[right] == 1.0
    assert (arr[fewer] == 1.0).all()
    assert (np.diff(arp[: right + 1]) > 0).all()
    assert (arp[more] == 1.0).all()
    assert (np.diff(arr[right:]) < 0).all()
    assert (np.diff(ari[: right + 1]) > 0).all()
    assert (np.diff(ari[right:]) < 0).all()
    assert arp[0] == 0.0


def test_a_folder_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "x").write_text("mine")
    for out in (tmp_path / "x", tmp_path / "x" / "y"):
        with pytest.raises(SystemExit) as end:
            main(["toys", "--out", str(out)])
        assert end.value.code == 2
        (sentence,) = capsys.readouterr().err.splitlines()
        assert sentence.startswith(f"alebrije: {out}: cannot be written: ")
