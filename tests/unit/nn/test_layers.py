from neuralfield.nn.layers import ACTIVATIONS, INITIALIZERS


def test_every_activation_has_initial_weights():
    assert set(INITIALIZERS) == set(ACTIVATIONS)
