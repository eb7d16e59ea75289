#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lockstep::control {

// `text` with each $(NAME) replaced by the variable's value, where there is no kubelet to do it.
// "$$" stands for "$", so that $$(NAME) stays $(NAME) of letters; a name that is not among the
// variables stays as written, as does a "$" before anything else. Values are not looked into again.
// Source: k8s.io/kubernetes/third_party/forked/golang/expansion, Kubernetes 1.36.
std::string ExpandReferences(std::string_view text,
                             const std::map<std::string, std::string>& variables);

}  // namespace lockstep::control
