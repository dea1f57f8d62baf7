"""Small files in the form of public datasets: tables, mosaics of pictures, archives."""

import gzip
import lzma

BANK_HEADER = (
    '"age";"job";"marital";"education";"default";"housing";"loan";"contact";"month";"day_of_week";"duration";'
    '"campaign";"pdays";"previous";"poutcome";"emp.var.rate";"cons.price.idx";"cons.conf.idx";"euribor3m";'
    '"nr.employed";"y"\n'
)


def bank_file(rows=20):
    jobs, contacts = ("admin.", "services", "retired"), ("cellular", "telephone")
    lines = [
        f'{20 + i};"{jobs[i % 3]}";"single";"basic.4y";"no";"no";"unknown";"{contacts[i % 2]}";"may";"mon";'
        f'{i};1;999;0;"nonexistent";1.1;93.994;-36.4;4.857;5191;"{("no", "yes")[i % 2]}"\n'
        for i in range(rows)
    ]
    return gzip.compress((BANK_HEADER + "".join(lines)).encode())


def credit_file():
    pay = ",".join(f'"PAY_{n}"' for n in (0, 2, 3, 4, 5, 6))
    amounts = ",".join([f'"BILL_AMT{n}"' for n in range(1, 7)] + [f'"PAY_AMT{n}"' for n in range(1, 7)])
    header = f'"ID","LIMIT_BAL","SEX","EDUCATION","MARRIAGE","AGE",{pay},{amounts},"default.payment.next.month"\n'
    rows = [f"{i},{1000 * i},{1 + i % 2},{i % 4},{i % 3},{20 + i}" + ",0" * 18 + f",{i % 2}\n" for i in range(20)]
    return gzip.compress((header + "".join(rows)).encode())


def categories_file(width, classes, first):
    """Rows of letters; column k cycles through k+2 of them."""
    rows = []
    for i in range(24):
        cells = ["abcdefghijklmnopqrstuvwxyz"[i % (2 + column)] for column in range(width)]
        label = classes[i % len(classes)]
        rows.append(",".join([label, *cells] if first else [*cells, label]))
    return gzip.compress(("\n".join(rows) + "\n\n").encode())


def covertype_file(rows=30):
    lines = []
    for i in range(rows):
        wild = [int(i % 4 == n) for n in range(4)]
        lines.append(",".join(map(str, [2000 + i, *range(9), *wild, *[0] * 40, 1 + i % 7])))
    return ("\n".join(lines) + "\n").encode()


FILES = {
    "bank": ("bank_marketing/bank-additional-full.csv.gz", bank_file(), "20 rows and 20 columns"),
    "credit": ("default_credit/UCI_Credit_Card.csv.gz", credit_file(), "20 rows and 23 columns"),
    "mushroom": (
        "mushroom/agaricus-lepiota.data.gz",
        categories_file(22, "ep", True),
        "24 rows and 21 columns",
    ),
    "nursery": ("nursery/nursery.data.gz", categories_file(8, ["no", "yes"], False), "24 rows and 8 columns"),
    "covertype": ("covertype/covtype.data.xz", lzma.compress(covertype_file()), "30 rows and 54 columns"),
}
