#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace lockstep::control {

// Choice: far above what anybody refers to, and below what Linux hands to a program in one piece.
// Variables that each name the one before twice reach any length in a few lines.
inline constexpr std::size_t kExpandedBytesMax = 64 * 1024;

// `text` with each $(NAME) replaced by the variable's value, where there is no kubelet to do it.
// "$$" stands for "$", so that $$(NAME) stays $(NAME) of letters; a name that is not among the
// variables stays as written, as does a "$" before anything else. Values are not looked into again.
// Errors: kResourceExhausted (longer than kExpandedBytesMax).
// Source: k8s.io/kubernetes/third_party/forked/golang/expansion, Kubernetes 1.36.
Result<std::string> ExpandReferences(std::string_view text,
                                     const std::map<std::string, std::string>& variables);

}  // namespace lockstep::control
