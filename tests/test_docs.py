"""The documentation is true: its code runs, its links lead somewhere, and it names everything there is."""

import csv
import importlib
import inspect
import pkgutil
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cutlayer.attacks
import cutlayer.cuts
import cutlayer.defences
from cutlayer.attack import Attack
from cutlayer.cli import main
from cutlayer.cut import Cut
from cutlayer.defence import Defence
from cutlayer.spec import find

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RUN = ("README.md", "docs/tutorial-*.md", "docs/how-to-*.md")
EXECUTED = [page for pattern in RUN for page in sorted(ROOT.glob(pattern))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
sys.path.insert(0, str(ROOT / "docs"))
generate = importlib.import_module("generate")
SPECIFICATION = re.compile(r"^ *Specification: ((?:.+\n)+?)(?= *(?:\w[\w ]*:|\"|$))", re.MULTILINE)
ROOMS = "|".join(sorted(folder.name for folder in (ROOT / "cutlayer").iterdir() if (folder / "__init__.py").exists()))
NAMED_FILE = re.compile(
    rf"(?<![\w/.:-])((?:cutlayer|tests|docs|benchmarks|examples|{ROOMS})/[\w/-]+\.(?:py|md|proto|pyi))\b"
)
WIDEST = 160
COMMANDS = (("cutlayer",), ("python", "-m", "cutlayer"))  # others, such as make, are not run


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, code) of every fenced block."""
    return FENCE.findall(page.read_text())


def commands(code: str) -> list[list[str]]:
    """The arguments of every cutlayer command in a console block; one that ends in & goes to the background."""
    calls = []
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        for start in COMMANDS:
            if tuple(words[: len(start)]) == start:
                calls.append(words[len(start) :])
    return calls


def run_python(code: str, namespace: dict) -> None:
    """Run a block; one that starts with `# name.py` is that file, and its tests are called."""
    if title := re.match(r"# (\w+\.py)\n", code):
        Path(title[1]).write_text(code)
    before = set(namespace)
    exec(compile(code, title[1] if title else "block", "exec"), namespace)
    for key in sorted(set(namespace) - before):
        if key.startswith("test_"):
            namespace[key]()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with the table that the how-to page speaks of."""
    rng = random.Random(0)
    with (tmp_path / "customers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["customer", "age", "income", "visits", "basket", "default"])
        for number in range(400):
            age, income, visits, basket = rng.randint(18, 90), rng.gauss(40, 9), rng.randint(0, 30), rng.gauss(25, 8)
            default = "yes" if income + basket - visits + rng.gauss(0, 5) < 50 else "no"
            writer.writerow([f"c{number}", age, f"{income:.2f}", visits, f"{basket:.2f}", default])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        "cutlayer.experiment.conduct.room_for", lambda task: 1
    )  # starting workers takes longer than the work
    modules, threads = set(sys.modules), torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(threads)
    for module in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


@pytest.mark.parametrize("page", EXECUTED, ids=name)
def test_every_code_block_runs(page, folder):
    namespace: dict = {"__name__": "page"}
    background = []
    for language, code in blocks(page):
        if language == "python":
            run_python(code, namespace)
        elif language == "toml" and (title := re.match(r"# (\w+\.toml)\n", code)):
            Path(title[1]).write_text(code)
        elif language in ("console", "bash"):
            for arguments in commands(code):
                if arguments[-1] == "&":
                    background.append(subprocess.Popen([sys.executable, "-m", "cutlayer", *arguments[:-1]]))
                else:
                    assert main(arguments) == 0, f"cutlayer {shlex.join(arguments)}"
    assert [process.wait(60) for process in background] == [0] * len(background)
    if "tutorial" in page.name:  # figures of the text, as far as other machines have them
        numbers = [float(number) for number in re.findall(r"\b0\.\d{3}\b", page.read_text())]
        for table in ("plain.csv", "noise.csv"):
            for row in csv.DictReader(Path(table).read_text().splitlines()):
                assert min(abs(float(row["value"]) - number) for number in numbers) < 0.01, row["value"]


def test_only_cutlayer_commands_are_run():
    code = "$ make demo  # long\n$ cutlayer train \\\n    --data digits\ncutlayer list\n$ python -m cutlayer list\n"
    assert commands(code) == [["train", "--data", "digits"], ["list"], ["list"]]


def test_pages_with_code_are_found():
    assert [name(page) for page in EXECUTED if "tutorial" in name(page)] == ["docs/tutorial-first-run.md"]
    assert sum(len(blocks(page)) for page in EXECUTED) > 15


@pytest.mark.parametrize("page", generate.PAGES)
def test_reference_pages_are_what_docstrings_say(page):
    assert (ROOT / "docs" / page).read_text() == generate.renewed(page), (
        "renew it: make generated, or PYTHONPATH=. python docs/generate.py"
    )


def test_every_plug_in_has_its_labelled_paragraphs_and_explains_its_settings():
    both = ("Specification", "Paper")
    for package, base, labels in (
        (cutlayer.attacks, Attack, ("Sees", "Needs", *both)),
        (cutlayer.defences, Defence, ("Protects", "Guarantee", "Does not hide", *both)),
        (cutlayer.cuts, Cut, ("Protects", "Guarantee", "Does not hide", "Paper")),
    ):
        for plug_in, cls in find(package, base).items():
            labelled = generate.read_docstring(cls).labelled
            assert [label for label in labels if not labelled.get(label)] == [], plug_in
            settings = inspect.signature(cls).parameters
            missing = [setting for setting in settings if not re.search(rf"`{setting}[`=]|\b{setting}=", cls.__doc__)]
            assert missing == [], f"{plug_in}: the docstring does not say what these settings do"


def test_a_docstring_is_read_by_its_labels():
    class Sample:
        """Hide it.

        With `k` rows.

        Protects: labels; the label party
        applies it.
        Guarantee: none.
        """

    docstring = generate.read_docstring(Sample)
    assert docstring.paragraphs == ("Hide it.", "With `k` rows.")
    assert docstring.labelled == {"Protects": "labels; the label party applies it.", "Guarantee": "none."}


def test_wrapped_prose_never_turns_into_a_list():
    words = ["word"] * 23 + ["3", "-", "flip", "+", "more"]
    for start in range(20):
        lines = generate.wrap(" ".join(words[start:] * 9)).splitlines()
        assert max(map(len, lines)) <= generate.WIDTH
        assert [line for line in lines if line.startswith(("- ", "+ "))] == []


def test_every_cited_section_of_a_specification_is_there():
    specs = {page.stem: generate.headings(page) for page in (ROOT / "docs" / "specs").glob("*.md")}
    cited = 0
    for file in (ROOT / "cutlayer").rglob("*.py"):
        for text in re.findall(
            r"^ *Specification: ((?:.+\n)+?)(?= *(?:\w[\w ]*:|\"|$))", file.read_text(), re.MULTILINE
        ):
            citations = [match for match in generate.CITATION.finditer(text) if match[1] in specs or match[2]]
            assert citations or text.startswith("none"), f"{file}: {text}"
            for match in citations:
                assert match[1] in specs, f"{file} cites {match[1]}"
                absent = [n for n in generate.sections_cited(match[2]) if n not in specs[match[1]]]
                assert absent == [], f"{file} cites sections {absent} of {match[1]}"
                cited += 1
    assert cited > 50


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    inside = [link.split("#")[0] for link in links if not link.startswith(("http", "mailto:", "#"))]
    assert [link for link in inside if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_path_of_a_machine_is_shown(page):
    assert re.findall(r"(?<![\w.])/(?:home|root|work|tmp|Users|mnt|opt)/\S*|[A-Z]:\\\S*", page.read_text()) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name)
def test_no_line_is_too_long_to_read(page):
    assert [line[:80] for line in page.read_text().splitlines() if len(line) > WIDEST] == []


def test_the_readme_fits_two_screens():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 100 and max(map(len, lines)) <= 120


def test_files_that_are_named_are_there():
    """In the pages, and in docstrings and comments of the package, where a path may begin at its folder."""
    sources = [*(page for page in PAGES if page.name != "CHANGELOG.md"), *(ROOT / "cutlayer").rglob("*.py")]
    missing = [
        f"{name(source)} names {path}"
        for source in sources
        for path in NAMED_FILE.findall(source.read_text())
        if not (ROOT / path).exists() and not (ROOT / "cutlayer" / path).exists()
    ]
    assert missing == []


def test_names_of_the_package_lead_somewhere():
    named = {f"cutlayer{rest}" for page in PAGES for rest in re.findall(r"`cutlayer((?:\.\w+)+)", page.read_text())}
    assert len(named) > 5
    for dotted in sorted(named):
        pkgutil.resolve_name(dotted)


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    assert [p.name for p in (ROOT / "docs").glob("*-*.md") if f"({p.name})" not in index] == []


def test_the_example_runs_and_replaces_only_its_own_folder(tmp_path):
    def demo():
        command = [sys.executable, ROOT / "examples" / "digits.py", "--seeds", "1", "--out", tmp_path / "demo"]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    first = demo()
    assert first.returncode == 0, first.stderr
    assert "model-completion" in first.stdout and "baseline" in first.stdout
    files = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert files == ["findings.csv", "reconstructions.png", "report.html", "trade-off.png"]
    (tmp_path / "demo" / "mine.txt").write_text("precious")
    second = demo()
    assert second.returncode != 0 and "move it away" in second.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["demo"] and (tmp_path / "demo" / "mine.txt").exists()


def test_every_option_of_every_verb_is_documented():
    import typer

    from cutlayer.cli import app

    page = (ROOT / "docs/ref-command-line.md").read_text()
    for verb, command in typer.main.get_command(app).commands.items():
        assert f"`{verb}" in page or f"cutlayer {verb}" in page, verb
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or option == "--help" or option in page, f"{verb} {option}"
