#include "operator/cmd/other_operators.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/rfc3339.h"
#include "common/json/json.h"

namespace lockstep::control {
namespace {

constexpr const char* kAll = "*";

// Leases of those at work are renewed every few seconds; calendars differ. Choice.
constexpr Duration kRenewedMax = std::chrono::seconds(60);

struct FoundLease {
  std::string namespace_name;
  std::string name;
  std::string created;  // RFC 3339: compares as text
  std::set<std::string> namespaces;
  bool is_held = false;
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

bool WasRenewed(const std::string& renewed, WallTime now) {
  // Microseconds are cut off: "2026-01-02T03:04:05.123456Z".
  const std::optional<WallTime> when = ParseRfc3339(renewed.substr(0, 19) + "Z");
  return when.has_value() && now - *when <= kRenewedMax;
}

FoundLease Read(const Json& json, WallTime now, std::vector<Error>* errors) {
  FoundLease lease;
  ObjectReader root(json, "items", errors);
  const Json empty = Json::object();
  const Json* const metadata = root.Find("metadata");
  const Json* const spec = root.Find("spec");
  ObjectReader meta(metadata != nullptr ? *metadata : empty, "metadata", errors);
  ObjectReader fields(spec != nullptr ? *spec : empty, "spec", errors);
  lease.namespace_name = meta.String("namespace").value_or("");
  lease.name = meta.String("name").value_or("");
  lease.created = meta.String("creationTimestamp").value_or("");
  const Json* const annotations = meta.Find("annotations");
  ObjectReader notes(annotations != nullptr ? *annotations : empty, "annotations", errors);
  lease.namespaces = ParseServed(notes.String(kServedAnnotation).value_or(kAll));
  lease.is_held = !fields.String("holderIdentity").value_or("").empty() &&
                  WasRenewed(fields.String("renewTime").value_or(""), now);
  return lease;
}

bool Overlap(const std::set<std::string>& a, const std::set<std::string>& b) {
  return a.empty() || b.empty() ||
         std::any_of(a.begin(), a.end(), [&](const std::string& one) { return b.count(one) > 0; });
}

}  // namespace

std::string DescribeServed(const std::set<std::string>& namespaces) {
  std::string text;
  for (const std::string& name : namespaces) {
    text += (text.empty() ? "" : ",") + name;
  }
  return text.empty() ? kAll : text;
}

kube::Request ListOperatorLeases() {
  return kube::List({kube::kLeases, "", kOperatorLabel, ""}, {});
}

Status CheckNoOtherOperator(std::string_view leases, const OperatorScope& own, WallTime now) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json json, ParseJson(leases));
  std::vector<Error> errors;
  ObjectReader root(json, "", &errors);
  std::vector<FoundLease> others;
  std::optional<FoundLease> ours;
  for (const Json* item : root.List("items")) {
    FoundLease lease = Read(*item, now, &errors);
    if (lease.namespace_name == own.lease_namespace && lease.name == own.lease_name) {
      ours = std::move(lease);
    } else if (lease.is_held && Overlap(lease.namespaces, own.namespaces)) {
      others.push_back(std::move(lease));
    }
  }
  const auto age = [](const FoundLease& lease) {
    return std::tie(lease.created, lease.namespace_name, lease.name);
  };
  for (const FoundLease& other : others) {
    if (!ours || age(other) < age(*ours)) {
      return Error(ErrorCode::kAborted,
                   "the operator with the lease " + other.namespace_name + "/" + other.name +
                       " serves " + DescribeServed(other.namespaces) + ", we " +
                       DescribeServed(own.namespaces) + ": two would undo each other's work");
    }
  }
  return OkStatus();
}

}  // namespace lockstep::control
