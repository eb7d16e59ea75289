#include "operator/scheduler/queue/queue_tree.h"

#include <algorithm>
#include <limits>

#include "common/base/name_list.h"
#include "common/base/plural.h"
#include "operator/scheduler/queue/amount_text.h"

namespace lockstep::control {
namespace {

// Large enough for any amount, small enough to be added to one.
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / 4;
// What one gang is charged at most: sums of so much then never reach the largest number, where
// nothing could be given back. Choice: 16 PiB of memory, above 5,000 nodes of 3 TiB, and 500 such
// gangs fit.
constexpr int64_t kChargeMax = int64_t{1} << 54;
// Resources that one is told of at once. Choice: cores, memory and devices, and still a sentence.
constexpr int64_t kShortResourcesMax = 3;

int64_t AmountIn(const std::map<std::string, int64_t>& amounts,
                 const std::string& resource,
                 int64_t otherwise) {
  const auto found = amounts.find(resource);
  return found == amounts.end() ? otherwise : std::min(found->second, kNoLimit);
}

Error WrongQueue(const QueueSpec& spec, const std::string& field, const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, "queue " + spec.name + ": " + field + " " + what);
}

Status CheckAmounts(const QueueSpec& spec) {
  const std::pair<const char*, const std::map<std::string, int64_t>*> fields[] = {
      {"nominal", &spec.nominal},
      {"borrowingLimit", &spec.borrowing_limit},
      {"lendingLimit", &spec.lending_limit}};
  for (const auto& [field, amounts] : fields) {
    for (const auto& [resource, amount] : *amounts) {
      if (amount < 0) {
        return WrongQueue(spec, field, "of " + resource + " is below 0");
      }
    }
  }
  if (spec.weight < 1) {
    return WrongQueue(
        spec, "weight", "is " + std::to_string(spec.weight) + ", expected at least 1");
  }
  return OkStatus();
}

// Every parent is there, and nobody is above itself.
Status CheckParents(const std::vector<QueueSpec>& specs) {
  std::map<std::string, const QueueSpec*> by_name;
  for (const QueueSpec& spec : specs) {
    if (spec.name.empty() || !by_name.emplace(spec.name, &spec).second) {
      return WrongQueue(spec, "name", spec.name.empty() ? "is empty" : "exists twice");
    }
  }
  for (const QueueSpec& spec : specs) {
    std::set<std::string> above;
    for (const QueueSpec* one = &spec; !one->parent.empty();) {
      const auto found = by_name.find(one->parent);
      if (found == by_name.end()) {
        return WrongQueue(*one, "parent", one->parent + " does not exist");
      }
      if (!above.insert(one->name).second) {
        return WrongQueue(*one, "parent", one->parent + " is below the queue itself");
      }
      one = found->second;
    }
  }
  return OkStatus();
}

}  // namespace

QueueTree::QueueTree() {
  const Status set = Set({});
  LOCKSTEP_CHECK(set.ok(), set.error().ToString());
}

Status QueueTree::Set(const std::vector<QueueSpec>& specs) {
  std::vector<QueueSpec> all = specs;
  const bool has_default = std::any_of(
      all.begin(), all.end(), [](const QueueSpec& spec) { return spec.name == kDefaultQueue; });
  if (!has_default) {
    all.emplace_back().name = kDefaultQueue;
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckParents(all));
  for (const QueueSpec& spec : all) {
    LOCKSTEP_RETURN_IF_ERROR(CheckAmounts(spec));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  nodes_.assign(1, {});
  nodes_[kTopQueue].spec.ordering = QueueOrdering::kFairShare;
  index_by_name_.clear();
  std::set<std::string> resources;
  for (QueueSpec& spec : all) {
    for (const auto& [resource, amount] : spec.nominal) {
      resources.insert(resource);
    }
    index_by_name_.emplace(spec.name, nodes_.size());
    nodes_.emplace_back().spec = std::move(spec);
  }
  resources_.assign(resources.begin(), resources.end());
  std::stable_partition(resources_.begin(), resources_.end(), IsDevice);  // told of first
  for (QueueIndex queue = 1; queue < nodes_.size(); ++queue) {
    Node& node = nodes_[queue];
    node.parent = node.spec.parent.empty() ? kTopQueue : index_by_name_.at(node.spec.parent);
    nodes_[node.parent].children.push_back(queue);
  }
  for (Node& node : nodes_) {
    for (const Node* one = &node; one != &nodes_[kTopQueue]; one = &nodes_[one->parent]) {
      ++node.depth;
    }
  }
  SetLimits();
  return OkStatus();
}

bool QueueTree::CountsBelow(QueueIndex queue, const std::string& resource) const {
  return nodes_[queue].spec.nominal.contains(resource) ||
         std::any_of(nodes_[queue].children.begin(),
                     nodes_[queue].children.end(),
                     [&](QueueIndex child) { return CountsBelow(child, resource); });
}

void QueueTree::SetLimits() {
  // Children before parents: a parent without a nominal amount has what its children have in all.
  std::vector<QueueIndex> order{kTopQueue};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& children = nodes_[order[i]].children;
    order.insert(order.end(), children.begin(), children.end());
  }
  for (Node& node : nodes_) {
    node.limits.assign(resources_.size(), {});
    node.sizes.assign(resources_.size(), {});
  }
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    for (auto queue = order.rbegin(); queue != order.rend(); ++queue) {
      Node& node = nodes_[*queue];
      Limit& limit = node.limits[r];
      QueueIndex top = *queue;
      while (top != kTopQueue && nodes_[top].parent != kTopQueue) {
        top = nodes_[top].parent;
      }
      limit.is_set = CountsBelow(top, resources_[r]);
      int64_t below = 0;
      for (const QueueIndex child : node.children) {
        below = AddSaturated(below, nodes_[child].limits[r].nominal);
      }
      limit.nominal = AmountIn(node.spec.nominal, resources_[r], std::min(below, kNoLimit));
      limit.borrowing = AmountIn(node.spec.borrowing_limit, resources_[r], kNoLimit);
      limit.lending = AmountIn(node.spec.lending_limit, resources_[r], kNoLimit);
      limit.keeps = limit.is_set &&
                    (limit.lending < kNoLimit ||
                     std::any_of(node.children.begin(), node.children.end(), [&](QueueIndex child) {
                       return nodes_[child].limits[r].keeps;
                     }));
    }
    nodes_[kTopQueue].limits[r].borrowing = 0;  // there is nobody to borrow from
  }
}

std::optional<QueueIndex> QueueTree::Find(const std::string& name) const {
  const auto found = index_by_name_.find(name.empty() ? kDefaultQueue : name);
  return found == index_by_name_.end() ? std::nullopt : std::optional(found->second);
}

void QueueTree::Charge(const Holder& holder, const ResourceVector& amounts) {
  Add(holder, amounts, 1);
}

void QueueTree::Refund(const Holder& holder, const ResourceVector& amounts) {
  Add(holder, amounts, -1);
}

void QueueTree::Promise(QueueIndex queue, const ResourceVector& amounts) {
  AddPromised(queue, amounts, 1);
}

void QueueTree::EndPromise(QueueIndex queue, const ResourceVector& amounts) {
  AddPromised(queue, amounts, -1);
}

void QueueTree::AddPromised(QueueIndex queue, const ResourceVector& amounts, int64_t times) {
  for (QueueIndex one = queue; one != kTopQueue; one = nodes_[one].parent) {
    for (std::size_t r = 0; r < resources_.size(); ++r) {
      int64_t& promised = nodes_[one].limits[r].promised;
      const int64_t amount = std::min(amounts.AmountOf(resources_[r]), kChargeMax);
      promised = AddSaturated(promised, times * amount);
    }
  }
}

void QueueTree::Add(const Holder& holder, const ResourceVector& amounts, int64_t times) {
  // A port of a node is no part of what queues share.
  const ResourceVector charge = Capped(WithoutPorts(amounts), kChargeMax);
  const ResourceVector change = Times(charge, times);
  ResourceVector& of_space = nodes_[holder.queue].held_by_space[holder.space];
  of_space = Sum(of_space, change);
  if (of_space == ResourceVector{}) {
    nodes_[holder.queue].held_by_space.erase(holder.space);
  }
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    auto& sizes = nodes_[holder.queue].sizes[r];
    const int64_t amount = charge.AmountOf(resources_[r]);
    if ((sizes[amount] += times) == 0) {
      sizes.erase(amount);
    }
  }
  const QueueIndex top = [&] {
    QueueIndex queue = holder.queue;
    while (nodes_[queue].parent != kTopQueue) {
      queue = nodes_[queue].parent;
    }
    return queue;
  }();
  for (QueueIndex queue = holder.queue;; queue = nodes_[queue].parent) {
    Node& node = nodes_[queue];
    node.held = Sum(node.held, change);
    for (std::size_t r = 0; r < resources_.size(); ++r) {
      // A queue for which the resource does not count takes nothing of what the others share.
      if (queue != kTopQueue || nodes_[top].limits[r].is_set) {
        node.limits[r].held = AddSaturated(node.limits[r].held, change.AmountOf(resources_[r]));
      }
    }
    if (queue == kTopQueue) {
      return;
    }
  }
}

std::optional<std::string> QueueTree::ClosedTo(QueueIndex queue, const std::string& space) const {
  QueueIndex one = queue;
  while (one != kTopQueue &&
         (nodes_[one].spec.namespaces.empty() || nodes_[one].spec.namespaces.contains(space))) {
    one = nodes_[one].parent;
  }
  if (one == kTopQueue) {
    return std::nullopt;
  }
  const QueueSpec& closed = nodes_[one].spec;
  std::string text = one == queue ? "" : " is below " + closed.name + ", which";
  text +=
      closed.namespaces.size() == 1 ? " is for jobs of namespace " : " is for jobs of namespaces ";
  return text + NameList(closed.namespaces) + "; this job is in " + space;
}

// What queues beside those on the way keep is kept from all above, too, as far as it is a part of
// what those have as nominal.
std::optional<QueueTree::Shortage> QueueTree::ShortAt(QueueIndex queue,
                                                      std::size_t resource,
                                                      int64_t amount) const {
  if (amount <= 0 || !nodes_[queue].limits[resource].is_set) {
    return std::nullopt;
  }
  int64_t kept = 0;
  QueueIndex below = queue;
  for (QueueIndex one = queue; one != kTopQueue; below = one, one = nodes_[one].parent) {
    const QueueIndex above = nodes_[one].parent;
    const Limit& limit = nodes_[one].limits[resource];
    const Limit& shared = nodes_[above].limits[resource];
    const int64_t beside = KeptBeside(one, resource, false);
    const int64_t held = AddSaturated(AddSaturated(shared.held, amount), beside);
    const int64_t missing = SubtractSaturated(held, shared.nominal + shared.borrowing);
    const int64_t over = SubtractSaturated(AddSaturated(limit.held, amount), limit.nominal);
    if (over > limit.borrowing || missing > 0) {
      return Shortage{one, missing};
    }
    if (AddSaturated(missing, kept) > 0) {
      return Shortage{below, missing + kept};
    }
    kept = AddSaturated(kept, beside);
    kept = kept == 0 ? 0 : std::min(kept, UnusedOf(above, resource, {one, amount}));
  }
  return std::nullopt;
}

bool QueueTree::Allows(QueueIndex queue, const ResourceVector& amounts) const {
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    if (ShortAt(queue, r, amounts.AmountOf(resources_[r]))) {
      return false;
    }
  }
  return true;
}

std::optional<QuotaShortfall> QueueTree::Check(QueueIndex queue,
                                               const ResourceVector& amounts) const {
  QuotaShortfall all{"", true};
  std::optional<QueueIndex> told;  // the queue that the text speaks of
  int64_t count = 0;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    const int64_t amount = amounts.AmountOf(resources_[r]);
    const std::optional<Shortage> shortage = ShortAt(queue, r, amount);
    if (!shortage) {
      continue;
    }
    const QueueIndex at = shortage->at;
    const QuotaShortfall one = ShortfallOf(*shortage, r, amount);
    all.may_be_reclaimed = all.may_be_reclaimed && one.may_be_reclaimed;
    if (++count > kShortResourcesMax) {
      continue;
    }
    all.text += count == 1 ? "" : "; ";
    all.text += told == at ? "" : "queue " + nodes_[at].spec.name + " would be ";
    all.text += one.text;
    told = at;
  }
  if (count > kShortResourcesMax) {
    all.text += "; " + Plural(count - kShortResourcesMax, "more resource") +
                (count == kShortResourcesMax + 1 ? " is short" : " are short");
  }
  if (all.may_be_reclaimed && count > 0 && !nodes_[queue].spec.reclaims) {
    all.text += "; to let queue " + nodes_[queue].spec.name +
                " take back what it lends, set its preemption.acrossQueues: Borrowed";
  }
  return count == 0 ? std::nullopt : std::optional(std::move(all));
}

// Queues beside it, or beside one above it, that hold more than is their own.
std::set<std::string> QueueTree::BorrowersFrom(QueueIndex queue, std::size_t resource) const {
  std::set<std::string> names;
  for (QueueIndex one = queue; one != kTopQueue; one = nodes_[one].parent) {
    for (const QueueIndex beside : nodes_[nodes_[one].parent].children) {
      const Limit& limit = nodes_[beside].limits[resource];
      if (beside != one && limit.held > limit.nominal) {
        names.insert(nodes_[beside].spec.name);
      }
    }
  }
  return names;
}

// Without the queue's name.
QuotaShortfall QueueTree::ShortfallOf(const Shortage& shortage,
                                      std::size_t resource,
                                      int64_t amount) const {
  const auto [queue, missing] = shortage;
  const std::string& name = resources_[resource];
  const Limit& limit = nodes_[queue].limits[resource];
  const int64_t over = SubtractSaturated(AddSaturated(limit.held, amount), limit.nominal);
  // Of that much it may have so much.
  const int64_t room = std::max<int64_t>(0, SubtractSaturated(amount, missing));
  const Figures figures = FiguresOf(name, over, limit.nominal);
  if (over <= 0) {
    const int64_t lent = limit.nominal - limit.held - room;
    const std::set<std::string> borrowers = BorrowersFrom(queue, resource);
    return {
        "within its nominal " + AmountText(name, limit.nominal) + ", but " +
            (borrowers.empty() ? "other queues use " + AmountText(name, lent) + " of it"
                               : AmountIs(name, lent) + " lent to queue" +
                                     (borrowers.size() == 1 ? " " : "s ") + NameList(borrowers)),
        true};
  }
  const int64_t borrowed = std::max<int64_t>(0, limit.held - limit.nominal);
  std::string text = figures.needed + " over its nominal " + figures.found;
  text += borrowed == 0 ? ", and " : ": it borrows " + AmountText(name, borrowed) + ", and ";
  if (over > limit.borrowing) {
    return {text + (limit.borrowing == 0 ? "may borrow none"
                                         : "may borrow " + AmountText(name, limit.borrowing)),
            false};
  }
  const int64_t left = std::max<int64_t>(0, limit.held + room - limit.nominal - borrowed);
  return {text + (left == 0 ? "nothing is" : AmountIs(name, left)) + " left to borrow", false};
}

std::map<std::string, int64_t> QueueTree::NominalOf(QueueIndex queue) const {
  std::map<std::string, int64_t> nominal;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    if (CountsBelow(queue, resources_[r])) {
      nominal[resources_[r]] = nodes_[queue].limits[r].nominal;
    }
  }
  return nominal;
}

std::vector<Overpromise> QueueTree::OverpromisesOf(QueueIndex queue) const {
  std::vector<Overpromise> overpromises;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    const int64_t nominal = nodes_[queue].limits[r].nominal;
    int64_t promised = 0;
    for (const QueueIndex child : nodes_[queue].children) {
      promised = std::min(promised + nodes_[child].limits[r].nominal, kNoLimit);
    }
    if (promised > nominal) {
      overpromises.push_back({resources_[r], promised, nominal});
    }
  }
  return overpromises;
}

// The queues above `a` and above `b`, or they themselves, that are beside each other; the same one
// twice where one is above the other.
std::pair<QueueIndex, QueueIndex> QueueTree::Apart(QueueIndex a, QueueIndex b) const {
  while (nodes_[a].parent != nodes_[b].parent) {
    QueueIndex& lower = nodes_[a].depth >= nodes_[b].depth ? a : b;
    lower = nodes_[lower].parent;
    if (a == b) {
      break;
    }
  }
  return {a, b};
}

bool QueueTree::IsOverNominal(QueueIndex queue, const ResourceVector& amounts) const {
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    const Limit& limit = nodes_[queue].limits[r];
    if (amounts.AmountOf(resources_[r]) > 0 && limit.over() > 0) {
      return true;
    }
  }
  return false;
}

bool QueueTree::MayReclaim(QueueIndex queue,
                           QueueIndex victim,
                           const ResourceVector& amounts) const {
  const auto [own, other] = Apart(queue, victim);
  if (own == other) {
    return false;
  }
  bool has_quota = false;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    const int64_t amount = amounts.AmountOf(resources_[r]);
    const Limit& limit = nodes_[own].limits[r];
    if (amount <= 0 || !limit.is_set) {
      continue;
    }
    if (AddSaturated(limit.held, amount) > limit.nominal) {
      return false;
    }
    has_quota = true;
  }
  // Down to the victim's own: what a queue holds within its nominal amounts is not lent.
  for (QueueIndex one = victim; has_quota && IsOverNominal(one, amounts);
       one = nodes_[one].parent) {
    if (one == other) {
      return true;
    }
  }
  return false;
}

int64_t QueueTree::ReclaimableMax(QueueIndex queue,
                                  QueueIndex victim,
                                  const std::string& resource) const {
  const auto found = std::find(resources_.begin(), resources_.end(), resource);
  const auto [own, other] = Apart(queue, victim);
  if (own == other || found == resources_.end()) {
    return nodes_[victim].held.AmountOf(resource);
  }
  const auto r = static_cast<std::size_t>(found - resources_.begin());
  const auto& sizes = nodes_[victim].sizes[r];
  const int64_t largest = sizes.empty() ? 0 : sizes.rbegin()->first;
  int64_t most = nodes_[victim].limits[r].held - nodes_[victim].limits[r].promised;
  for (QueueIndex one = victim; most > 0; one = nodes_[one].parent) {
    const int64_t over = nodes_[one].limits[r].over();
    most = over <= 0 ? 0 : std::min(most, AddSaturated(over, std::max<int64_t>(0, largest - 1)));
    if (one == other) {
      break;
    }
  }
  return most;
}

}  // namespace lockstep::control
