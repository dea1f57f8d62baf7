"""The report in Debian's Chromium: what people see, click and type."""

import base64
import csv
import json
import os
import shutil
from collections import defaultdict

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from cutlayer.report.files import write_all
from cutlayer.setup import setup_of
from tests.helpers import synthetic_record as synthetic
from tests.helpers.hostile_record import evil_record


def program(name):
    """A program of Debian's; where it is missing these tests are skipped, unless the environment promises it."""
    path = shutil.which(name)
    if path is None:
        lacking = f"Expected {name} on the path; install it with: apt-get install chromium chromium-driver"
        if os.environ.get("CUTLAYER_BROWSER") == "required":
            pytest.fail(lacking, False)
        pytest.skip(lacking)
    return path


@pytest.fixture(scope="module")
def browser():
    options = Options()
    options.binary_location = program("chromium")
    for argument in ("--headless=new", "--window-size=1280,1000", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium refuses root otherwise
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(program("chromedriver")))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    write_all(synthetic.record(), folder)
    return folder


@pytest.fixture
def page(browser, study):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get((study / "report.html").as_uri())
    return browser


@pytest.fixture(scope="module")
def findings(study):
    """The values in findings.csv, by attack and setup."""
    groups = defaultdict(list)
    with (study / "findings.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["status"] == "done":
                name = setup_of(row).spelling
                groups[row["attack"], name].append(row)
    return groups


def cell(page, attack, setup):
    return page.find_element(By.CSS_SELECTOR, f'.cell[aria-label^="{attack}, "][aria-label*="against {setup}:"]')


def dialog(page):
    return page.find_element(By.ID, "detail")


def facts(page):
    """The first table of the open dialog."""
    lines = dialog(page).find_element(By.TAG_NAME, "table").find_elements(By.CSS_SELECTOR, "tbody tr")
    return {line.find_element(By.TAG_NAME, "th").text: line.find_element(By.TAG_NAME, "td") for line in lines}


def exact(element):
    return float(element.find_element(By.TAG_NAME, "data").get_attribute("value"))


def test_it_opens_without_an_error_and_asks_nobody(page):
    assert page.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert len(urls) >= 1 and all(url.startswith(("file:", "data:")) for url in urls)
    plots = page.find_elements(By.CLASS_NAME, "plot")
    assert len(plots) == 6 and all(plot.find_elements(By.CSS_SELECTOR, "svg.main-svg") for plot in plots)


@pytest.mark.parametrize(
    ("attack", "setup"),
    [("norm-score", "none"), ("model-inversion", "hash:bits=4"), ("pgd", "gaussian-noise:std=1")],
)
def test_a_cell_opens_the_numbers_of_findings_csv(page, findings, attack, setup):
    rows = findings[attack, setup]
    mean = sum(float(row["value"]) for row in rows) / len(rows)
    button = cell(page, attack, setup)
    assert exact(button) == pytest.approx(mean) and float(button.text.split()[0]) == pytest.approx(mean, rel=1e-3)
    button.click()
    shown = facts(page)
    assert exact(shown["figure"]) == pytest.approx(mean)
    assert float(shown["figure"].text) == pytest.approx(mean, rel=1e-3)
    assert exact(shown["baseline"]) == pytest.approx(float(rows[0]["baseline"]))
    assert shown["baseline is"].text == rows[0]["baseline_name"] and shown["setup"].text == setup
    assert shown["knowledge granted"].text == rows[0]["granted"]
    seeds = dialog(page).find_elements(By.TAG_NAME, "table")[1].find_elements(By.CSS_SELECTOR, "tbody tr")
    values = [exact(line.find_element(By.TAG_NAME, "td")) for line in seeds if "done" in line.text.split()]
    assert values == [float(row["value"]) for row in rows]
    assert page.get_log("browser") == []


def test_every_cell_shows_the_mean_of_findings_csv(page, findings):
    script = "return [...document.querySelectorAll('.cell data')].map(d => [Number(d.value), Number(d.textContent)])"
    shown = sorted(page.execute_script(script))
    wanted = sorted(sum(float(row["value"]) for row in rows) / len(rows) for rows in findings.values())
    assert [value for value, _ in shown] == pytest.approx(wanted)
    assert [text for _, text in shown] == pytest.approx(wanted, rel=1e-3)


def test_details_hold_columns_rates_and_pictures(page):
    for attack, wanted in (("binary-search", "contact"), ("norm-score", "at 1% false positives")):
        cell(page, attack, "none").click()
        assert wanted in dialog(page).text
        dialog(page).find_element(By.CLASS_NAME, "close").click()
        assert not dialog(page).is_displayed()
    cell(page, "model-inversion", "none").click()
    images = dialog(page).find_elements(By.TAG_NAME, "img")
    assert len(images) == 6 and all(page.execute_script("return arguments[0].naturalWidth", i) == 8 for i in images)


def test_a_cell_that_does_not_apply_says_why(page):
    button = cell(page, "binary-search", "hash:bits=4")
    assert button.text == "n/a"
    button.click()
    assert "does not apply: needs real-valued embeddings" in dialog(page).text


@pytest.mark.parametrize("threat", ["labels", "features", "outcome", "all"])
def test_the_filter_shows_one_threat(page, threat):
    page.find_element(By.CSS_SELECTOR, f'[data-show="{threat}"]').click()
    lines = page.find_elements(By.CSS_SELECTOR, ".matrix tbody tr")
    shown = [line for line in lines if line.is_displayed()]
    wanted = [name for name, attack in synthetic.ATTACKS.items() if threat in ("all", attack[0])]
    names = [line.find_element(By.TAG_NAME, "th").text.splitlines()[0] for line in shown]
    assert sorted(names) == sorted(wanted)
    assert page.find_element(By.ID, "shown").text == f"{len(wanted)} of {len(lines)} attacks shown"
    plots = [
        p.get_attribute("id") for p in page.find_elements(By.CSS_SELECTOR, '[id^="plot-trade"]') if p.is_displayed()
    ]
    assert plots == [f"plot-trade-off-{t}" for t in ("labels", "features", "outcome") if threat in ("all", t)]
    pressed = page.find_elements(By.CSS_SELECTOR, '.filter [aria-pressed="true"]')
    assert [button.get_attribute("data-show") for button in pressed] == [threat]
    assert page.get_log("browser") == []


def test_the_keyboard_is_enough(page):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert page.switch_to.active_element.text == "Skip to the report"
    page.switch_to.active_element.send_keys(Keys.ENTER)
    for _ in range(60):
        page.switch_to.active_element.send_keys(Keys.TAB)
        if page.switch_to.active_element.get_attribute("data-show") == "labels":
            break
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.find_element(By.ID, "shown").text == "2 of 5 attacks shown"
    for _ in range(60):
        page.switch_to.active_element.send_keys(Keys.TAB)
        if page.switch_to.active_element.get_attribute("data-detail"):
            break
    first = page.switch_to.active_element
    assert first.get_attribute("aria-label").startswith("model-completion:labels=40, ")
    assert page.execute_script("return getComputedStyle(arguments[0]).outlineStyle", first) == "solid"
    first.send_keys(Keys.ENTER)
    assert dialog(page).is_displayed() and page.switch_to.active_element.text == "Close"
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not dialog(page).is_displayed() and page.switch_to.active_element == first
    first.send_keys(Keys.ARROW_RIGHT)
    page.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    label = page.switch_to.active_element.get_attribute("aria-label")
    assert label.startswith("norm-score, ") and "against gaussian-noise:std=0.1" in label


def test_a_plot_shows_another_attack(page):
    title = "return document.querySelector('#plot-trade-off-labels .xtitle').textContent"
    assert "way from baseline" in page.execute_script(title)
    select = page.find_element(By.CSS_SELECTOR, 'select[data-figure="trade-off-labels"]')
    select.find_elements(By.TAG_NAME, "option")[1].click()
    assert "accuracy of the attack" in page.execute_script(title)


def test_it_prints(page):
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    opened = page.find_elements(By.CSS_SELECTOR, "details.data[open]")
    assert len(opened) == len(page.find_elements(By.CSS_SELECTOR, "body section details.data")) > 0
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert not page.find_elements(By.CSS_SELECTOR, "details.data[open]")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not page.find_element(By.TAG_NAME, "nav").is_displayed()
    assert not page.find_element(By.CLASS_NAME, "filter").is_displayed()
    assert page.find_element(By.CLASS_NAME, "matrix").is_displayed()
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    pdf = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF") and len(pdf) > 50_000
    assert page.get_log("browser") == []


def test_light_and_dark(page):
    seen = {}
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        page.refresh()
        script = (
            "const css = e => getComputedStyle(document.querySelector(e));"
            "return [css('body').backgroundColor, css('body').color, css('.xtitle').fill]"
        )
        seen[scheme] = page.execute_script(script)
    assert seen["light"][0] == "rgb(255, 255, 255)" and seen["dark"][0] == "rgb(21, 23, 26)"
    assert all(ink == axis for _, ink, axis in seen.values()) and seen["light"][1] != seen["dark"][1]


def test_hostile_names_run_nothing(browser, tmp_path):
    write_all(evil_record(), tmp_path)
    browser.get_log("browser")
    browser.get((tmp_path / "report.html").as_uri())
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    browser.find_element(By.CLASS_NAME, "cell").click()
    assert browser.execute_script("return document.querySelectorAll('dialog img').length") == 0
    assert "onerror=alert(1)" in dialog(browser).text
