#include "operator/scheduler/nodes/node_topology.h"

#include <algorithm>

namespace lockstep::control {

DomainTree::DomainTree(std::vector<std::string> levels)
    : levels_(std::move(levels)), domains_(1), by_level_(levels_.size()) {}

std::optional<std::size_t> DomainTree::LevelOf(std::string_view label) const {
  const auto found = std::find(levels_.begin(), levels_.end(), label);
  if (found == levels_.end()) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(found - levels_.begin());
}

bool DomainTree::IsSame(const std::map<std::string, std::string>& a,
                        const std::map<std::string, std::string>& b) const {
  return std::all_of(levels_.begin(), levels_.end(), [&](const std::string& level) {
    const auto in_a = a.find(level);
    const auto in_b = b.find(level);
    return (in_a == a.end()) == (in_b == b.end()) &&
           (in_a == a.end() || in_a->second == in_b->second);
  });
}

DomainIndex DomainTree::Join(const std::map<std::string, std::string>& labels) {
  DomainIndex domain = kWholeCluster;
  ++domains_[domain].node_count;
  for (const std::string& level : levels_) {
    const auto found = labels.find(level);
    if (found == labels.end()) {
      break;
    }
    domain = ChildOf(domain, found->second);
    ++domains_[domain].node_count;
  }
  return domain;
}

DomainIndex DomainTree::ChildOf(DomainIndex parent, const std::string& value) {
  const auto found = domains_[parent].children.find(value);
  if (found != domains_[parent].children.end()) {
    return found->second;
  }
  DomainIndex index = 0;
  if (unused_.empty()) {
    index = static_cast<DomainIndex>(domains_.size());
    domains_.emplace_back();
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  Domain& child = domains_[index];
  const Domain& above = domains_[parent];
  child.value = value;
  child.path = above.path.empty() ? value : above.path + "/" + value;
  child.parent = parent;
  child.depth = above.depth + 1;
  by_level_[above.depth].emplace(child.path, index);
  domains_[parent].children.emplace(value, index);
  return index;
}

void DomainTree::Leave(DomainIndex domain) {
  while (true) {
    Domain& one = domains_[domain];
    --one.node_count;
    if (domain == kWholeCluster) {
      return;
    }
    const DomainIndex parent = one.parent;
    if (one.node_count == 0) {
      by_level_[one.depth - 1].erase({one.path, domain});
      domains_[parent].children.erase(one.value);
      one = Domain{};
      unused_.push_back(domain);
    }
    domain = parent;
  }
}

std::optional<DomainIndex> DomainTree::AncestorAt(DomainIndex domain, std::size_t level) const {
  while (domains_[domain].depth > level + 1) {
    domain = domains_[domain].parent;
  }
  if (domains_[domain].depth != level + 1) {
    return std::nullopt;
  }
  return domain;
}

}  // namespace lockstep::control
