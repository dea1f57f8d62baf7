"""A record in which every text tries to break out of the page."""

from cutlayer.report.record import Record
from tests.helpers import synthetic_record as synthetic

EVIL = "</script><img src=x onerror=alert(1)><b>&\"'"


def evil_record():
    rows = [
        row
        | dict.fromkeys(
            ("defence", "attack", "attacker", "victim", "baseline_name", "granted", "paper", "utility_metric"), EVIL
        )
        for row in synthetic.rows()[:3]
    ]
    rows[0]["strength"] = rows[1]["detail"] = EVIL
    extras = {rows[0]["cell"]: {"columns": [{"name": EVIL, "value": 0.9, "baseline": 0.5}]}}
    return Record(EVIL, {EVIL: EVIL, "notes": [EVIL]}, rows, extras, command=EVIL, versions={EVIL: EVIL})
