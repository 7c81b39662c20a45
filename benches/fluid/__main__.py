"""`make bench-fluid`: compares with SimGrid; first argument `lab`: with real transfers; `hosts`, `start`: see there."""

from __future__ import annotations

import sys

from benches.fluid import hosts, lab, run, start

if sys.argv[1:2] == ["lab"]:
    lab.main(sys.argv[2:])
elif sys.argv[1:2] == ["hosts"]:
    hosts.main(sys.argv[2:])
elif sys.argv[1:2] == ["start"]:
    start.main(sys.argv[2:])
else:
    run.main()
