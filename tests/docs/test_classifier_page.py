"""docs/classifier.md shows the code of the network, and checksums of the right files."""

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


def test_the_network_is_shown_as_it_is():
    (_, shown, *_) = PAGE.split("## The network")[1].split("```")
    source = textwrap.dedent(inspect.getsource(ConvolutionalClassifier.build))
    body = textwrap.dedent("    operations: list" + source.split("    operations: list")[1])
    assert ast.dump(ast.parse(shown.removeprefix("python\n"))) == ast.dump(ast.parse(body))


def test_the_checksums_of_mnist_are_of_its_files_and_such_as_the_schema_wants():
    shown = next(text for text in PAGE.split("```yaml\n")[1:] if "checksums" in text)
    checksums = yaml.safe_load(shown.split("```")[0])["classifiers"]["mnist"]["checksums"]
    assert set(checksums) == {f"{name}.gz" for name in (*TRAINING, *HELD_OUT)}
    rule = SCHEMA["classifier"]["properties"]["checksums"]["additionalProperties"]["pattern"]
    assert all(re.fullmatch(rule.replace(r"\Z", ""), sha) for sha in checksums.values())
