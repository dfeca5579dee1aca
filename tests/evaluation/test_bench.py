"""What `chatapp bench` tells people."""

import pytest

from chatapp.evaluation.bench import RANGES, draw_histogram


@pytest.mark.parametrize("most", [0.0018, 0.0023, 0.004, 0.2])
def test_each_bar_of_the_histogram_has_a_label_of_its_own(most: float) -> None:
    latencies = [0.0018 + (most - 0.0018) * step / 20 for step in range(21)]
    bars = draw_histogram(latencies).splitlines()
    labels = [bar.partition(" ms")[0] for bar in bars]
    assert len(set(labels)) == len(labels) <= RANGES
    assert sum(int(bar.split()[-1]) for bar in bars) == len(latencies)
