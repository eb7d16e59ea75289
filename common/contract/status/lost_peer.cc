#include "common/contract/status/lost_peer.h"

#include <charconv>

#include "common/base/check.h"

namespace lockstep {
namespace {

constexpr std::string_view kBefore = "rank ";
constexpr std::string_view kAfter = " is lost";
constexpr std::string_view kNext = ", ";
constexpr std::string_view kWhy = ": ";

}  // namespace

std::string DescribeLostPeers(const std::vector<int>& ranks, std::string_view why) {
  LOCKSTEP_CHECK(!ranks.empty(), "there is no lost rank to name");
  std::string text;
  for (const int rank : ranks) {
    text += text.empty() ? "" : kNext;
    text += kBefore;
    text += std::to_string(rank);
    text += kAfter;
  }
  return text + std::string(kWhy) + std::string(why);
}

std::vector<int> ParseLostPeers(std::string_view text) {
  std::vector<int> ranks;
  std::vector<int> list;  // that has not come to its end
  for (std::size_t at = text.find(kBefore); at != std::string_view::npos;
       at = text.find(kBefore, at + 1)) {
    std::string_view rest = text.substr(at + kBefore.size());
    int rank = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (error != std::errc() || rank < 0 || !rest.starts_with(kAfter)) {
      list.clear();
      continue;
    }
    rest.remove_prefix(kAfter.size());
    list.push_back(rank);
    if (rest.starts_with(kWhy)) {
      ranks.insert(ranks.end(), list.begin(), list.end());
    }
    if (!rest.starts_with(kNext)) {
      list.clear();
    }
  }
  return ranks;
}

}  // namespace lockstep
