#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/saturating.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {

// Whose turn it is among what waits in a queue and in those below it.
enum class QueueOrdering {
  kFifo,       // who came first
  kPriority,   // the highest priority, then who came first
  kFairShare,  // the queue below, or the namespace, that has least for its weight
};

// A queue as somebody wrote it. Amounts by resource; in the units of ResourceVector.
struct QueueSpec {
  std::string name{};
  std::string parent{};                              // empty: at the top
  std::map<std::string, int64_t> nominal{};          // what it may hold without borrowing
  std::map<std::string, int64_t> borrowing_limit{};  // above nominal; without: what is left
  std::map<std::string, int64_t> lending_limit{};    // of nominal; without: what it does not use
  int64_t weight = 1;                                // of its share beside others of its parent
  QueueOrdering ordering = QueueOrdering::kFifo;
  bool preempts_lower_priority = false;  // its gangs may evict others of it
  bool reclaims = false;                 // it may evict what others hold above their nominal
  std::chrono::seconds min_runtime{0};   // its gangs are not evicted before
  // Whose jobs may be in it and in those below it; empty: everybody's.
  std::set<std::string> namespaces{};

  friend bool operator==(const QueueSpec&, const QueueSpec&) = default;
};

// What queues have held of late, those below them too: by queue and resource, in thousandths of the
// units of ResourceVector (half_life.h).
using PastUseByQueue = std::map<std::string, std::map<std::string, int64_t>>;

// Where gangs go that name no queue. Without a specification of its own it has no quota, evicts
// nothing and serves who came first.
inline constexpr const char* kDefaultQueue = "default";

using QueueIndex = std::size_t;

// Above all queues.
inline constexpr QueueIndex kTopQueue = 0;

// What a queue may not do, and by how much.
struct QuotaShortfall {
  // "queue a would be 4 GPUs over its nominal 16, and may borrow 2 GPUs", for each resource that is
  // short, up to three.
  std::string text;
  // Whether gangs that others hold above their nominal are all that is in the way, rather than a
  // limit.
  bool may_be_reclaimed = false;
};

// More of a resource than a queue itself may hold without borrowing.
struct Overpromise {
  std::string resource;
  int64_t promised = 0;  // the nominal amounts of the queues right below it, in all
  int64_t nominal = 0;   // of the queue

  friend bool operator==(const Overpromise&, const Overpromise&) = default;
};

// Queues, what each may hold and what it holds.
//
// Nominal amounts of queues below one add up to its own unless it has one written. A resource
// counts for a queue where it, one above it, or one below is given a nominal amount of it; where it
// itself has none, all that it holds is borrowed. A queue at the top for which a resource does not
// count takes what is left, and whatever it holds can be taken back by those that have a nominal
// amount.
//
// Cost: of a charge, the depth of the tree; of a question, the queues beside those on the way up.
class QueueTree {
 public:
  QueueTree();

  // These queues and the default one, holding nothing: charge them anew. Numbers of queues from
  // before mean nothing any more.
  // Errors: kInvalidArgument with the queue and its field; nothing has changed then.
  Status Set(const std::vector<QueueSpec>& specs);

  // Empty: no such queue. No name: the default queue.
  std::optional<QueueIndex> Find(const std::string& name) const;

  const QueueSpec& SpecOf(QueueIndex queue) const { return nodes_[queue].spec; }

  const std::vector<QueueIndex>& ChildrenOf(QueueIndex queue) const {
    return nodes_[queue].children;
  }

  std::size_t size() const { return nodes_.size(); }

  struct Holder {
    QueueIndex queue = 0;
    std::string space;  // namespace
  };

  // A gang begins, or ceases, to hold `amounts`.
  void Charge(const Holder& holder, const ResourceVector& amounts);
  void Refund(const Holder& holder, const ResourceVector& amounts);

  // Of what it was charged for, `amounts` are only promised, or are not so any more: it counts as
  // held, but nobody takes it back.
  void Promise(QueueIndex queue, const ResourceVector& amounts);
  void EndPromise(QueueIndex queue, const ResourceVector& amounts);

  const ResourceVector& HeldBy(QueueIndex queue) const { return nodes_[queue].held; }

  // Why jobs of the namespace may not be in the queue, behind its name: " is for jobs of namespaces
  // blue, green; this job is in team". Empty: they may.
  std::optional<std::string> ClosedTo(QueueIndex queue, const std::string& space) const;

  // Whether the queue may hold so much more.
  bool Allows(QueueIndex queue, const ResourceVector& amounts) const;

  // The same in words; empty: it may. For those who are told: putting it into words costs more.
  std::optional<QuotaShortfall> Check(QueueIndex queue, const ResourceVector& amounts) const;

  // Why the queue could not hold so much even if nobody held anything: "needs 4 GPUs, but queue q1
  // can never use more than 2 (nominal 2, may borrow none)". Empty: it could.
  std::optional<std::string> WhyNeverHeld(QueueIndex queue, const ResourceVector& amounts) const;

  // What the queue may hold without borrowing, by resource: as it is written, else the sum of what
  // the queues below it may.
  std::map<std::string, int64_t> NominalOf(QueueIndex queue) const;

  // By resource, of those that the queue has a nominal amount of written; nobody keeps the queues
  // below it from asking for all that they are promised at once.
  std::vector<Overpromise> OverpromisesOf(QueueIndex queue) const;

  // Whether it stays within its nominal amounts with so much more, beside what `victim` may lose:
  // then it may take it back. Both sides speak for the queues below the one that they share.
  bool MayReclaim(QueueIndex queue, QueueIndex victim, const ResourceVector& amounts) const;

  // The most of `resource` that gangs of `victim` could give back to `queue`: what it holds over
  // its nominal, and at most the largest of its gangs more, for gangs go whole.
  int64_t ReclaimableMax(QueueIndex queue, QueueIndex victim, const std::string& resource) const;

  // What ShareOf adds for the past, whatever queues there are; empty: nothing. It stays when they
  // are set anew.
  void SetPastUse(PastUseByQueue past) { past_use_ = std::move(past); }

  const PastUseByQueue& past_use() const { return past_use_; }

  // Orders queues of one parent, or namespaces of one queue: who has less comes first. What is over
  // nominal counts before what is held in all.
  //
  // What a queue has held of late counts as if it held that beside what it holds: of a queue that
  // would be over its nominal, the part of it that is over, too. So whoever is within its nominal
  // amounts comes first, whatever it has had.
  struct Share {
    int64_t over = 0;  // millionths of what there is, by weight
    int64_t held = 0;

    friend auto operator<=>(const Share&, const Share&) = default;
  };

  // `more`: what it would hold beside that if it were its turn; it counts for what is over.
  Share ShareOf(QueueIndex queue, const ResourceVector& all, const ResourceVector& more) const;
  // As if the namespace held `more` beside what it holds.
  Share ShareOfSpace(QueueIndex queue,
                     const std::string& space,
                     const ResourceVector& all,
                     const ResourceVector& more = {}) const;

 private:
  struct Limit {
    bool is_set = false;
    int64_t nominal = 0;
    int64_t borrowing = 0;
    int64_t lending = 0;
    int64_t held = 0;
    int64_t promised = 0;  // the part of it that nobody takes back
    bool keeps = false;    // it, or a queue below it, has a lending limit

    // Above what is its own, of what may be taken back.
    int64_t over() const { return SubtractSaturated(SubtractSaturated(held, promised), nominal); }
  };

  // Where so much more of a resource is too much, and how much of it.
  struct Shortage {
    QueueIndex at = 0;
    int64_t missing = 0;  // beside what it may borrow at all
  };

  // What one queue would hold beside what it does; no queue: kTopQueue.
  struct More {
    QueueIndex queue = kTopQueue;
    int64_t amount = 0;
  };

  struct Node {
    QueueSpec spec;
    QueueIndex parent = kTopQueue;
    int64_t depth = 0;  // of the top: 0
    std::vector<QueueIndex> children;
    std::vector<Limit> limits;  // by resources_
    ResourceVector held;
    std::map<std::string, ResourceVector> held_by_space;
    std::vector<std::map<int64_t, int64_t>> sizes;  // amounts of single gangs, by resources_
  };

  void SetLimits();
  bool CountsBelow(QueueIndex queue, const std::string& resource) const;
  void Add(const Holder& holder, const ResourceVector& amounts, int64_t times);
  void AddPromised(QueueIndex queue, const ResourceVector& amounts, int64_t times);
  // The first on the way up; empty: none.
  std::optional<Shortage> ShortAt(QueueIndex queue, std::size_t resource, int64_t amount) const;
  int64_t Kept(QueueIndex queue, std::size_t resource, bool is_idle) const;
  int64_t UnusedOf(QueueIndex queue, std::size_t resource, const More& more) const;
  int64_t KeptBeside(QueueIndex queue, std::size_t resource, bool is_idle) const;
  int64_t SharedMax(QueueIndex queue, std::size_t resource) const;
  std::string NeverText(QueueIndex queue, std::size_t resource, int64_t amount) const;
  std::set<std::string> BorrowersFrom(QueueIndex queue, std::size_t resource) const;
  QuotaShortfall ShortfallOf(const Shortage& shortage, std::size_t resource, int64_t amount) const;
  std::pair<QueueIndex, QueueIndex> Apart(QueueIndex a, QueueIndex b) const;
  bool IsOverNominal(QueueIndex queue, const ResourceVector& amounts) const;

  int64_t PastUseOf(QueueIndex queue, const std::string& resource) const;

  std::vector<Node> nodes_;  // the top first
  std::map<std::string, QueueIndex> index_by_name_;
  PastUseByQueue past_use_;
  std::vector<std::string> resources_;  // that some queue has a nominal amount of
};

}  // namespace lockstep::control
