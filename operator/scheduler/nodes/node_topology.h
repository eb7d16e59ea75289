#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::control {

// A number for as long as the domain has nodes; it is then given again, so nothing is ordered by
// it.
using DomainIndex = std::uint32_t;

// Every node is in it, labelled or not.
inline constexpr DomainIndex kWholeCluster = 0;

// The level below all others, where it is asked for by name: each node is a domain of its own.
inline constexpr std::string_view kHostLevel = "kubernetes.io/hostname";

// Which domains a gang may stand in, by the labels of levels; empty: nothing is asked.
struct TopologyTerms {
  std::string required;   // the whole gang in one domain of this level, or not at all
  std::string preferred;  // narrower domains than this one's are not looked for
  std::string apart;      // no two pods of the gang in one domain of this level

  friend bool operator==(const TopologyTerms&, const TopologyTerms&) = default;
};

// Domains of a cluster's network as a tree of node labels, from wide to narrow: block, rack, NVLink
// domain. A rack is one of its block: two racks of one name in two blocks are two domains. A node
// without the label of some level is in no domain of that level, nor of any below it.
class DomainTree {
 public:
  explicit DomainTree(std::vector<std::string> levels);

  const std::vector<std::string>& levels() const { return levels_; }

  // From 0, the widest; empty where there is no such level.
  std::optional<std::size_t> LevelOf(std::string_view label) const;

  // Whether nodes with these labels are in the same domains.
  bool IsSame(const std::map<std::string, std::string>& a,
              const std::map<std::string, std::string>& b) const;

  // The narrowest domain of a node with these labels, which counts it from now on.
  DomainIndex Join(const std::map<std::string, std::string>& labels);

  // One node of the domain is gone.
  void Leave(DomainIndex domain);

  DomainIndex ParentOf(DomainIndex domain) const { return domains_[domain].parent; }

  // The domain of that level that `domain` is in, or is; empty where it is in none.
  std::optional<DomainIndex> AncestorAt(DomainIndex domain, std::size_t level) const;

  const std::map<std::string, DomainIndex>& ChildrenOf(DomainIndex domain) const {
    return domains_[domain].children;
  }

  // Domains of the level with their paths, by path.
  const std::set<std::pair<std::string, DomainIndex>>& At(std::size_t level) const {
    return by_level_[level];
  }

  // "block-1/rack-3"; empty for the whole cluster.
  const std::string& PathOf(DomainIndex domain) const { return domains_[domain].path; }

  // Above every index in use.
  std::size_t index_end() const { return domains_.size(); }

 private:
  struct Domain {
    std::string value;  // of the label of its level
    std::string path;
    DomainIndex parent = kWholeCluster;
    std::size_t depth = 0;  // 0: the whole cluster; level + 1 otherwise
    int64_t node_count = 0;
    std::map<std::string, DomainIndex> children;
  };

  DomainIndex ChildOf(DomainIndex parent, const std::string& value);

  std::vector<std::string> levels_;
  std::vector<Domain> domains_;
  std::vector<DomainIndex> unused_;
  std::vector<std::set<std::pair<std::string, DomainIndex>>> by_level_;
};

}  // namespace lockstep::control
