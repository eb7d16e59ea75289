#include "operator/view/stored/queue_server.h"

#include <algorithm>
#include <optional>

namespace lockstep::control {
namespace {

using Namespaces = std::optional<std::set<std::string>>;  // null: all

using QueuesByName = std::map<std::string, const StoredQueue*>;

// A queue and those above it, up to the first that is not there or has been met.
std::vector<const StoredQueue*> WayUp(const QueuesByName& by_name, const std::string& name) {
  std::vector<const StoredQueue*> way;
  std::set<std::string> seen;
  for (auto at = by_name.find(name); at != by_name.end() && seen.insert(at->first).second;
       at = by_name.find(at->second->queue.parent)) {
    way.push_back(at->second);
  }
  return way;
}

// Whose jobs may be in the queue at the start of the way.
Namespaces NamespacesOf(const std::vector<const StoredQueue*>& way) {
  Namespaces allowed;
  for (const StoredQueue* const one : way) {
    const std::set<std::string>& named = one->queue.namespaces;
    if (named.empty()) {
      continue;
    }
    if (!allowed) {
      allowed = named;
    } else {
      std::erase_if(*allowed, [&](const std::string& name) { return !named.contains(name); });
    }
  }
  return allowed;
}

void AddTo(Namespaces* all, const Namespaces& some) {
  if (!some) {
    all->reset();
  } else if (*all) {
    (*all)->insert(some->begin(), some->end());
  }
}

// `served`: as of a release.
bool ServesOneOf(const std::set<std::string>& served, const Namespaces& namespaces) {
  return served.empty() || !namespaces ||
         std::ranges::any_of(*namespaces,
                             [&](const std::string& name) { return served.contains(name); });
}

// Whether a release that serves `own` has taken the other's place: there may be a lease of one that
// is gone.
bool Replaces(const std::set<std::string>& own, const OtherRelease& other) {
  return own.empty() ||
         (!other.namespaces.empty() &&
          std::includes(own.begin(), own.end(), other.namespaces.begin(), other.namespaces.end()));
}

// The oldest of the others that serve one of them and are older than ours, or than which ours does
// not count; null: ours serves.
const OtherRelease* ServerOf(const Namespaces& namespaces,
                             const std::set<std::string>& own,
                             const std::vector<OtherRelease>& others) {
  const bool is_ours = ServesOneOf(own, namespaces);
  for (const OtherRelease& other : others) {
    if ((other.is_older || !is_ours) && !Replaces(own, other) &&
        ServesOneOf(other.namespaces, namespaces)) {
      return &other;
    }
  }
  return nullptr;
}

}  // namespace

std::map<std::string, std::string> QueuesServedElsewhere(const std::vector<StoredQueue>& queues,
                                                         const std::set<std::string>& own,
                                                         const std::vector<OtherRelease>& others) {
  std::map<std::string, std::string> elsewhere;
  if (others.empty()) {
    return elsewhere;
  }
  QueuesByName by_name;
  std::set<std::string> parents;
  for (const StoredQueue& stored : queues) {
    by_name[stored.queue.name] = &stored;
    parents.insert(stored.queue.parent);
  }
  std::map<std::string, Namespaces> families;  // by the name of the highest queue
  for (const auto& [name, stored] : by_name) {
    const auto way = WayUp(by_name, name);
    Namespaces& all =
        families.try_emplace(way.back()->queue.name, std::set<std::string>()).first->second;
    if (!parents.contains(name)) {  // only in these may be jobs
      AddTo(&all, NamespacesOf(way));
    }
  }
  for (const auto& [name, stored] : by_name) {
    const std::string& family = WayUp(by_name, name).back()->queue.name;
    if (const OtherRelease* const server = ServerOf(families.at(family), own, others)) {
      elsewhere[name] =
          "the operator with the lease " + server->lease +
          " serves this queue and the queues that share its quota; if this queue is for jobs of "
          "other namespaces, list those namespaces in the queue's spec.namespaces";
    }
  }
  return elsewhere;
}

}  // namespace lockstep::control
