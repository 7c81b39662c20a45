"""Profile: from an application's traffic to its App, the bytes that each task sends to each other.

One reader a source of traffic. `from_pcap` reads what tcpdump or Wireshark captured while the application ran,
`from_mpip` what mpiP counted inside an MPI program.
"""

from gavotte.profile.addresses import parse_task, read_addresses
from gavotte.profile.mpip import from_mpip
from gavotte.profile.pcap import Profile, ProfileReport, from_pcap

__all__ = ["Profile", "ProfileReport", "from_mpip", "from_pcap", "parse_task", "read_addresses"]
