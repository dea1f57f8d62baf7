"""cutlayer list: everything there is, found."""

import subprocess
import sys

from cutlayer.cli import main
from tests.helpers.command_line import run_json


def test_list(capsys):
    everything = run_json(capsys, "list")
    assert {"attacks", "defences", "cuts", "datasets", "models", "papers"} == set(everything)
    assert {"digits", "mnist"} <= {d["name"] for d in everything["datasets"]}
    assert all(a["about"] and a["by"] and a["target"] and a["needs"] for a in everything["attacks"])
    assert main(["list", "attacks"]) == 0 and "norm-score" in capsys.readouterr().out


def test_one_kind_is_listed_alone_and_unknown_ones_are_refused(capsys):
    assert list(run_json(capsys, "list", "cuts")) == ["cuts"]
    assert main(["list", "sharks"]) == 2
    assert "Unknown list 'sharks'" in capsys.readouterr().err


def test_listing_papers_does_not_wait_for_torch():
    code = "import sys; from cutlayer.cli import main; main(['list', 'papers']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
