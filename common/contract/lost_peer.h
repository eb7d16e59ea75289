#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// What a process says of a peer that it has lost: "rank 1 is lost: closed". The one sentence of our
// library's that a program's last line is read back for: an end that it explains is no verdict of
// the program's own.
std::string DescribeLostPeer(int rank, std::string_view why);

// The rank that `text`, such as a last line, says is lost, wherever in it that is said; the first
// of several. Null: it says so of none. Total: any text is one of others.
std::optional<int> ParseLostPeer(std::string_view text);

}  // namespace lockstep
