#pragma once

namespace lockstep {

// Lets the kernel notice, within 35 s, that the host at the other end has fallen silent, even while
// nothing is sent: keepalive after 15 s, every 5 s, three times; unacknowledged bytes for 30 s at
// most. Sends small requests at once.
// Source: the times are those of Go's HTTP/2 client, which pings after 30 s and waits 15 s.
void SetLivenessOptions(int socket);

}  // namespace lockstep
