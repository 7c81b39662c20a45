"""Profile: from an application's traffic to its App, the bytes that each task sends to each other.

One reader a source of traffic. `from_pcap` reads what tcpdump or Wireshark captured while the application ran.
"""

from gavotte.profile.addresses import parse_task, read_addresses
from gavotte.profile.pcap import Profile, ProfileReport, from_pcap

__all__ = ["Profile", "ProfileReport", "from_pcap", "parse_task", "read_addresses"]
