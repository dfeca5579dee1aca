"""What a measurement of a model gives."""

from backends import Placement
from chatapp.placement.record import Measurement

ONNX = Measurement(
    Placement("onnx", "cpu", "int8"),
    first_token=((32, 0.02), (256, 0.1)),
    p50=0.010,
    p95=0.012,
    step_of_many=0.03,
    prefill_work=0.001,
    step_work=0.02,
)
