#include "common/contract/lost_peer.h"

#include <charconv>

namespace lockstep {
namespace {

constexpr std::string_view kBefore = "rank ";
constexpr std::string_view kAfter = " is lost: ";

}  // namespace

std::string DescribeLostPeer(int rank, std::string_view why) {
  return std::string(kBefore) + std::to_string(rank) + std::string(kAfter) + std::string(why);
}

std::optional<int> ParseLostPeer(std::string_view text) {
  for (std::size_t at = text.find(kBefore); at != std::string_view::npos;
       at = text.find(kBefore, at + 1)) {
    const std::string_view rest = text.substr(at + kBefore.size());
    int rank = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
    const auto read = static_cast<std::size_t>(end - rest.data());
    if (error == std::errc() && rank >= 0 && rest.substr(read).starts_with(kAfter)) {
      return rank;
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
