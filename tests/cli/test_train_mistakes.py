"""Every mistake that people make with `cutlayer train`: one sentence, exit 2, nothing written."""

import pytest

from cutlayer.cli import main
from tests.helpers.command_line import FAST

MISTAKES = {
    "unknown dataset": (["--data", "digitz"], "Unknown dataset 'digitz'"),
    "unknown dataset option": (["--data", "digits:colour=red"], "Unknown setting 'colour' of dataset digits"),
    "unknown defence": (["--data", "wine", "--defence", "magic"], "Unknown defence 'magic'"),
    "unknown defence setting": (["--data", "wine", "--defence", "max-norm:a=1"], "Unknown setting 'a'"),
    "bad defence value": (["--data", "wine", "--defence", "gaussian-noise:std=-1"], "std=-1"),
    "unknown option": (["--data", "wine", "--speed", "9"], "No such option"),
    "bad number": (["--data", "wine", "--epochs", "many"], "'--epochs'"),
    "no epochs": (["--data", "wine", "--epochs", "0"], "epochs=0"),
    "bad learning rate": (["--data", "wine", "--lr", "nan"], "lr=nan"),
    "unknown optimiser": (["--data", "wine", "--optimiser", "adma"], "Unknown optimiser 'adma'"),
    "unknown cut": (["--data", "wine", "--cut", "glue"], "Unknown cut 'glue'"),
    "unknown schedule": (["--data", "wine", "--schedule", "stepz"], "Unknown schedule 'stepz'"),
    "unknown bottom": (["--data", "wine", "--bottom", "resnet"], "Unknown bottom 'resnet'"),
    "bottom for images": (["--data", "wine", "--bottom", "lenet"], "Expected images"),
    "unknown top": (["--data", "wine", "--top", "hat"], "Unknown top 'hat'"),
    "unknown keep": (["--data", "wine", "--keep", "some"], "Unknown keep policy 'some'"),
    "no data": ([], "either --data NAME or --table FILE"),
    "both": (["--data", "wine", "--table", "x.csv"], "either --data NAME or --table FILE"),
    "no label": (["--table", "{table}"], "Expected --label"),
    "party for data": (["--data", "wine", "--party", "a=b"], "describe a --table"),
    "unknown coding": (["--table", "{table}", "--label", "y", "--coding", "hot"], "Unknown coding 'hot'"),
    "missing file": (["--table", "nowhere.csv", "--label", "y", "--party", "a=a", "--party", "b=b"], "nowhere.csv"),
    "label absent": (["--table", "{table}", "--label", "z", "--party", "a=a", "--party", "b=b"], "'z'"),
    "party column absent": (["--table", "{table}", "--label", "y", "--party", "a=a", "--party", "b=q"], "'q'"),
    "column twice": (["--table", "{table}", "--label", "y", "--party", "a=a,a", "--party", "b=b"], "'a'"),
    "column in two parties": (["--table", "{table}", "--label", "y", "--party", "a=a", "--party", "b=a,b"], "'a'"),
    "label in a party": (["--table", "{table}", "--label", "y", "--party", "a=a,y", "--party", "b=b"], "'y'"),
    "party twice": (["--table", "{table}", "--label", "y", "--party", "a=a", "--party", "a=b"], "given twice"),
    "party without columns": (["--table", "{table}", "--label", "y", "--party", "a="], "NAME=COLUMN"),
    "one party only": (["--table", "{table}", "--label", "y", "--party", "a=a"], "second party"),
    "odd party name": (["--table", "{table}", "--label", "y", "--party", "../a=a", "--party", "b=b"], "letters"),
    "fewer rows than a batch": (["--data", "wine", "--batch-size", "5000"], "at least one batch of 5000"),
    "no such device": (["--data", "wine", "--device", "tpu"], "device 'tpu'"),
    "patience without validation": (["--data", "wine", "--patience", "3"], "--valid"),
    "bad share": (["--data", "wine", "--valid", "1.5"], "1.5"),
    "negative seed?": (["--data", "wine", "--threads", "0"], "threads=0"),
    "resume without a folder": (["--data", "wine", *FAST, "--resume"], "Expected --out FOLDER"),
    "goal for data": (["--data", "wine", "--goal", "regression"], "describe a --table"),
    "column absent": (["--table", "{table}", "--label", "y", "--without", "idd"], "Did you mean 'id'?"),
    "resume nothing": (["--data", "wine", *FAST, "--out", "{out}", "--resume"], "Expected a checkpoint"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_sentence_and_exit_2(name, capsys, tmp_path, table):
    arguments, message = MISTAKES[name]
    out = tmp_path / "out"
    words = [word.format(table=table, out=out) for word in arguments]
    code = main(["train", *words, *([] if {"--out", "--resume"} & {*words} else ["--out", str(out)])])
    stdout, err = capsys.readouterr()
    assert code == 2 and stdout == "" and not out.exists()
    assert message in err and err.startswith("cutlayer: ") and err.count("\n") == 1 and "Traceback" not in err


TABLES = {
    "empty": ("", "empty"),
    "header only": ("a,b,y\n", "row"),
    "ragged": ("a,b,y\n1,2,0\n1,2\n" + "3,4,1\n" * 20, "line 3"),
    "duplicated header": ("a,a,y\n" + "1,2,0\n3,4,1\n" * 20, "'a'"),
    "one class": ("a,b,y\n" + "1,2,0\n3,4,0\n" * 20, "at least two different labels"),
    "infinite": ("a,b,y\n" + "1,2,0\n3,4,1\n" * 20 + "inf,2,1\n", "'a'"),
    "label missing in a row": ("a,b,y\n" + "1,2,0\n3,4,1\n" * 20 + "1,2,\n", "'y'"),
}


@pytest.mark.parametrize("name", TABLES)
def test_bad_tables(name, capsys, tmp_path):
    content, message = TABLES[name]
    path, out = tmp_path / "bad.csv", tmp_path / "out"
    path.write_text(content)
    options = ["--label", "y", "--party", "p=a", "--party", "q=b", "--out", str(out), *FAST]
    code = main(["train", "--table", str(path), *options])
    stdout, err = capsys.readouterr()
    assert code == 2 and stdout == "" and not out.exists()
    assert message in err and err.count("\n") == 1
