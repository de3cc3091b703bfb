"""docs/classifier.md shows the code of the network, and checksums of the right files."""

import ast
import inspect
import textwrap

from workspace import ROOT

from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier

PAGE = (ROOT / "docs/classifier.md").read_text()


def test_the_network_is_shown_as_it_is():
    (_, shown, *_) = PAGE.split("## The network")[1].split("```")
    source = textwrap.dedent(inspect.getsource(ConvolutionalClassifier.build))
    body = textwrap.dedent("    operations: list" + source.split("    operations: list")[1])
    assert ast.dump(ast.parse(shown.removeprefix("python\n"))) == ast.dump(ast.parse(body))
