"""Trains a small network on made data by PyTorch's DistributedDataParallel over gloo.

    torchrun ... train.py STEPS WIDTH

Rank 0 prints the seconds of all steps, from a barrier to the last rank's last step.
"""

import sys
import time

import torch
from torch import distributed, nn

steps, width = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(0)
distributed.init_process_group("gloo")
layers = (nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
distributed.barrier()
began_s = time.monotonic()
for _ in range(steps):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(10, (32,)))
    loss.backward()
    optimizer.step()
distributed.barrier()
if distributed.get_rank() == 0:
    sys.stdout.write(f"seconds {time.monotonic() - began_s:.3f}\n")
distributed.destroy_process_group()
