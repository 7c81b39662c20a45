"""Measures many hosts by few pairs, and compares the result with the truth.

    make bench-scale [ARGS="pairs|clouds|rivals|controller [--seed 0]"]

`pairs`, which is the default, measures labs and simulated clouds. `clouds` measures 40 random clouds of each size and
compares the figures with their goals. `rivals` compares the prediction of unmeasured pairs with matrix completion and
network coordinates. `controller` measures what a controller spends on thousands of agents. `ARGS="clouds --help"` lists the options of a part.
"""

from __future__ import annotations

import sys

from benches.scale import clouds, controller, few_pairs, rivals

PARTS = {"pairs": few_pairs.main, "clouds": clouds.main, "rivals": rivals.main, "controller": controller.main}


def main(arguments: list[str]) -> None:
    """Run one part."""
    name = (arguments or [""])[0]
    if name in PARTS:
        PARTS[name](arguments[1:])
    else:
        few_pairs.main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
