#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace lockstep::control {

// How kubelets read $(NAME) in a command and in a variable's value: "$$" stands for "$", so that
// $$(NAME) is $(NAME) of letters, a "$" before anything else is a letter, and values are not looked
// into again. Pure.
// Source: k8s.io/kubernetes/third_party/forked/golang/expansion, Kubernetes 1.36.

// Choice: far above what anybody refers to, and below what Linux hands to a program in one piece.
// Variables that each name the one before twice reach any length in a few lines.
inline constexpr std::size_t kExpandedBytesMax = 64 * 1024;

// `text` with each $(NAME) replaced by the variable's value, where there is no kubelet to do it. A
// name that is not among the variables stays as written.
// Errors: kResourceExhausted (longer than kExpandedBytesMax).
Result<std::string> ExpandReferences(std::string_view text,
                                     const std::map<std::string, std::string>& variables);

// A text of one container for another, which need not have the variables that it refers to.
struct InlinedText {
  std::string text;                    // a "$" of letters is "$$" in it
  bool has_changed = false;            // a reference was replaced: `text` is not as written
  std::vector<std::string> unknown{};  // names that stay references; in order
};

// `text` with each $(NAME) replaced by what `known` has for the name: the `text` of another. A
// reference that would make it longer than kExpandedBytesMax counts as unknown.
InlinedText InlineReferences(std::string_view text,
                             const std::map<std::string, std::string>& known);

}  // namespace lockstep::control
