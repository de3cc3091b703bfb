"""Writes what documents say of settings from the settings' declarations: ``make reference``.

First it writes the schema, see declarations.py, of which the others are made. In config.yaml these
are the lists below lines like ``# Keys of an image:``, and the comments of the
keys of sections; on pages, the tables below comments like ``<!-- keys of siren -->``.
"""

import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from config.declarations import schema_text
from config.schema import OTHER_KINDS, SCHEMA_PATH, read_schema, resolved
from neuralfield.fields import FIELDS
from neuralfield.system.settings import any_of

ROOT = Path(__file__).parents[2]
_SCHEMA = str(SCHEMA_PATH.relative_to(ROOT))
_PAGES = ("docs/fields.md", "docs/tables.md", "docs/classifier.md")
DOCUMENTS = (_SCHEMA, "config.yaml", *_PAGES)

_COLUMNS = 105
_SECTIONS = "training|render|timelapse|evaluate|edges"
_OF_ALL_FIELDS = ("output", "steepness", "training")
_USUAL = {"table_training": "training", "classifier_training": "table_training"}
"""Rules whose keys are listed only where they differ from those of another rule."""

Rule = Mapping[str, Any]


def updated(name: str) -> str:
    """Return the text of a document with what the declarations say today."""
    if name == _SCHEMA:
        return schema_text(yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))["fields"])
    text = (ROOT / name).read_text(encoding="utf-8")
    if name in _PAGES:
        listed: set[tuple[str, str]] = set()
        text = re.sub(r"<!-- all fields -->\n(?:\|.*\n)*", _fields, text)
        table = partial(_table, listed)
        return re.sub(r"<!-- keys of (\w+)(.*) -->\n(?:\|.*\n)*", table, text)
    for key, rule in read_schema()["properties"].items():
        if "description" in rule:
            comment = "".join(f"# {line}\n" for line in _wrapped(_text(rule), _COLUMNS - 2))
            text = re.sub(rf"(?m)^(#.*\n)+(?={key}: )", comment, text)
    text = re.sub(rf"(?m)^({_SECTIONS}):\n((?:  .*\n)+)", _section, text)
    return re.sub(r"(?m)^(# (?:.* )?Keys of an? (\w+):\n)(?:#   .*\n)*", _list, text)


def _fields(marker: re.Match[str]) -> str:
    """Return a table of all fields with their learning rates."""
    table = "| type | what it is | learning rate |\n|---|---|---|\n"
    for kind, field in FIELDS.items():
        table += f"| [`{kind}`](#{kind}) | {field.title} | {field().suggested_learning_rate:g} |\n"
    return f"{marker[0].splitlines()[0]}\n{table}"


def _table(listed: set[tuple[str, str]], marker: re.Match[str]) -> str:
    """Return a table of the keys of a rule, or of those that the marker names after a colon."""
    known, others = _divided(_keys(marker[1], *re.findall(r"\w+", marker[2])), listed)
    rows = [(key, _meaning(rule), _values(rule), _default(rule)) for key, rule in others.items()]
    if known:
        defaults = "`, `".join(map(_default, known.values()))
        rows.insert(0, ("`, `".join(known), "as above", "", defaults))
    table = "| key | meaning | values | default |\n|---|---|---|---|\n"
    for key, meaning, values, default in rows:
        shown = f"`{default}`" if default not in ("", "none") else default
        table += f"| `{key}` | {meaning} | {values} | {shown} |\n"
    return f"{marker[0].splitlines()[0]}\n{table}"


def _divided(
    rules: Mapping[str, Rule], listed: set[tuple[str, str]]
) -> tuple[dict[str, Rule], dict[str, Rule]]:
    """Divide rules into those that are listed already and others, which are added to `listed`."""
    meanings = {key: (key, _meaning(rule)) for key, rule in rules.items()}
    known = {key: rule for key, rule in rules.items() if meanings[key] in listed}
    listed.update(meanings.values())
    return known, {key: rule for key, rule in rules.items() if key not in known}


def _section(section: re.Match[str]) -> str:
    """Return a section with each key as it is written there, below its comment."""
    rules = read_schema()["$defs"][section[1]]["properties"]
    lines = dict(re.findall(r"(?m)^  ((?:# )?(\w+): .*\n)", section[2]))
    lines = {key: line for line, key in lines.items() if key in rules}
    text = f"{section[1]}:\n"
    for key in [*lines, *(key for key in rules if key not in lines)]:
        text += "".join(f"  # {line}\n" for line in _wrapped(_text(rules[key]), _COLUMNS - 4))
        new_line = f"{'' if 'default' in rules[key] else '# '}{key}: {_default(rules[key])}\n"
        text += f"  {lines.get(key, new_line)}"
    return text


def _list(heading: re.Match[str]) -> str:
    lines = _of_fields() if heading[2] == "network" else _listed(_keys(heading[2]))
    return heading[1] + "".join(f"#   {line}\n" for line in lines)


def _of_fields() -> Iterator[str]:
    """List the keys of all networks, with the meaning of a key where it is first needed."""
    kinds: Rule = {"enum": [*FIELDS, *OTHER_KINDS], "description": "kind of network, see below"}
    yield from _listed({"type": kinds, **_keys("siren", *_OF_ALL_FIELDS)})
    listed: set[tuple[str, str]] = set()
    for kind, field in FIELDS.items():
        yield f"{kind}: {field.title[0].lower()}{field.title[1:]}"
        known, others = _divided(_keys(kind), listed)
        if known:
            defaults = ", ".join(f"{key} {_default(rule)}" for key, rule in known.items())
            yield from _wrapped(f"  as above, by default: {defaults}", _COLUMNS - 4, "    ")
        yield from (f"  {line}" for line in _listed(others))
    for kind, words in OTHER_KINDS.items():
        yield f"{kind}: {words}"
        yield from (f"  {line}" for line in _listed(_keys(kind)))


def _listed(rules: Mapping[str, Rule]) -> Iterator[str]:
    """List keys, each with its text beside it and with its own keys below it."""
    width = max(map(len, rules), default=0) + 2
    for key, rule in rules.items():
        first, *others = _wrapped(_text(rule), _COLUMNS - 6 - width)
        yield f"{key:<{width}}{first}"
        yield from (" " * width + line for line in others)
        if "properties" in resolved(rule) and "/changes_of_" not in rule["$ref"]:
            yield from (f"  {line}" for line in _listed(_keys(Path(rule["$ref"]).name)))


def _keys(name: str, *names: str) -> dict[str, Rule]:
    """Return the rules of some keys, or of those that set a rule apart from similar ones."""
    rules = read_schema()["$defs"]
    usual = rules[_USUAL[name]]["properties"] if name in _USUAL else {}
    left_out = ("type", *_OF_ALL_FIELDS) if name in (*FIELDS, *OTHER_KINDS) and not names else ()
    return {
        key: rule
        for key, rule in rules[name]["properties"].items()
        if (key in names if names else key not in left_out and rule != usual.get(key))
    }


def _text(rule: Rule) -> str:
    """Describe a key: its meaning, its values if the meaning does not tell them, its default."""
    meaning, values, default = _meaning(rule), _values(rule), _default(rule)
    choices = resolved(rule).get("enum")
    is_told = choices and all(str(choice) in meaning for choice in choices)
    is_told = is_told or re.search(r"^true|a list|>(?!.*<)", values)
    parts = meaning, "" if is_told else values, f"default: {default}" if default else ""
    return "; ".join(filter(None, parts))


def _meaning(rule: Rule) -> str:
    return resolved(rule)["description"]


def _values(rule: Rule) -> str:
    """Describe the values that a rule allows, as briefly as possible."""
    rule = resolved(rule)
    if "anyOf" in rule:
        return " or ".join(filter(None, map(_values, rule["anyOf"])))
    if "const" in rule or "enum" in rule:
        return any_of(tuple(rule.get("enum", [rule.get("const")])))
    if rule["type"] == "array":
        return f"a list; each {_values(rule['items'])}".removesuffix("; each ")
    if rule["type"] not in ("integer", "number"):
        return "true or false" if rule["type"] == "boolean" else ""
    least, most = rule.get("minimum"), rule.get("maximum", math.inf)
    bounds = {">=": least, ">": rule.get("exclusiveMinimum"), "<": rule.get("exclusiveMaximum")}
    text = " and ".join(f"{sign} {bound}" for sign, bound in bounds.items() if bound is not None)
    if most < 1000:  # a limit that somebody could meet
        text = f"{text} and <= {most}" if least is None else f"{least} to {most}"
    return f"{text} {rule.get('x-unit', '')}".strip()


def _default(rule: Rule) -> str:
    rule = resolved(rule)
    default = rule.get("default", rule.get("x-default", ""))
    if default in ({}, [], ""):
        return "none" if "default" in rule and "properties" not in rule else ""
    text = yaml.safe_dump(default, default_flow_style=True, width=math.inf)
    return default if isinstance(default, str) else text.removesuffix("...\n").strip()


def _wrapped(text: str, columns: int, indent: str = "") -> list[str]:
    """Wrap a text, but not between the word default and its value."""
    together = re.sub(r"(?<=default:) (?=\S{1,30}$)", "\xa0", text)
    lines = textwrap.wrap(together, columns, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


if __name__ == "__main__":
    for document in DOCUMENTS:
        (ROOT / document).write_text(updated(document), encoding="utf-8")
