"""Make the pictures of the documentation: parts of reports, and all worlds. `make pictures` runs it; needs Chromium.

    python docs/pictures.py [worlds] [rules] [video] [report] [figures]

The report is `out/trained-demo/report.html`, which `alebrije demo --train --out out/trained-demo` writes.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont

DOCS = Path(__file__).parent
OUT = DOCS.parent / "out"
sys.path.insert(0, str(DOCS.parent))  # for the browser of the tests

NAMES = ("sprites", "clevr", "clevrtex", "clevr10", "coat", "dsprites", "rooms", "arm")
SEEDS = {"clevr": 3, "clevrtex": 11}
COLUMNS, SIDE, GAP, LABEL = 8, 128, 6, 92
PALETTE = ((33, 48, 62), (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (204, 121, 167))
PALETTE += ((213, 94, 0), (0, 114, 178), (170, 170, 170), (120, 220, 170), (250, 190, 190))

# Parts of the report: the file, and the elements it shows. `part(section, title)` finds a chart, a gallery or a table.
PARTS = {
    "report.png": "document.querySelectorAll('#summary, article.model:nth-of-type(-n+2)')",
    "pictures/report-marks.png": "[document.querySelector('#summary'), document.querySelector('#summary ~ * table')]",
    "pictures/report-scores.png": "[part('analogy', 'COAT, squared distance')]",
    "pictures/report-negatives.png": "[document.querySelector('#analogy-negatives')]",
    "pictures/report-analogy.png": "[part('analogy', 'beta-vae: occluded')]",
    "pictures/report-factors.png": "[part('imagination', 'Factors that are right: pixels')]",
    "pictures/report-imagination.png": "[part('imagination', 'pixels: sprites')]",
    "pictures/report-grouping.png": "[part('grouping', 'pixels: sprites')]",
    "pictures/report-neurons.png": "['oracle', 'pixels'].map((n) => part('neurons', `What the neurons know: ${n}`))",
}
WIDTH, MARGIN = 1180, 8
FIGURES = {
    "analogy": "analogy-coat",
    "grouping": "grouping-segments-pixels-sprites",
    "imagination": "imagination-predictions-pixels-sprites-s-a-alpha-0.6",
    "neurons": "neurons-hinton-pixels",
}
SCRIPT = """(async () => {
const part = (section, title) => { const found = [...document.querySelectorAll(
  `section[aria-labelledby="${section}"] :is(figure h4, details summary)`)]
  .find((element) => element.textContent.trim().startsWith(title)).closest("figure, details");
  found.open = true; return found; };
const parts = [...(%s)];
await Promise.all([...document.images].map((image) => image.decode()));
const boxes = parts.map((element) => element.getBoundingClientRect());
const [x, y] = [Math.min(...boxes.map((b) => b.left)), Math.min(...boxes.map((b) => b.top))];
return { x: x + scrollX, y: y + scrollY,
  width: Math.max(...boxes.map((b) => b.right)) - x, height: Math.max(...boxes.map((b) => b.bottom)) - y };
})()"""


def strip(name: str) -> Image.Image:
    """One world: its images above its masks."""
    from alebrije import worlds

    world = worlds.get(name)
    frames = world.render(world.sample(COLUMNS, seed=SEEDS.get(name, 0)), size=world.size)
    colours = torch.tensor(PALETTE, dtype=torch.uint8)[frames.masks.long()].permute(0, 3, 1, 2)
    line = Image.new("RGB", (LABEL + COLUMNS * (SIDE + GAP), SIDE + SIDE // 2 + 2 * GAP), "white")
    draw = ImageDraw.Draw(line)
    draw.text((4, SIDE // 2 - 8), name, fill=(33, 48, 62), font=ImageFont.load_default(16))
    for column in range(COLUMNS):
        left = LABEL + column * (SIDE + GAP)
        for images, top, height in ((frames.images, 0, SIDE), (colours, SIDE + GAP // 2, SIDE // 2)):
            picture = Image.fromarray(images[column].permute(1, 2, 0).contiguous().numpy())
            line.paste(picture.resize((height, height), Image.Resampling.NEAREST), (left, top))
    return line


def worlds_picture() -> None:
    """Eight scenes of every world with their masks."""
    strips = [strip(name) for name in NAMES]
    picture = Image.new("RGB", (strips[0].width, sum(line.height for line in strips)), "white")
    top = 0
    for line in strips:
        picture.paste(line, (0, top))
        top += line.height
    picture.save(DOCS / "worlds.jpg", quality=88, optimize=True)


def rules_picture() -> None:
    """The sixteen rules of SVIB's analysis as causal graphs, with text as text to keep the file small."""
    from alebrije.instruments.imagination.rule_graphs import rule_charts
    from alebrije.report.charts import as_inline_svg, laid_out
    from alebrije.scenes.rules import ANALYSIS_RULES

    (chart,) = rule_charts(rule for kind in ANALYSIS_RULES.values() for rule in kind)
    (DOCS / "pictures" / "rules.svg").write_text(as_inline_svg(laid_out(chart.figure())))


def video_picture() -> None:
    """Two videos with their objects and the groups of the reference `pixels`, playing."""
    from alebrije.instruments.grouping.images import Corpus
    from alebrije.instruments.grouping.pictures import marked_frames
    from alebrije.sheets.sheet import colored_mask, picture_of, save_animation
    from alebrije.studies.folder import ResultFolder
    from alebrije.studies.references import Pixels

    with tempfile.TemporaryDirectory() as folder:
        view = Corpus("moving", 2, 64).view(ResultFolder(folder))
    groups = Pixels().group(view)
    assert groups is not None
    assert view.masks is not None
    images = [[picture_of(image) for image in video] for video in view.images]
    marked = [marked_frames(images[row], view.masks[row], groups[row])[0] for row in (0, 1)]
    frames = []
    for time in range(0, view.images.shape[1], 2):
        frame = Image.new("RGB", (3 * (SIDE + GAP), 2 * (SIDE + GAP)), "white")
        for row in (0, 1):
            shown = (images[row][time], colored_mask(view.masks[row, time]), marked[row][time])
            for column, pixels in enumerate(shown):
                side = Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.NEAREST)
                frame.paste(side, (column * (SIDE + GAP), row * (SIDE + GAP)))
        frames.append(frame.quantize(64, dither=Image.Dither.NONE))
    with io.BytesIO() as file:
        save_animation(file, frames, 160.0)
        (DOCS / "pictures" / "grouping-video.png").write_bytes(file.getvalue())


def report_pictures() -> None:
    """Parts of the report of the demo, as palette images to keep them small."""
    from tests.report.devtools import Browser, find_browser

    path = find_browser()
    if path is None:
        sys.exit("there is no Chromium, so no pictures of the report")
    with tempfile.TemporaryDirectory() as profile, Browser(path, profile, WIDTH, 900) as browser:
        browser.call("Emulation.setScrollbarsHidden", hidden=True)  # they would vanish between measuring and capturing
        browser.open((OUT / "trained-demo" / "report.html").as_uri())
        for name, elements in PARTS.items():
            box = browser.run(SCRIPT % elements)
            clip = {"x": box["x"] - MARGIN, "y": box["y"] - MARGIN, "scale": 1}
            clip |= {side: box[side] + 2 * MARGIN for side in ("width", "height")}
            shot = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
            picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
            picture.quantize(128, dither=Image.Dither.NONE).save(DOCS / name, optimize=True)


def figure_pictures() -> None:
    """Figures of the demo at the top of the pages of the instruments."""
    from alebrije.evaluate import write_figures

    with tempfile.TemporaryDirectory() as folder:
        write_figures(OUT / "trained-demo", folder)
        for page, figure in FIGURES.items():
            shutil.copyfile(Path(folder) / f"{figure}.svg", DOCS / "pictures" / f"{page}.svg")


MAKERS = {
    "worlds": worlds_picture,
    "rules": rules_picture,
    "video": video_picture,
    "report": report_pictures,
    "figures": figure_pictures,
}

if __name__ == "__main__":
    for maker in sys.argv[1:] or MAKERS:
        MAKERS[maker]()
