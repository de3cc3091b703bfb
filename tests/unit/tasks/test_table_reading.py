"""Tables of users: what is read, and the messages about wrong cells."""

import numpy as np
import pytest

from neuralfield.nn.scaling import Scaling, fit_scaling
from neuralfield.system.errors import ConfigError, InputError
from neuralfield.system.input_files import MOST_COLUMNS
from neuralfield.tasks.table import samples
from neuralfield.tasks.table.samples import held_out_rows, read_columns, read_samples


@pytest.fixture
def csv(tmp_path):
    """Return a function that writes a table and returns its path."""

    def write(content):
        path = tmp_path / "my.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_columns_are_found_by_name_in_any_order(csv):
    path = csv("when,b,remark,a,t\nMonday,1,cold,-2.5,0\nTuesday,3e-1,,4,9\n")
    found = read_samples(path, ["a", "b"], ["t"])
    np.testing.assert_array_equal(found.input_values, [[-2.5, 1], [4, 0.3]])
    np.testing.assert_array_equal(found.target_values, [[0], [9]])
    assert (found.count, found.inputs, found.targets) == (2, ("a", "b"), ("t",))


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfx,y\r\n1,2\r\n3,4\r\n",
        "x,y\n1,2\n\n3,4\n\n",
        ' x , y \n 1 , 2 \n"3",4.0e0',
        '"x",y\n1,2\n3,4\n',
    ],
)
def test_spellings_of_one_table(csv, content):
    np.testing.assert_array_equal(read_columns(csv(content), ["y", "x"]), [[2, 1], [4, 3]])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("x,z\n1,2\n", "has no column y; its columns are: x, z"),
        ("x;y\n1;2\n", "separate them by commas"),
        ("x,y,y\n1,2,3\n", "has 2 columns named y; expected a different name for each column"),
        ("x,y\n", "has no rows"),
        ("", "is empty"),
        ("x,y\n1,2\n3,\n", "y in line 3 is empty; expected a number, written like -1.5"),
        ("x,y\n1,two\n3,4\n", "y in line 2 is 'two'; expected a number"),
        ("x,y\n1,NA\n3,nan\n", "y in line 2 is 'NA' (and 1 more); expected a number"),
        ("x,y\n1,2\ninf,4\n", "x in line 3 is 'inf'; expected a number"),
        ("x,y\n1,1e31\n", "y in line 2 is '1e31'; expected a number"),
        ("x,y\n1,2,3\n", "more values than the first line has names"),
        (b"x,y\n\xff\xfe,1\n", "is not a table"),
    ],
)
def test_complaint(csv, content, complaint):
    with pytest.raises(InputError) as caught:
        read_columns(csv(content), ["x", "y"])
    messages = str(caught.value)
    assert (
        "my.csv: " in messages
        and complaint in messages
        and "expected" in messages
        and "\n" not in messages
    )


def test_what_other_columns_hold_is_no_matter(csv):
    path = csv("x,note,note\n1,NA,two words\n2,,inf\n")
    np.testing.assert_array_equal(read_columns(path, ["x"]), [[1], [2]])


def test_a_wrong_cell_far_down_is_named_by_its_line(csv, monkeypatch):
    monkeypatch.setattr(samples, "_ROWS_AT_ONCE", 7)
    rows = [f"{n},{n}" for n in range(50)]
    values = read_columns(csv("\n".join(["x,y", *rows])), ["y"])
    np.testing.assert_array_equal(values[:, 0], np.arange(50))
    rows[40] = "40,?"
    with pytest.raises(InputError, match=r"y in line 42 is '\?'"):
        read_columns(csv("\n".join(["x,y", *rows])), ["y"])


def test_a_file_that_is_not_there_or_too_large(csv, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="there is no such file"):
        read_columns(tmp_path / "nowhere.csv", ["x"])
    with pytest.raises(InputError, match="is a folder"):
        read_columns(tmp_path, ["x"])
    path = csv("x\n" + "1\n" * 100)
    monkeypatch.setattr(samples, "MOST_BYTES", 100)
    with pytest.raises(InputError, match="expected at most"):
        read_columns(path, ["x"])


def test_more_columns_than_anybody_has(csv):
    names = ",".join(f"c{n}" for n in range(MOST_COLUMNS + 1))
    with pytest.raises(InputError, match="has 10,001 columns; expected at most 10,000"):
        read_columns(csv(names + "\n1\n"), ["c1"])
    with pytest.raises(InputError, match="has first lines of more than 2 MiB"):
        read_columns(csv("x," * (1 << 20)), ["x"])


def test_scaling_and_back():
    values = np.array([[1.0, -5, 7], [3, 5, 7], [8, 0, 7]])
    standard = fit_scaling(values, "standard")
    scaled = standard.apply(values)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 0])
    between = fit_scaling(values, "range").apply(values)
    np.testing.assert_allclose((between.min(axis=0), between.max(axis=0)), [[-1, -1, 0], [1, 1, 0]])
    np.testing.assert_array_equal(fit_scaling(values, "none").apply(values), values)
    for scaling in (standard, fit_scaling(values, "range")):
        np.testing.assert_allclose(scaling.undo(scaling.apply(values)), values, atol=1e-14)
        again = Scaling.from_description(scaling.described(), 3)
        np.testing.assert_array_equal(again.spread, scaling.spread)


def test_a_constant_column_is_not_blown_up_by_rounding():
    values = np.full((1000, 1), 0.1)
    for rule in ("standard", "range"):
        np.testing.assert_array_equal(fit_scaling(values, rule).apply(values), 0)


def test_held_out_rows_follow_the_seed_alone():
    masks = [held_out_rows(50, 0.2, seed) for seed in (0, 0, 1)]
    assert [mask.sum() for mask in masks] == [10, 10, 10]
    assert (masks[0] == masks[1]).all() and (masks[0] != masks[2]).any()
    assert not held_out_rows(50, 0, 0).any()
    with pytest.raises(ConfigError, match=r"held_out_share: 0\.9 of 1 rows"):
        held_out_rows(1, 0.9, 0)
