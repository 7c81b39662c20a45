"""`make bench-fluid`: beside SimGrid, or with `lab` as its first argument beside real transfers."""

from __future__ import annotations

import sys

from benches.fluid import lab, run

if sys.argv[1:2] == ["lab"]:
    lab.main(sys.argv[2:])
else:
    run.main()
