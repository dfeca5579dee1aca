"""A verdict as text: a table of comparisons, and what to do about a failure."""

from chatapp.evaluation.verify import NUMPY, describe_scope
from chatapp.evaluation.verify.comparison import LIMITED, Comparison
from chatapp.evaluation.verify.verdict import Verdict
from chatapp.text.units import table

HEADS = ("COMPARED", "WITH", "POSITIONS", "MAX |Δ|", "ERROR", "MEAN KL", "LOST", "TOP-1", "DIFFERS", "")
EXPLANATION = """\
ERROR: root mean square, as a share of the logits' spread. KL: divergence in nats; LOST: as a share of that of a
model which knows nothing. TOP-1: the likeliest token is the same. DIFFERS: the first prompt:token where it is not."""


def describe(verdict: Verdict) -> str:
    """The verdict as a few lines and a table."""
    place = f"{verdict.backend} {verdict.device} {verdict.precision}"
    versions = ", ".join(f"{name} {version}" for name, version in verdict.versions.items())
    limits = {(one.against, name, limit): None for one in verdict.comparisons for name, limit in one.limits.items()}
    allowed = [f"{LIMITED[name]} {limit:g} with {against}" for against, name, limit in limits]
    lines = [
        f"{verdict.model} on {place}: {'passed' if verdict.passed else 'FAILED'}",
        f"verified against {describe_scope(verdict.reference)}",
        versions,
        "",
        table(HEADS, [format_row(comparison) for comparison in verdict.comparisons]),
        "",
        EXPLANATION,
        f"Allowed: {'; '.join(allowed)}.",
        *(f"Not compared: {note}." for note in verdict.notes),
        *describe_turning_points(verdict),
    ]
    if not verdict.passed:
        lines += ["", *(f"- {failure}" for failure in verdict.failures), advise(verdict)]
    return "\n".join(lines)


def format_row(comparison: Comparison) -> tuple[str, ...]:
    """One comparison as cells of the table."""
    first = comparison.first_difference
    return (
        comparison.what,
        comparison.against,
        str(comparison.positions),
        format_number(comparison.max_error),
        format_share(comparison.error),
        format_number(comparison.mean_kl),
        format_share(comparison.lost),
        format_share(comparison.top1),
        f"{first.prompt}:{first.position}" if first else "-",
        "ok" if comparison.passed else "FAILED",
    )


def describe_turning_points(verdict: Verdict) -> list[str]:
    """Where the greedy text first departs from the reference's, for the original weights."""
    decoding = next((one for one in verdict.comparisons if one.what == "decode"), None)
    if not decoding or not (first := decoding.first_difference):
        return []
    return [
        f"Greedy text differs first in prompt {first.prompt} after token {first.position}: {first.found} instead of "
        f"{first.expected}, which the reference prefers by {format_number(first.margin)}."
    ]


def advise(verdict: Verdict) -> str:
    """What to do about a failure."""
    if any(not one.passed and one.what == NUMPY for one in verdict.comparisons):
        return (
            f"chatapp reads the checkpoint differently than {verdict.reference}. If that was of this model and in "
            f"float32, please report it; otherwise run: chatapp verify {verdict.model}"
        )
    again = "another --backend or --device" if verdict.precision == "f32" else "--precision f32, or another --backend"
    return (
        f"{verdict.precision} is no longer chosen on {verdict.backend} {verdict.device}, unless --precision names "
        f"it. Try {again}; chatapp rm {verdict.model} lets it be lowered again."
    )


def format_number(value: float | None) -> str:
    """A number with two digits; a dash for None."""
    return "-" if value is None else f"{value:.2g}"


def format_share(value: float | None) -> str:
    """A percentage with its significant digits: 97.2 %, 0.012 %."""
    if value is None:
        return "-"
    if 0 < value < 1e-6:
        return "<0.0001 %"
    return f"{100 * value:.1f} %" if value >= 0.1 or not value else f"{100 * value:.2g} %"
