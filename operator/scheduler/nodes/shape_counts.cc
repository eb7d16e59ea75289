#include "operator/scheduler/nodes/shape_counts.h"

#include <algorithm>

namespace lockstep::control {
namespace {

void AddAlong(DomainIndex domain,
              int64_t difference,
              const DomainTree& domains,
              std::vector<int64_t>* counts) {
  if (difference == 0) {
    return;
  }
  if (counts->size() < domains.index_end()) {
    counts->resize(domains.index_end(), 0);
  }
  for (; domain != kWholeCluster; domain = domains.ParentOf(domain)) {
    (*counts)[domain] += difference;
  }
  (*counts)[kWholeCluster] += difference;
}

void AppendRequirements(const std::vector<NodeRequirement>& requirements, std::string* key) {
  for (const NodeRequirement& one : requirements) {
    *key += '\2' + one.key + '\3' + NodeOperatorName(one.op);
    for (const std::string& value : one.values) {
      *key += '\4' + value;
    }
  }
}

}  // namespace

std::string ShapeCounts::KeyOf(const PodClass& pod_class) {
  std::string key;
  for (const NamedAmount& amount : pod_class.request.AllWithPorts()) {
    key += amount.name + '\1' + std::to_string(amount.amount) + '\1';
  }
  key += '\n';
  for (const auto& [name, value] : pod_class.node_selector) {
    key += name + '\1' + value + '\1';
  }
  key += '\n';
  for (const Toleration& one : pod_class.tolerations) {
    key += one.key + '\1' + one.value + '\1' + one.effect + (one.is_exists ? "\1E" : "\1=");
  }
  for (const NodeTerm& term : *pod_class.node_affinity) {
    key += '\n';
    AppendRequirements(term.labels, &key);
    key += '\1';
    AppendRequirements(term.fields, &key);
  }
  return key;
}

int64_t ShapeCounts::PodsOn(const NodeFree& room, const ResourceVector& request) {
  return CountThatFits(room.free, request, std::min(room.pods_free, kPodsOfNodeMax));
}

ShapeCounts::Added ShapeCounts::Add(const PodClass& pod_class) {
  std::string key = KeyOf(pod_class);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    Shape& known = shapes_[found->second];
    if (known.users++ == 0) {
      idle_.erase(known.unused_since);
    }
    return {found->second, false};
  }
  ShapeIndex index = 0;
  if (vacant_.empty()) {
    index = static_cast<ShapeIndex>(shapes_.size());
    shapes_.emplace_back();
  } else {
    index = vacant_.back();
    vacant_.pop_back();
  }
  Shape& shape = shapes_[index];
  shape.pod_class = pod_class;
  shape.pod_class.pods = {};
  shape.key = key;
  shape.users = 1;
  by_key_.emplace(std::move(key), index);
  return {index, true};
}

void ShapeCounts::Drop(ShapeIndex shape) {
  Shape& one = shapes_[shape];
  if (--one.users > 0) {
    return;
  }
  one.unused_since = ++releases_;
  idle_.emplace(one.unused_since, shape);
  if (idle_.size() > kIdleShapesMax) {
    ForgetOldest();
  }
}

void ShapeCounts::ForgetOldest() {
  const ShapeIndex oldest = idle_.begin()->second;
  idle_.erase(idle_.begin());
  by_key_.erase(shapes_[oldest].key);
  shapes_[oldest] = Shape{};
  vacant_.push_back(oldest);
}

void ShapeCounts::SetFacts(NodeIndex node, const SnapshotNode& facts) {
  for (Shape& shape : shapes_) {
    if (shape.is_accepted.size() <= node) {
      shape.is_accepted.resize(node + 1, 0);
    }
    shape.is_accepted[node] = control::Accepts(facts, shape.pod_class) ? 1 : 0;
  }
}

void ShapeCounts::Change(const NodeChange& change, const DomainTree& domains) {
  const bool is_now_changed = change.now_before != change.now_after;
  const bool is_empty_changed = change.empty_before != change.empty_after;
  for (Shape& shape : shapes_) {
    if (shape.key.empty() || shape.is_accepted[change.node] == 0) {
      continue;
    }
    const ResourceVector& request = shape.pod_class.request;
    if (is_now_changed) {
      AddAlong(change.domain,
               PodsOn(change.now_after, request) - PodsOn(change.now_before, request),
               domains,
               &shape.now);
    }
    if (is_empty_changed) {
      AddAlong(change.domain,
               PodsOn(change.empty_after, request) - PodsOn(change.empty_before, request),
               domains,
               &shape.empty);
    }
  }
}

void ShapeCounts::Count(ShapeIndex shape, const NodeChange& change, const DomainTree& domains) {
  Shape& one = shapes_[shape];
  if (one.is_accepted.size() <= change.node) {
    one.is_accepted.resize(change.node + 1, 0);
  }
  one.is_accepted[change.node] = control::Accepts(*change.facts, one.pod_class) ? 1 : 0;
  if (one.is_accepted[change.node] == 0) {
    return;
  }
  AddAlong(change.domain, PodsOn(change.now_after, one.pod_class.request), domains, &one.now);
  AddAlong(change.domain, PodsOn(change.empty_after, one.pod_class.request), domains, &one.empty);
}

}  // namespace lockstep::control
