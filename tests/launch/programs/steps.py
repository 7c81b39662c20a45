"""Takes steps of 50 ms up to a number, and continues where it was stopped.

    python steps.py NAME HOSTS STEPS FOLDER [deaf | helper | slow]

Each start appends to FOLDER/starts: the name, the hosts, the step from which it continues, and the number of the start.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

name, hosts, steps, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
checkpoint = folder / f"{name}.step"
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
with (folder / "starts").open("a") as starts:
    starts.write(f"{name} {hosts} {step} {os.environ['GAVOTTE_START']}\n")
if sys.argv[5:] == ["deaf"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[5:] == ["helper"]:
    helper = subprocess.Popen(["sleep", "300"], start_new_session=True)
    (folder / "helper").write_text(str(helper.pid))
if sys.argv[5:] == ["slow"]:
    Path(os.environ["GAVOTTE_PROGRESS"]).write_text("0.01")
print(f"{name} at step {step}", flush=True)
while step < steps:
    time.sleep(0.05)
    step += 1
    fresh = checkpoint.with_suffix(".new")
    fresh.write_text(str(step))
    fresh.rename(checkpoint)
