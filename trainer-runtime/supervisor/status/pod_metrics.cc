#include "trainer-runtime/supervisor/status/pod_metrics.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace lockstep::runtime {
namespace {

constexpr std::string_view kHelp = "# HELP ";

struct Family {
  std::string head;  // its lines that begin with #
  std::string samples;
};

// A line of a page up to its end, which is taken off the page.
std::string_view TakeLine(std::string_view* page) {
  const std::size_t end = std::min(page->find('\n'), page->size() - 1) + 1;
  const std::string_view line = page->substr(0, end);
  page->remove_prefix(end);
  return line;
}

//   name 1              name{local_rank="0"} 1
//   name{a="b"} 1       name{local_rank="0",a="b"} 1
std::string WithLocalRank(std::string_view sample, std::size_t local_rank) {
  const std::size_t name_end = std::min(sample.find_first_of("{ "), sample.size());
  const bool has_labels = sample.substr(name_end).starts_with('{');
  std::string text(sample.substr(0, name_end));
  text += "{local_rank=\"" + std::to_string(local_rank) + "\"";
  text += has_labels ? "," : "}";
  text += sample.substr(has_labels ? name_end + 1 : name_end);
  return text;
}

Family& FamilyOf(const std::string& head, std::vector<Family>* families) {
  const auto found = std::find_if(families->begin(), families->end(), [&](const Family& family) {
    return family.head == head;
  });
  return found == families->end() ? families->emplace_back(Family{head, ""}) : *found;
}

void AddPage(std::string_view page, std::size_t local_rank, std::vector<Family>* families) {
  std::string head;
  while (!page.empty()) {
    const std::string_view line = TakeLine(&page);
    if (!line.starts_with('#')) {
      FamilyOf(head, families).samples += WithLocalRank(line, local_rank);
    } else if (line.starts_with(kHelp)) {
      head = line;
    } else {
      head += line;
    }
  }
}

}  // namespace

std::string JoinMetricsPages(const std::vector<std::string>& pages) {
  if (pages.size() == 1) {
    return pages.front();
  }
  std::vector<Family> families;
  for (std::size_t local_rank = 0; local_rank < pages.size(); ++local_rank) {
    AddPage(pages[local_rank], local_rank, &families);
  }
  std::string joined;
  for (const Family& family : families) {
    joined += family.head + family.samples;
  }
  return joined;
}

}  // namespace lockstep::runtime
