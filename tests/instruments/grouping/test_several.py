"""Grouping on videos and on several views: references, models of the user, and what each kind of model is shown."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import alebrije
from alebrije import instruments, worlds
from alebrije.adapters import Encoder
from alebrije.errors import InputError
from alebrije.evaluate import tests_for as wanted_tests
from alebrije.instruments import NAMES
from alebrije.instruments.grouping import study
from alebrije.instruments.grouping.galleries import galleries
from alebrije.instruments.grouping.images import Corpus
from alebrije.instruments.grouping.section import section
from alebrije.instruments.grouping.study import ONE_VIEW, SIZES, jobs
from alebrije.report.findings import Findings, read_findings
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, View
from alebrije.studies.references import Noise, Pixels, colour_clusters
from alebrije.studies.request import Request

SCENES, FRAMES, SIDE = 3, 4, 24


@pytest.fixture(scope="module", autouse=True)
def few() -> Iterator[None]:
    """Few small videos and scenes."""
    tiny = SIZES["tiny"]
    videos = replace(tiny.videos, scenes=SCENES, frames=FRAMES, pixels=SIDE)
    views = replace(tiny.views, scenes=SCENES, pixels=SIDE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "SIZES", {**SIZES, "tiny": replace(tiny, videos=videos, views=views)})
        yield


class Clips(nn.Module):
    """Random slots in every frame of a video."""

    takes = "videos"

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.masks = nn.Conv2d(3, 5, 3, padding=1)

    def forward(self, videos: Tensor, boxes: Tensor) -> alebrije.Encoding:
        masks = self.masks(videos.flatten(0, 1)).mul(5).softmax(1).unflatten(0, videos.shape[:2])
        slots = torch.einsum("btkhw,btchw->btkc", masks, videos)
        return alebrije.Encoding(slots=slots, masks=masks, reconstruction=videos.mul(0.5))


class Sides(Clips):
    """Random slots for all views of a scene."""

    takes = "views"

    def forward(self, views: Tensor, cameras: Tensor) -> alebrije.Encoding:  # type: ignore[override]
        found = super().forward(views, cameras)
        return alebrije.Encoding(slots=found.codes.mean(1), masks=found.masks)


class Told(nn.Module):
    """Says which boxes it was given."""

    takes = "videos"

    def forward(self, videos: Tensor, boxes: Tensor) -> Tensor:
        return boxes[:, None].repeat(1, videos.shape[1], 1, 1)


class Pictures(nn.Module):
    """Two halves of an image."""

    def forward(self, images: Tensor) -> alebrije.Encoding:
        left = (torch.arange(images.shape[-1]) < images.shape[-1] // 2).float().expand_as(images[:, :1])
        return alebrije.Encoding(
            slots=images.mean((2, 3))[:, None].repeat(1, 2, 1), masks=torch.cat([left, 1 - left], 1)
        )


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("several")


@pytest.fixture(scope="module")
def videos(out: Path) -> alebrije.Report:
    return alebrije.evaluate(
        Clips(), "grouping", size="tiny", worlds="moving", beside=("oracle", "noise"), out=out, name="clips"
    )


def test_references_on_videos(videos: alebrije.Report) -> None:
    for name in ("fg-ari", "fg-ari-after-first", "fg-ari-each", "miou"):
        assert videos.score(name, model="oracle") == 1.0, name
        assert abs(videos.score(name, model="noise") or 0.0) < 0.12, name


@pytest.mark.yardsticks
def test_a_video_model_is_compared_with_pixels_and_its_twins(videos: alebrije.Report, out: Path) -> None:
    alebrije.evaluate(Clips(), "fg-ari", size="tiny", worlds="moving", out=out, name="compared")
    findings = read_findings(ResultFolder(out))
    assert {len(twin.results) for twin in findings.twins} == {3}
    assert {twin.get("world") for twin in findings.twins} == {"moving"}
    scores = [finding.known("fg-ari") for finding in findings.of("grouping", "pixels")]
    assert all(score is not None for score in scores)
    assert instruments.verdicts(findings)["compared"]["grouping"].mark != "none"


def test_the_values_of_videos(videos: alebrije.Report) -> None:
    value = videos.value("fg-ari")
    assert value.details["videos"] == SCENES
    counts = worlds.get("moving").sample(SCENES, seed=0).present.sum(1)
    assert set(value.details["by objects"]) == {str(count) for count in counts.tolist()}
    assert len(videos.value("fg-ari-each").details["by frame"]) == FRAMES
    psnr = videos.value("psnr").score
    view = Corpus("moving", SCENES, SIDE, FRAMES).view(videos.folder)
    errors = (view.images.double() / 255 / 2).square().flatten(1).mean(1)
    assert psnr == pytest.approx(float((-10 * errors.log10()).mean()), abs=1e-3), "one error for all frames"


def test_a_video_model_gets_the_boxes_of_the_first_frame(videos: alebrije.Report) -> None:
    world = worlds.get("moving")
    scenes = world.sample(SCENES, seed=0)
    frames = world.render(scenes, SIDE)
    assert frames.boxes is not None
    view = Corpus("moving", SCENES, SIDE, FRAMES).view(videos.folder)
    assert view.boxes is not None
    assert torch.equal(view.boxes, frames.boxes[:, 0])
    assert torch.equal(view.images, frames.images[:, :FRAMES]), "the first frames of the whole videos"
    told = LoadedModel(Encoder(Told())).encode(view).slots
    assert told is not None
    assert torch.equal(told[:, 1], view.boxes)


def test_colours_have_the_same_clusters_in_all_frames() -> None:
    images = torch.randint(0, 256, (2, 3, 3, 8, 8), dtype=torch.uint8)
    tall = images.transpose(1, 2).reshape(2, 3, 24, 8)
    found = Pixels(clusters=4).group(View(images))
    assert found is not None
    assert torch.equal(found.reshape(2, 24, 8), colour_clusters(tall, 4))
    noise = Noise().group(View(images))
    assert noise is not None
    assert noise.shape == (2, 3, 8, 8)


def test_a_model_of_views_is_scored_over_all_of_them(out: Path) -> None:
    report = alebrije.evaluate(Sides(), "grouping", size="tiny", beside="oracle", out=out, name="sides")
    assert {result.cell.labels["world"] for result in report.results} == {"furniture"}, "the world of its kind"
    assert report.score("fg-ari", model="oracle") == 1.0
    assert report.value("fg-ari").details["scenes"] == SCENES
    cameras = worlds.get("furniture").sample(SCENES, seed=0).cameras
    assert cameras is not None
    view = Corpus("furniture", SCENES, SIDE).view(report.folder)
    assert view.cameras is not None
    assert torch.equal(view.cameras, cameras.float())


@pytest.mark.yardsticks
def test_a_model_of_images_sees_one_view(out: Path) -> None:
    report = alebrije.evaluate(
        Pictures(), "fg-ari", size="tiny", worlds="furniture", beside="oracle", out=out, name="halves"
    )
    assert {result.cell.labels.get("corpus") for result in report.results} == {ONE_VIEW}
    assert report.value("fg-ari").details["images"] == SCENES
    whole = Corpus("furniture", SCENES, SIDE).view(report.folder)
    one = Corpus("furniture", SCENES, SIDE, one_view=True).view(report.folder)
    assert torch.equal(one.images, whole.images[:, 0])
    verdict = instruments.verdicts(read_findings(ResultFolder(out)))["halves"]["grouping"]
    assert "not computed" not in verdict.text, "pixels and twins saw the same images"


def test_models_are_shown_what_they_take(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="takes images, and moving in grouping has videos"):
        alebrije.evaluate(Pictures(), "grouping", size="tiny", worlds="moving", out=tmp_path)
    with pytest.raises(InputError, match="takes videos, and sprites in grouping has images"):
        alebrije.evaluate(Clips(), "grouping", size="tiny", worlds="sprites", out=tmp_path)
    with pytest.raises(InputError, match="takes videos, and furniture in grouping has views"):
        alebrije.evaluate(Clips(), "grouping", size="tiny", worlds="furniture", out=tmp_path)
    names = {job.cell.labels["world"] for job in jobs(ResultFolder(tmp_path), Request(size="tiny"))}
    assert names == {"sprites"}, "references alone are examined on images"


def test_videos_and_views_are_for_grouping_alone() -> None:
    assert wanted_tests(NAMES, ("moving", "furniture")) == ("grouping",)
    assert wanted_tests(NAMES, ("moving", "sprites")) == NAMES
    assert wanted_tests(("neurons",), ("moving",)) == ("neurons",)


@pytest.fixture(scope="module")
def findings(videos: alebrije.Report, out: Path) -> Findings:
    alebrije.evaluate(Sides(), "grouping", size="tiny", out=out, name="sides")
    return read_findings(ResultFolder(out))


def test_videos_play_in_the_report(findings: Findings) -> None:
    shown = {gallery.title: gallery for gallery in galleries(findings, findings.of("grouping"))}
    strip = shown["clips: moving"].strips[0]
    assert [picture.label for picture in strip.pictures] == ["video", "objects", "groups", "reconstruction"]
    for picture in strip.pictures:
        kind, content = picture._encoded
        assert kind == "png"
        with Image.open(io.BytesIO(content)) as image:
            assert getattr(image, "n_frames", 1) == FRAMES


def test_views_are_side_by_side(findings: Findings) -> None:
    shown = {gallery.title: gallery for gallery in galleries(findings, findings.of("grouping"))}
    strips = shown["sides: furniture"].strips[:3]
    assert [strip.title for strip in strips] == ["image", "objects", "groups"]
    assert [picture.label for picture in strips[0].pictures] == ["view 1", "view 2", "view 3"]
    assert "objects split" in strips[2].note


def test_the_section_has_charts_of_frames(findings: Findings) -> None:
    charts = {chart.title: chart for chart in section(findings).charts}
    assert {"Frames and views", "Over the frames"} <= set(charts)
    for chart in charts.values():
        chart.figure()
    (bands,) = charts["Over the frames"].draw.args[0].values()  # type: ignore[attr-defined]
    assert [len(band.points) for band in bands if band.name.startswith("clips")] == [FRAMES]
