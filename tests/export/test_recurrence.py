import numpy as np
import pytest
import torch
from torch import nn

from hf_spanner.export.recurrence import GATES, LayerWeights


def hand_made_states(weights: LayerWeights, words: np.ndarray, side: int) -> np.ndarray:
    """(N, h) states of one direction, by the equations of ONNX: gates in the order input, output, forget, cell."""

    def sigmoid(values: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-values))

    inner, recurrent, bias = (values[side].numpy() for values in (weights.inner, weights.recurrent, weights.bias))
    size = recurrent.shape[1]
    state, cell, states = np.zeros(size), np.zeros(size), []
    for word in words if side == 0 else words[::-1]:
        sums = inner @ word + recurrent @ state + bias[: 4 * size] + bias[4 * size :]
        entry, exit_, forget, new = np.split(sums, 4)
        cell = sigmoid(forget) * cell + sigmoid(entry) * np.tanh(new)
        state = sigmoid(exit_) * np.tanh(cell)
        states.append(state)
    return np.stack(states if side == 0 else states[::-1])


@pytest.mark.parametrize("layer", [0, 1])
def test_the_gates_in_the_order_of_onnx_give_the_states_of_torch(layer: int) -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(5, 3, num_layers=2, batch_first=True, bidirectional=True)
    words = torch.randn(1, 4, 5)
    for done in range(layer):
        first = nn.LSTM(5, 3, batch_first=True, bidirectional=True)
        first.load_state_dict({name: lstm.get_parameter(name) for name, _ in first.named_parameters()})
        words = first(words)[0]
        assert done == 0
    weights = LayerWeights(lstm, layer)
    states = np.concatenate([hand_made_states(weights, words[0].detach().numpy(), side) for side in (0, 1)], axis=1)
    expected = nn.LSTM(words.shape[-1], 3, batch_first=True, bidirectional=True)
    names = [name for name, _ in expected.named_parameters()]
    expected.load_state_dict({name: lstm.get_parameter(name.replace("_l0", f"_l{layer}")) for name in names})
    np.testing.assert_allclose(states, expected(words)[0][0].detach().numpy(), atol=1e-6)
    assert sorted(GATES) == [0, 1, 2, 3]
