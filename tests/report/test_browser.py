"""The report in a real browser: tables sort, pictures load, the console is silent, nothing is fetched."""

from __future__ import annotations

import pytest

from alebrije.evaluate import write_report
from tests.report.devtools import NAMES, Browser, find_browser
from tests.report.fake_studies import HOSTILE, everything, fail, hostile


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = find_browser()
    if path is None:
        pytest.skip(f"there is no browser: none of {', '.join(NAMES)} is installed (Debian: apt-get install chromium)")
    with Browser(path, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def whole_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    folder = everything(path / "study", side=32)
    fail(folder, "neurons", {"model": "vae", "world": "rooms"})
    return write_report(folder, path / "report.html").as_uri()


@pytest.fixture
def page(browser, whole_page):
    browser.open(whole_page)
    return browser


COLUMN = """(() => {{ const table = document.getElementById({table!r}); const heads = [...table.tHead.rows[0].cells];
const at = heads.findIndex((head) => head.querySelector("button").textContent === {column!r});
const rows = [...table.tBodies[0].rows].map((row) => row.cells[at].dataset.by);
return [at, heads[at].getAttribute("aria-sort"), rows]; }})()"""
CLICK = """document.querySelectorAll("#{table} th button")[{at}].click()"""


def column(browser, table, name):
    return browser.run(COLUMN.format(table=table, column=name))


def test_tables_sort_by_numbers_and_back(page):
    at, sort, before = column(page, "analogy-scores-1", "coat")
    assert sort is None
    numbers = [float(value) for value in before]
    assert numbers != sorted(numbers)
    page.run(CLICK.format(table="analogy-scores-1", at=at))
    _, sort, after = column(page, "analogy-scores-1", "coat")
    assert (sort, [float(value) for value in after]) == ("ascending", sorted(numbers))
    page.run(CLICK.format(table="analogy-scores-1", at=at))
    _, sort, after = column(page, "analogy-scores-1", "coat")
    assert (sort, [float(value) for value in after]) == ("descending", sorted(numbers, reverse=True))


def test_text_sorts_alphabetically_and_one_column_is_marked(page):
    page.run(CLICK.format(table="analogy-scores-1", at=1))
    page.run(CLICK.format(table="analogy-scores-1", at=0))
    _, sort, models = column(page, "analogy-scores-1", "model")
    assert (sort, models) == ("ascending", sorted(models))
    assert page.run("document.querySelectorAll('#analogy-scores-1 th[aria-sort]').length") == 1


def test_empty_cells_come_last_in_both_directions(page):
    at, _, before = column(page, "grouping-scores-1", "fg-ari")
    assert None in before
    for _ in range(2):
        page.run(CLICK.format(table="grouping-scores-1", at=at))
        after = column(page, "grouping-scores-1", "fg-ari")[2]
        gaps = before.count(None)
        assert after[-gaps:] == [None] * gaps


def test_tables_sort_from_the_keyboard(page):
    page.run("document.querySelector('#analogy-scores-1 th button').focus()")
    page.key("Enter", 13)
    assert column(page, "analogy-scores-1", "model")[1] == "ascending"


def test_all_pictures_load(page):
    widths = page.run("Promise.all([...document.images].map((one) => one.decode().then(() => one.naturalWidth)))")
    assert len(widths) > 100
    assert min(widths) > 0
    assert page.run("document.querySelectorAll('figure.chart svg text').length") > 50
    assert page.run("[...document.querySelectorAll('figure.chart svg')].every((one) => one.clientWidth > 100)")


def test_the_console_is_silent_and_nothing_is_fetched(page):
    page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.run("document.querySelectorAll('th button').forEach((one) => one.click())")
    assert page.complaints() == []
    addresses = page.requests()
    assert addresses
    assert [one[:40] for one in addresses if not one.startswith("data:")] == [addresses[0][:40]]  # the page itself
    assert addresses[0].startswith("file:")


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_no_wider_than_the_screen(page, width):
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
    try:
        assert page.run("document.documentElement.scrollWidth") <= width
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")


def test_names_are_shown_as_text_and_their_scripts_do_not_run(browser, tmp_path):
    browser.open(write_report(hostile(tmp_path / "study"), tmp_path / "report.html").as_uri())
    assert browser.complaints() == []
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.querySelector('.model h3').textContent") == HOSTILE
    assert browser.run("document.querySelectorAll('main b script, main svg script').length") == 0
    browser.call("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.call("Emulation.clearDeviceMetricsOverride")


def test_an_injected_script_does_not_run(browser, tmp_path):
    page = write_report(hostile(tmp_path / "study"), tmp_path / "report.html")
    page.write_text(page.read_text().replace("<main>", "<main><script>document.title = 'taken over'</script>"))
    browser.open(page.as_uri())
    assert browser.run("document.title") != "taken over"
    assert any("Content Security Policy" in str(event) for event in browser.complaints())
