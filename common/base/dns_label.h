#pragma once

#include <string_view>

namespace lockstep {

// Whether `text` is a DNS label by RFC 1123: lower-case letters, digits and '-', neither first nor
// last a '-', 1 to 63 characters. So Kubernetes names namespaces.
bool IsHostLabel(std::string_view text);

// Whether it is one by RFC 1035, as Kubernetes names services: a letter comes first.
bool IsDnsLabel(std::string_view text);

// What IsDnsLabel asks for, in words.
inline constexpr std::string_view kDnsLabelWords =
    "a DNS label: lower-case letters, digits and '-', starting with a letter and not ending with "
    "'-', at most 63 characters";

}  // namespace lockstep
