#include "trainer-runtime/collectives/nccl/nccl_network.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "common/base/io/file.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLineBytesMax = 4096;   // of a file of sysfs: a page
constexpr std::size_t kCardsMax = 8;          // named in a line. Choice
constexpr const char* kOpenCard = "uverbs";   // /dev/infiniband/uverbs0
constexpr std::string_view kIsUp = "ACTIVE";  // "4: ACTIVE"

// What is in `folder`, by name.
std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  std::ranges::sort(entries);
  return entries;
}

// The first line; empty where it cannot be read.
std::string LineOf(const fs::path& file) {
  const Result<std::string> content = ReadFile(file.string(), kLineBytesMax);
  return content.ok() ? content->substr(0, content->find('\n')) : "";
}

// "InfiniBand" or "Ethernet" of the first port that is up; empty: none is.
std::string LiveLinkOf(const fs::path& card) {
  for (const fs::path& port : EntriesOf(card / "ports")) {
    if (LineOf(port / "state").find(kIsUp) != std::string::npos) {
      return LineOf(port / "link_layer");
    }
  }
  return "";
}

bool HasOpenedOne(const std::string& descriptors) {
  return std::ranges::any_of(EntriesOf(descriptors), [](const fs::path& descriptor) {
    std::error_code error;
    return fs::read_symlink(descriptor, error).filename().string().starts_with(kOpenCard);
  });
}

}  // namespace

std::string UnusedCards(const NetworkPlaces& places) {
  std::string text;
  std::size_t count = 0;
  for (const fs::path& card : EntriesOf(places.cards)) {
    const std::string link = LiveLinkOf(card);
    if (!link.empty() && ++count <= kCardsMax) {
      text += (text.empty() ? "" : ", ") + card.filename().string() + " (" + link + ")";
    }
  }
  if (count > kCardsMax) {
    text += " and " + std::to_string(count - kCardsMax) + " more";
  }
  return HasOpenedOne(places.descriptors) ? "" : text;
}

bool NcclChoosesNetwork(const EnvironmentMap& variables) {
  const auto disabled = variables.find("NCCL_IB_DISABLE");
  const bool is_disabled =
      disabled != variables.end() && !disabled->second.empty() && disabled->second != "0";
  return !is_disabled && !variables.contains("NCCL_NET") && !variables.contains("NCCL_NET_PLUGIN");
}

}  // namespace lockstep::runtime
