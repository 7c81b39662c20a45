"""`make bench-fluid`: beside SimGrid; `lab` as its first argument: beside real transfers; `hosts`: of very many hosts."""

from __future__ import annotations

import sys

from benches.fluid import hosts, lab, run

if sys.argv[1:2] == ["lab"]:
    lab.main(sys.argv[2:])
elif sys.argv[1:2] == ["hosts"]:
    hosts.main(sys.argv[2:])
else:
    run.main()
