"""Settings are checked, read, written and described as their dataclass declares them."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from neuralfield.fields import FIELDS
from neuralfield.system.errors import ConfigError
from neuralfield.system.settings import Settings, number_in_words, setting, settings_of
from neuralfield.tasks import training_settings
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.table.dense_network import Dense
from neuralfield.tasks.training_settings import (
    BUDGETS,
    HOW_AND_WHERE,
    MAKES_NO_DIFFERENCE,
    ImageTraining,
)

OF_TRAININGS = [
    cls
    for cls in vars(training_settings).values()
    if isinstance(cls, type) and issubclass(cls, Settings) and cls is not Settings
]
CLASSES = [*FIELDS.values(), Dense, ConvolutionalClassifier, *OF_TRAININGS]


@dataclass(frozen=True, kw_only=True)
class Base(Settings):
    last: bool = setting(False, "inherited", omit_when_off=True)
    later: float = setting(0.1, "added later", above=0, omit_when_off=True)


@dataclass(frozen=True)
class Example(Base):
    count: int = setting(3, "a number of things", minimum=1, maximum=9)
    share: float = setting(0.5, "of all", minimum=0, below=1)
    side: int | None = setting(None, "of a square", unit="pixels", minimum=1)
    kind: str = setting("a", "of thing", choices=("a", "b", "c"))
    sizes: tuple[int, ...] = setting((1, 2), "of each", minimum=1, longest=3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": 0}, "fields: count: 0; expected a whole number from 1 to 9"),
        ({"count": 2.0}, r"count: 2\.0; expected a whole number"),
        ({"count": True}, "count: True; expected a whole number"),
        ({"count": None}, "count: None; expected a whole number"),
        ({"share": 1}, "share: 1; expected a number >= 0 and below 1"),
        ({"share": float("nan")}, "share: nan; expected a number"),
        ({"side": 10**10}, "expected a whole number of pixels >= 1, at most 10\\^9"),
        ({"kind": "d"}, "kind: 'd'; expected a, b or c"),
        ({"sizes": [1, 0]}, r"sizes: \(1, 0\); expected a list, each value a whole number >= 1"),
        ({"sizes": [1, 1, 1, 1]}, "sizes: "),
        ({"last": 1}, "last: 1; expected true or false"),
        ({"cuont": 1}, r"Example: unknown \['cuont'\]; expected some of count, share"),
    ],
)
def test_complaint(given: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        Example.from_mapping(given)


def test_settings_are_read_and_described_in_one_order():
    settings = Example.from_mapping({"sizes": [4], "last": True, "side": 7, "share": 0})
    described = settings.described()
    assert Example.from_mapping(described) == settings
    assert list(described) == ["count", "share", "side", "kind", "sizes", "last"]
    assert not {"last", "later"} & set(Example().described())
    assert Example(later=0.2).described()["later"] == 0.2
    assert Example().described()["side"] is None


def test_numbers_in_words():
    assert number_in_words(is_whole=False, above=0, unit="seconds") == "a number of seconds > 0"
    assert number_in_words(is_whole=False, above=0, maximum=5) == "a number > 0 and at most 5"
    assert number_in_words(is_whole=True, minimum=2, unit="layers") == "a whole number >= 2"


@pytest.mark.parametrize("cls", CLASSES)
def test_every_setting_is_declared_with_a_default_that_it_allows(cls: type[Settings]):
    cls()
    for field in dataclasses.fields(cls):
        declared = settings_of(cls)[field.name]
        assert declared.help and "\n" not in declared.help
        assert declared.allows(declared.default)
        others = set(declared.only_with) | ({declared.limited_by} - {""})
        assert others <= set(settings_of(ImageTraining)) | set(HOW_AND_WHERE)


def test_what_does_not_count_for_a_result_is_none_of_the_training_itself():
    assert set(MAKES_NO_DIFFERENCE) == set(HOW_AND_WHERE) - {"device", "engine", *BUDGETS}
    assert not set(HOW_AND_WHERE) & set(settings_of(ImageTraining))


def test_the_message_on_a_number_beyond_all_bounds_names_the_maximum():
    with pytest.raises(ConfigError, match=r"1e\+38; expected .*, at most 10\^30"):
        ImageTraining(learning_rate=1e38)
