"""docs/classifier.md lists the keys of the schema and the code of the network."""

import ast
import inspect
import re
import textwrap

import yaml
from workspace import ROOT

from config.schema import read_schema
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.labelled import HELD_OUT, TRAINING

PAGE = (ROOT / "docs/classifier.md").read_text()
SCHEMA = read_schema()["$defs"]


def rows(heading: str) -> dict[str, str]:
    """Return the defaults in a table of the page, by key."""
    table = PAGE.split(f"| {heading} |")[1].split("\n\n")[0]
    found = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) ?\|$", table, re.MULTILINE)
    return {key: default.strip().strip("`") for key, default in found}


def test_the_network_is_shown_as_it_is():
    (_, shown, *_) = PAGE.split("## The network")[1].split("```")
    source = textwrap.dedent(inspect.getsource(ConvolutionalClassifier.build))
    body = textwrap.dedent("    operations: list" + source.split("    operations: list")[1])
    assert ast.dump(ast.parse(shown.removeprefix("python\n"))) == ast.dump(ast.parse(body))


def test_the_keys_of_a_classifier_are_those_of_the_schema():
    assert set(rows("key of a classifier")) == set(SCHEMA["classifier"]["properties"])


def test_the_keys_of_its_network_are_those_of_the_schema():
    messages = {key: yaml.safe_load(default) for key, default in rows("key of `network`").items()}
    rules = SCHEMA["convolutional"]["properties"]
    assert messages == {key: rule["default"] for key, rule in rules.items()}


def test_what_is_different_of_its_training_is_what_the_schema_says():
    messages = rows("key of `training`")
    usual, own = (SCHEMA[n]["properties"] for n in ("table_training", "classifier_training"))
    assert set(usual) - set(own) == {"loss", "huber_delta"} and not set(own) - set(usual)
    assert set(messages) == {key for key in own if own[key] != usual[key]}
    assert float(messages["learning_rate"]) == own["learning_rate"]["default"]


def test_the_checksums_of_mnist_are_of_its_files_and_such_as_the_schema_wants():
    shown = next(text for text in PAGE.split("```yaml\n")[1:] if "checksums" in text)
    checksums = yaml.safe_load(shown.split("```")[0])["classifiers"]["mnist"]["checksums"]
    assert set(checksums) == {f"{name}.gz" for name in (*TRAINING, *HELD_OUT)}
    rule = SCHEMA["classifier"]["properties"]["checksums"]["additionalProperties"]["pattern"]
    assert all(re.fullmatch(rule.replace(r"\Z", ""), sha) for sha in checksums.values())
