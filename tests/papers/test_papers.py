"""Every paper that lies in the folder: it says what it is, and its tables name things that exist."""

import subprocess
import sys

import pytest

import cutlayer as cl
from cutlayer.cli import main
from cutlayer.papers import Paper, names, papers
from cutlayer.papers.job import check_name
from cutlayer.papers.reading import STRONGEST, Quantity
from cutlayer.papers.reproduce import tables_of
from cutlayer.settings import read_attacks
from cutlayer.spec import imported

PRINTED = {  # numbers that the papers print
    "hashvfl": {97.75, 98.99, 85.24, 1.31},
    "binary": {1, 4, 5, 15},
    "sfa": {83.63, 79.76, 83.86},
    "vflrecon": {86.22, 92.0, 90.0, 85.0},
    "fedadob": {0.033, 0.087, 0.506},
    "fedadob-horizontal": {0.111, 0.052, 0.071},
}
OF_OUTCOME = (Quantity.ACCURACY, Quantity.AUC, Quantity.CHECK)


def test_papers_are_found_and_say_what_they_are(capsys):
    assert [paper.name for paper in papers()] == names() and set(PRINTED) <= set(names())
    for paper in papers():
        assert isinstance(paper, Paper) and paper.title and paper.mechanisms, paper
    assert main(["list", "papers"]) == 0
    listed = capsys.readouterr().out
    assert [name for name in names() if name not in listed] == []


def test_help_names_every_paper_and_needs_no_torch():
    code = "import sys; from cutlayer.cli import main; main(['reproduce', '--help']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [name for name in names() if name not in " ".join(done.stdout.split())] == []


@pytest.mark.parametrize("quick", [True, False])
def test_every_entry_names_things_that_exist(quick):
    for paper in names():
        tables = tables_of(paper, quick)
        entries = [entry for table in tables.values() for entry in table]
        assert entries and all(entry.table == name for name, table in tables.items() for entry in table), paper
        for words in {
            (e.job.bottom, e.job.top, e.job.cut, e.job.defence, e.job.milestones): e for e in entries
        }.values():
            words.job.unit().training.plan()  # reads every word of the training
        for attack in {attack for entry in entries for attack in entry.job.attacks}:
            read_attacks([attack])
        for check in {check for entry in entries for check in entry.job.checks}:
            assert callable(imported(check_name(check), "check")), check
        for entry in entries:
            assert entry.job.data.split(":")[0] in cl.data.names()
            kind, _, name = entry.read.partition(":")
            attacks = {attack for job in entry.sweep or (entry.job,) for attack in job.attacks}
            assert Quantity(kind) in OF_OUTCOME or name == STRONGEST or name in attacks, entry
            assert Quantity(kind) is not Quantity.CHECK or entry.job.checks, entry
        if not quick:
            assert PRINTED.get(paper, set()) <= {entry.paper for entry in entries}, paper
