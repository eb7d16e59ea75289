#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::control {

// Choice: far above what anybody refers to. Variables that each name the one before twice reach any
// length in a few lines.
inline constexpr std::size_t kInlinedBytesMax = 64 * 1024;

// A variable's value as a manifest has it, for a container that need not have the variables which
// it refers to.
struct InlinedValue {
  std::string text;                    // a "$" of letters is "$$" in it
  bool has_changed = false;            // a reference was replaced: `text` is not as written
  std::vector<std::string> unknown{};  // "$(NAME)", which stay; in order
};

// `value` with each $(NAME) replaced by what `known` has for the name: the `text` of another. Read
// as kubelets read it: $$(NAME) is no reference, and a "$" before anything else is a letter. A
// reference that would make it longer than kInlinedBytesMax counts as unknown. Pure.
// Source: k8s.io/kubernetes/third_party/forked/golang/expansion, Kubernetes 1.36.
InlinedValue InlineReferences(std::string_view value,
                              const std::map<std::string, std::string>& known);

}  // namespace lockstep::control
