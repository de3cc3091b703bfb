"""Reports of measurements as Markdown tables and JSON."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuralfield.system.errors import NeuralfieldError


class Deadline:
    """The end of a part's time limit, which is checked between measurements."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._end_s = time.monotonic() + limit_s

    @property
    def passed(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() >= self._end_s


@dataclass
class Report:
    """The measured results, and the reasons for results that had to be left out.

    Attributes
    ----------
    entries : list of dict
        ``part``, ``row``, ``system``, and either numbers with their units in their names or
        ``left_out``, the reason.
    tables : list of str
        Markdown.
    failures : list of str
        Checks of correctness that failed.
    """

    entries: list[dict[str, Any]] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, part: str, row: str, system: str, **found: Any) -> None:
        """Record a result, and print it at once."""
        self.entries.append({"part": part, "row": row, "system": system} | found)
        shown = ", ".join(f"{k} {number_text(v)}" for k, v in found.items())
        print(f"{part} | {row} | {system} | {shown}", flush=True)

    def attempt(
        self,
        part: str,
        row: str,
        system: str,
        deadline: Deadline,
        measure: Callable[[], dict[str, Any]],
    ) -> None:
        """Record the result of `measure`, or the reason why there is none, without raising."""
        if deadline.passed:
            self.add(part, row, system, left_out=f"the part's {deadline.limit_s:g} s are used up")
            return
        try:
            found = measure()
        except Exception as error:  # of any library, so that other systems are measured
            found = {"left_out": reason_of(error)}
        self.add(part, row, system, **found)

    def require(self, passed: bool, what: str) -> None:
        """Record a failed check of correctness, if `passed` is false."""
        if not passed:
            self.failures.append(what)
            print(f"WRONG: {what}", flush=True)

    def add_table(self, part: str, quantity: str, title: str, digits: int = 3) -> None:
        """Add a table of one quantity, with a line for each row and a column for each system."""
        entries = [entry for entry in self.entries if entry["part"] == part]
        systems = list(dict.fromkeys(e["system"] for e in entries if quantity in e))
        rows = list(dict.fromkeys(entry["row"] for entry in entries))
        if not systems:
            return
        cells = {
            (e["row"], e["system"]): number_text(e[quantity], digits)
            for e in entries
            if quantity in e
        }
        lines = [[row, *(cells.get((row, system), "-") for system in systems)] for row in rows]
        self.tables.append(markdown_table([title, *systems], lines))

    def add_columns(self, part: str, title: str, columns: dict[str, str]) -> None:
        """Add a table of several quantities, with a line for each row and system.

        Parameters
        ----------
        columns : dict of quantity to heading
            Entries without the first of these quantities are left out.
        """
        first = next(iter(columns))
        entries = [e for e in self.entries if e["part"] == part and first in e]
        shown = {key: name for key, name in columns.items() if any(key in e for e in entries)}
        lines = [
            [e["row"], e["system"], *(number_text(e[key]) if key in e else "-" for key in shown)]
            for e in entries
        ]
        if lines:
            self.tables.append(markdown_table([title, "system", *shown.values()], lines))

    def left_out(self) -> list[str]:
        """Return a line for each result that is missing, with the reason."""
        return [
            f"- {e['part']}, {e['row']}, {e['system']}: {e['left_out']}"
            for e in self.entries
            if "left_out" in e
        ]

    def publish(self, environment: dict[str, Any], output: Path | None) -> int:
        """Print the report, and write it as Markdown with a JSON file beside it.

        Parameters
        ----------
        environment : dict
            The machine, versions and options.
        output : Path or None
            The Markdown file; None writes no files.

        Returns
        -------
        int
            The exit status: 1 if a check of correctness failed, else 0.
        """
        self.write(environment, output)
        print("\n" + self.markdown(environment))
        return 1 if self.failures else 0

    def write(self, environment: dict[str, Any], output: Path | None) -> None:
        """Write the report in its current state; for the parameters see `publish`."""
        if output:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(self.markdown(environment))
            output.with_suffix(".json").write_text(self.json(environment))

    def markdown(self, environment: dict[str, Any]) -> str:
        """Return the whole report, with tables at the end."""
        facts = "\n".join(f"- {name}: {value}" for name, value in environment.items())
        sections = [facts]
        if self.left_out():
            sections.append("Not measured:\n\n" + "\n".join(self.left_out()))
        if self.failures:
            sections.append("WRONG:\n\n" + "\n".join(f"- {line}" for line in self.failures))
        return "\n\n".join([*sections, *self.tables]) + "\n"

    def json(self, environment: dict[str, Any]) -> str:
        """Return all entries as JSON."""
        whole = {"environment": environment, "failures": self.failures, "entries": self.entries}
        return json.dumps(whole, indent=2) + "\n"


def reason_of(error: Exception) -> str:
    """Return an error as one line of a report."""
    text = str(error) if isinstance(error, NeuralfieldError) else repr(error)
    return " ".join(text.split())[:300]


def markdown_table(header: list[str], lines: list[list[str]]) -> str:
    """Return a Markdown table, aligned to the right except for its first column."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])


def number_text(value: Any, digits: int = 3) -> str:
    """Return a number with `digits` significant digits as text; other values unchanged as text."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def print_row(*cells: object) -> None:
    """Print a row of a Markdown table at once, before the table is complete."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def print_header(*names: str) -> None:
    """Print the first two rows of a Markdown table."""
    print_row(*names)
    print("|---" * len(names) + "|", flush=True)
