"""The wording of the terminal: how numbers, times and names are written."""

from terminal.sentences import in_words
from terminal.words import about, clock, duration, listed, name_of


def test_numbers_of_tables_and_classifiers():
    assert in_words({"accuracy": 0.9712, "held_out_accuracy": 0.95}) == (
        "97.1% correct, 95.0% correct on held-out data"
    )
    assert in_words({"measure": "rmse", "rmse": 0.01234, "accuracy": None}) == "error 0.0123"
    assert in_words({}) == "evaluated"


def test_words():
    estimates = {3: "a few seconds", 12: "about 10 seconds", 100: "about 2 minutes"}
    estimates |= {4000: "about 67 minutes", 7200: "about 2 hours", 4e5: "about 5 days"}
    assert {seconds: about(seconds) for seconds in estimates} == estimates
    assert [duration(s) for s in (0.21, 59.4, 125, 3790)] == [
        "0.2 s",
        "59 s",
        "2 min 5 s",
        "1 h 3 min",
    ]
    assert [clock(s) for s in (9, 65, 3661)] == ["0:09", "1:05", "1:01:01"]
    assert listed(["a", "b", "c"]) == "a, b and c" and listed(["a"]) == "a"
    assert name_of({"image": "a", "field": "b"}) == "a / b"
    assert name_of({"network": "xor"}) == "table xor" and name_of({}) == ""
