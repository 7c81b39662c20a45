"""The benchmark's replay of methods by name."""

from benches.rpca.replay import methods_to_run, repeated, spiky


def test_named_methods_are_replayed_beside_the_mean_and_auto() -> None:
    """Our own trees use `auto`, whichever methods are requested."""
    names = methods_to_run(["rpca"])
    means, _, _ = repeated(spiky, 6, 0.1, 2, 1, names)
    assert set(means["broadcast"]) >= {"baseline", "mean", "auto", "rpca", "ours"}
    assert "median" not in means["broadcast"]
