#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Why a peer counts as lost whose connection is still open.
inline constexpr std::string_view kLostBySilence = "silent";

// What a process says of peers that it has lost, whoever of our library notices: "rank 1 is lost:
// closed", or "rank 1 is lost, rank 2 is lost: its connection is closed" of several. The one
// sentence of our library's that a program's last line is read back for: an end that it explains is
// no verdict of the program's own. Precondition: `ranks` is not empty.
std::string DescribeLostPeers(const std::vector<int>& ranks, std::string_view why);

// The ranks that `text`, such as a last line, says are lost, wherever in it that is said; as they
// come, perhaps twice. Empty: it says so of none. A list that was cut says it of none: the one that
// is missing may be the one that matters. Total: any text is one of others.
std::vector<int> ParseLostPeers(std::string_view text);

}  // namespace lockstep
