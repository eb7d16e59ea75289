#include "common/base/dns_label.h"

#include <algorithm>
#include <cstddef>

namespace lockstep {
namespace {

constexpr std::size_t kLengthMax = 63;  // RFC 1035, 2.3.4

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}

bool IsInner(char c) {
  return IsLower(c) || (c >= '0' && c <= '9') || c == '-';
}

}  // namespace

bool IsHostLabel(std::string_view text) {
  return !text.empty() && text.size() <= kLengthMax && text.front() != '-' && text.back() != '-' &&
         std::all_of(text.begin(), text.end(), IsInner);
}

bool IsDnsLabel(std::string_view text) {
  return IsHostLabel(text) && IsLower(text.front());
}

}  // namespace lockstep
