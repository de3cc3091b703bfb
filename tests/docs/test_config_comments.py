"""The comments of config.yaml name every key, with the defaults and ranges of its rule."""

import re
from typing import Any

import pytest
import yaml
from workspace import ROOT

from config.schema import read_schema, resolved

LINES = (ROOT / "config.yaml").read_text().splitlines()
RULES = read_schema()["$defs"]
SECTIONS = ("training", "render", "timelapse", "evaluate", "edges")
NESTED = {
    ("table", "network"): "dense",
    ("table", "training"): "table_training",
    ("classifier", "network"): "convolutional",
}
"""The rules of keys that are nested below a key of a list, by the list's name and that key."""

EVERY_TYPE, FIELDS_ALONE = "every type", "all but imported"


def comments_of(section: str) -> dict[str, str]:
    """Return the comment above each key of a section, including keys that are commented out."""
    found: dict[str, str] = {}
    comment, is_open = "", False
    for line in LINES[LINES.index(f"{section}:") + 1 :]:
        if line and not line.startswith("  "):
            break
        key = re.match(r"  (?:# )?(\w+):", line)
        if key and key[1] in RULES[section]["properties"]:
            found[key[1]], is_open = comment, False
        else:
            comment = (comment if is_open else "") + line.removeprefix("  #")
            is_open = True
    return found


def listed_keys() -> dict[str, dict[str, str]]:
    """Return the texts of the lists of keys above `images`, `fields` and so on, by rule name."""
    found: dict[str, dict[str, str]] = {}
    rule, texts, outer_key, is_heading = "", {}, "", False
    for line in LINES:
        heading = re.search(r"^# .*Keys of (?:an? )?([\w ]+?)[,:]|^# Keys of ([\w ]+?)[,:]", line)
        entry = re.match(r"#( {3}| {5})(\w+) +(\S.*)", line)
        if heading:
            rule = heading[1] or heading[2]
            texts, is_heading = found.setdefault(rule, {}), True
        elif entry and rule:
            is_nested, key, is_heading = len(entry[1]) == 5, entry[2], False
            outer_key = outer_key if is_nested else key
            place = NESTED[rule, outer_key] if is_nested else rule
            texts = found.setdefault(place, {})
            texts[key] = entry[3]
        elif rule and line.startswith("#      "):
            texts[next(reversed(texts))] += " " + line.removeprefix("#").strip()
        elif not (is_heading and line.startswith("#")):
            rule = ""
    return found


LISTED = listed_keys()


def reported_defaults(text: str) -> list[Any]:
    """Return possible values of the default in a comment: the text after it, or a part of that."""
    (messages,) = re.findall(r"default: (.*)$", text)
    parts = {
        messages,
        *(messages.split(mark)[0] for mark in (" (", ", ", "; ")),
        *messages.split(" and "),
    }
    return [yaml.safe_load(part) for part in parts if part.count("[") == part.count("]")]


def require_agreement(key: str, text: str, rule: dict[str, Any]) -> None:
    """Check that a comment on a key agrees with the key's rule."""
    default = resolved(rule).get("default")
    if "default: " in text and default is not None:
        nothing = default in ([], {}, "")
        assert ("none" if nothing else default) in reported_defaults(text), f"{key}: {text}"
    elif "default: " not in text:
        assert default in (None, {}), f"{key}: {text}"
    for number in rule.get("anyOf", [rule]):
        bounds = number.get("minimum"), number.get("maximum")
        ranges = re.findall(r"(?<![\d.-])(\d+) to (\d+)", text)
        if ranges and None not in bounds:
            assert bounds in [(int(low), int(high)) for low, high in ranges], f"{key}: {text}"


@pytest.mark.parametrize("section", SECTIONS)
def test_comments_of_sections_agree_with_the_rules(section: str):
    comments, rules = comments_of(section), RULES[section]["properties"]
    assert set(comments) == set(rules)
    for key, text in comments.items():
        require_agreement(key, text, rules[key])


@pytest.mark.parametrize("name", [name for name in LISTED if name in RULES])
def test_lists_of_keys_agree_with_the_rules(name: str):
    for key, text in LISTED[name].items():
        require_agreement(key, text, RULES[name]["properties"][key])


@pytest.mark.parametrize("name", [name for name in LISTED if name in RULES])
def test_lists_name_every_key(name: str):
    listed = set(LISTED[name])
    if name in RULES["field"]["properties"]["type"]["enum"]:
        listed |= set(LISTED[EVERY_TYPE] if name != "imported" else ["type"])
        listed |= set(LISTED[FIELDS_ALONE] if name != "imported" else ())
        listed |= set(LISTED["siren"] if name == "finer" else ())
    if name != "table_training":  # other keys are those of the section
        assert listed == set(RULES[name]["properties"])
