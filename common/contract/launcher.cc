#include "common/contract/launcher.h"

#include <array>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 3> kNames = {
    "torchrun", "torch.distributed.run", "torch.distributed.launch"};

bool IsOfAName(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '.' || c == '-';
}

// Whether `name` stands in `text` as a word of its own, or behind the slash of a path.
bool HasWord(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool is_start = at == 0 || !IsOfAName(text[at - 1]);
    if (is_start && (end == text.size() || !(IsOfAName(text[end]) || text[end] == '/'))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool NamesTorchrun(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    for (const std::string_view name : kNames) {
      if (HasWord(word, name)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace lockstep
