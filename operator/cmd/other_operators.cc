#include "operator/cmd/other_operators.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/json/json.h"

namespace lockstep::control {
namespace {

constexpr const char* kAll = "*";
constexpr const char* kPredecessorLease = "lockstep-operator";

// Of a lease that does not say how long it lasts, or says something odd. Choices: our own default,
// and four times that.
constexpr int64_t kLastsSeconds = 15;
constexpr int64_t kLastsSecondsMax = 60;

// Answers may be as old when they are judged. Choice: longer than a call takes on a busy server.
constexpr Duration kAnswerAgeMax = std::chrono::seconds(5);

struct FoundLease {
  std::string namespace_name;
  std::string name;
  std::string created;  // RFC 3339: compares as text
  std::set<std::string> namespaces;
  LeaseSights::Sign sign = LeaseSights::Sign::kSilent;
  bool gives_way = false;
  bool is_labelled = false;

  std::string Name() const { return namespace_name + "/" + name; }
};

std::set<std::string> ParseServed(const std::string& text) {
  std::set<std::string> namespaces;
  for (std::size_t at = 0; text != kAll && at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) {
      namespaces.insert(text.substr(at, end - at));
    }
    at = end + 1;
  }
  return namespaces;
}

FoundLease Read(const Json& json, TimePoint now, LeaseSights* sights) {
  FoundLease lease;
  std::vector<Error> ignored;
  std::vector<Error>* const errors = &ignored;
  ObjectReader root(json, "items", errors);
  const Json empty = Json::object();
  const Json* const metadata = root.Find("metadata");
  const Json* const spec = root.Find("spec");
  ObjectReader meta(metadata != nullptr ? *metadata : empty, "metadata", errors);
  ObjectReader fields(spec != nullptr ? *spec : empty, "spec", errors);
  lease.namespace_name = meta.String("namespace").value_or("");
  lease.name = meta.String("name").value_or("");
  lease.created = meta.String("creationTimestamp").value_or("");
  const Json* const labels = meta.Find("labels");
  lease.is_labelled = labels != nullptr && labels->is_object() && labels->contains(kOperatorLabel);
  const Json* const annotations = meta.Find("annotations");
  ObjectReader notes(annotations != nullptr ? *annotations : empty, "annotations", errors);
  lease.namespaces = ParseServed(notes.String(kServedAnnotation).value_or(kAll));
  lease.gives_way = notes.String(kGivesWayAnnotation).value_or("") == "true";
  if (fields.String("holderIdentity").value_or("").empty()) {
    sights->Forget(lease.Name());
    return lease;
  }
  const int64_t lasts = fields.Int("leaseDurationSeconds", 1).value_or(kLastsSeconds);
  lease.sign = sights->See(lease.Name(),
                           meta.String("resourceVersion").value_or(""),
                           std::chrono::seconds(std::min(lasts, kLastsSecondsMax)),
                           now);
  return lease;
}

bool Overlap(const std::set<std::string>& a, const std::set<std::string>& b) {
  return a.empty() || b.empty() ||
         std::any_of(a.begin(), a.end(), [&](const std::string& one) { return b.count(one) > 0; });
}

bool IsOlder(const FoundLease& a, const FoundLease& b) {
  return std::tie(a.created, a.namespace_name, a.name) <
         std::tie(b.created, b.namespace_name, b.name);
}

std::string Describe(const FoundLease& other, const OperatorScope& own) {
  return "the operator with the lease " + other.Name() + " serves " +
         DescribeServed(other.namespaces) + ", and this operator serves " +
         DescribeServed(own.namespaces) + ": two operators would undo each other's work";
}

// Of a lease that may or may not be somebody's.
OthersFinding AwaitSign(const FoundLease& lease) {
  return {Precedence::kAwait,
          "this operator waits a moment to see whether the operator with the lease " +
              lease.Name() +
              " is active; if that operator is gone for good, delete its Lease to end the wait",
          true};
}

// Where our own lease is not in the list, all others are taken for older.
std::vector<OtherRelease> ReleasesOf(std::vector<FoundLease> leases,
                                     const std::optional<FoundLease>& ours) {
  std::sort(leases.begin(), leases.end(), IsOlder);
  std::vector<OtherRelease> releases;
  for (const FoundLease& lease : leases) {
    releases.push_back({lease.Name(), lease.namespaces, !ours || IsOlder(lease, *ours)});
  }
  return releases;
}

// Of those at work that serve a namespace of ours.
OthersFinding JudgeRivals(const std::vector<FoundLease>& leases,
                          const std::optional<FoundLease>& ours,
                          const OperatorScope& own) {
  OthersFinding finding;
  for (const FoundLease& other : leases) {
    if (other.sign == LeaseSights::Sign::kSilent || other.gives_way ||
        !Overlap(other.namespaces, own.namespaces)) {
      continue;
    }
    if (other.sign == LeaseSights::Sign::kUnproven) {
      finding = finding.precedence == Precedence::kFirst ? AwaitSign(other) : finding;
      continue;
    }
    if (!ours || IsOlder(other, *ours)) {
      return OthersFinding{Precedence::kGiveWay, Describe(other, own), false};
    }
    finding = {
        Precedence::kAwait,
        Describe(other, own) + "; the other operator has the newer Lease, so that operator stops",
        false};
  }
  if (finding.precedence == Precedence::kFirst && ours && ours->gives_way) {
    finding = {Precedence::kReturn,
               "no other operator is in the way any more; this operator starts again when it has "
               "removed the annotation " +
                   std::string(kGivesWayAnnotation) + " from its own Lease",
               false};
  }
  return finding;
}

OthersFinding JudgeList(const Json& list,
                        const OperatorScope& own,
                        TimePoint now,
                        LeaseSights* sights) {
  std::vector<Error> ignored;
  ObjectReader root(list, "", &ignored);
  std::vector<FoundLease> others;
  std::optional<FoundLease> ours;
  for (const Json* item : root.List("items")) {
    FoundLease lease = Read(*item, now, sights);
    if (lease.namespace_name == own.lease_namespace && lease.name == own.lease_name) {
      ours = std::move(lease);
    } else {
      others.push_back(std::move(lease));
    }
  }
  OthersFinding finding = JudgeRivals(others, ours, own);
  finding.releases = ReleasesOf(std::move(others), ours);
  return finding;
}

// The lease of a chart before, which nobody labelled: its operator ends when this one is ready.
Result<OthersFinding> JudgePredecessor(const std::string& body,
                                       TimePoint now,
                                       LeaseSights* sights) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json json, ParseJson(body));
  const FoundLease lease = Read(json, now, sights);
  if (lease.sign == LeaseSights::Sign::kSilent || lease.is_labelled) {
    return OthersFinding{};  // of another release with that name: it was in the list
  }
  return OthersFinding{Precedence::kAwait,
                       "the operator with the lease " + lease.Name() + " has not ended yet",
                       true};
}

}  // namespace

LeaseSights::Sign LeaseSights::See(const std::string& name,
                                   const std::string& version,
                                   Duration lasts,
                                   TimePoint now) {
  const auto row = rows_.try_emplace(name, Row{version, now, false}).first;
  if (row->second.version != version) {
    row->second = {version, now, true};
  }
  if (now - row->second.since > lasts + kAnswerAgeMax) {
    return Sign::kSilent;
  }
  return row->second.has_changed ? Sign::kHeld : Sign::kUnproven;
}

std::string DescribeServed(const std::set<std::string>& namespaces) {
  std::string text;
  for (const std::string& name : namespaces) {
    text += (text.empty() ? "" : ",") + name;
  }
  return text.empty() ? kAll : text;
}

std::vector<kube::Request> LookForOthers(const OperatorScope& own) {
  return {kube::List({kube::kLeases, "", kOperatorLabel, ""}, {}),
          kube::Get(kube::kLeases, own.lease_namespace, kPredecessorLease)};
}

Result<OthersFinding> JudgeOthers(const std::vector<kube::CallResult>& answers,
                                  const OperatorScope& own,
                                  TimePoint now,
                                  LeaseSights* sights) {
  LOCKSTEP_CHECK(answers.size() == 2, "expected an answer to each of the two requests");
  const auto* const reply = std::get_if<kube::Reply>(&answers[0]);
  OthersFinding finding;
  if (reply != nullptr && reply->status == kube::kHttpForbidden) {
    finding.why =
        "this operator has no right to read the Leases of other operators, so it cannot tell "
        "whether another operator serves the same jobs";
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(const kube::Reply list, kube::RequireSuccess(answers[0]));
    LOCKSTEP_ASSIGN_OR_RETURN(const Json json, ParseJson(list.body));
    finding = JudgeList(json, own, now, sights);
  }
  const auto* const predecessor = std::get_if<kube::Reply>(&answers[1]);
  const bool may_be_there = predecessor == nullptr || (predecessor->status != kube::kHttpNotFound &&
                                                       predecessor->status != kube::kHttpForbidden);
  if (finding.precedence != Precedence::kFirst || own.lease_name == kPredecessorLease ||
      !may_be_there) {
    return finding;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::Reply found, kube::RequireSuccess(answers[1]));
  LOCKSTEP_ASSIGN_OR_RETURN(OthersFinding before, JudgePredecessor(found.body, now, sights));
  before.releases = finding.releases;
  return before.precedence == Precedence::kFirst ? finding : before;
}

}  // namespace lockstep::control
