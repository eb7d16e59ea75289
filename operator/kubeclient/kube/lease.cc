#include "operator/kubeclient/kube/lease.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/json/json.h"

namespace lockstep::control::kube {
namespace {

using std::chrono::seconds;

// What another's lease may say about how long it holds. Choice: a wrong number must not keep
// everybody out for ever.
constexpr seconds kDurationMax{300};

// Of a lease that was given up. Source: client-go.
constexpr seconds kReleasedDuration{1};

// Of a lease that was deleted before it was seen again.
constexpr const char* kUnknownHolder = "(unknown)";

}  // namespace

Status CheckLeaseOptions(const LeaseOptions& options) {
  if (options.namespace_name.empty() || options.name.empty() || options.identity.empty()) {
    return Error(ErrorCode::kInvalidArgument, "a lease needs a namespace, a name and an identity");
  }
  // The leader's own patience must end well before another's, and leave time for a second try.
  if (options.lease_duration <= options.renew_deadline ||
      options.renew_deadline <= options.retry_period * 6 / 5 ||
      options.retry_period <= std::chrono::milliseconds::zero()) {
    return Error(ErrorCode::kInvalidArgument,
                 "expected lease duration > renew deadline > 1.2 x retry period > 0");
  }
  if (options.lease_duration < seconds(1)) {
    return Error(ErrorCode::kInvalidArgument, "a lease must last at least one second");
  }
  return OkStatus();
}

LeaseElection::LeaseElection(LeaseOptions options, uint64_t seed)
    : options_(std::move(options)), prng_(seed) {
  const Status checked = CheckLeaseOptions(options_);
  LOCKSTEP_CHECK(checked.ok(), checked.error().ToString());
}

void LeaseElection::Annotate(const std::string& name, const std::string& value) {
  options_.annotations.erase(name);
  if (!value.empty()) {
    options_.annotations[name] = value;
  }
}

LeaseElection::Next LeaseElection::NextRequest(TimePoint now, WallTime wall_now) {
  const TimePoint when = std::max(now, not_before_);
  if (has_led_ && leads_until_ <= when) {
    step_ = Step::kRead;  // lost: what is written now would keep others waiting
  }
  const std::string& space = options_.namespace_name;
  switch (step_) {
    case Step::kRead:
      break;
    case Step::kCreate:
      return {when, Create(kLeases, space, Encode(OwnRecord(wall_now), wall_now))};
    case Step::kWrite:
      return {when, Update(kLeases, space, options_.name, Encode(OwnRecord(wall_now), wall_now))};
  }
  return {when, Get(kLeases, space, options_.name)};
}

// The record that says that we lead.
LeaseElection::Record LeaseElection::OwnRecord(WallTime wall_now) const {
  Record own = record_;
  own.duration = std::chrono::ceil<seconds>(options_.lease_duration);
  if (own.holder != options_.identity) {
    own.holder = options_.identity;
    own.acquire_time = FormatMicroTime(wall_now);
    own.transitions += record_.resource_version.empty() ? 0 : 1;
  }
  return own;
}

std::string LeaseElection::Encode(const Record& record, WallTime renew_time) const {
  Json metadata = {{"name", options_.name}, {"namespace", options_.namespace_name}};
  if (!options_.labels.empty()) {
    metadata["labels"] = options_.labels;
  }
  if (!options_.annotations.empty()) {
    metadata["annotations"] = options_.annotations;
  }
  if (!record.resource_version.empty()) {
    metadata["resourceVersion"] = record.resource_version;
  }
  Json spec = {{"holderIdentity", record.holder},
               {"leaseDurationSeconds", record.duration.count()},
               {"renewTime", FormatMicroTime(renew_time)},
               {"leaseTransitions", record.transitions}};
  if (!record.acquire_time.empty()) {
    spec["acquireTime"] = record.acquire_time;
  }
  return DumpJson({{"apiVersion", "coordination.k8s.io/v1"},
                   {"kind", "Lease"},
                   {"metadata", std::move(metadata)},
                   {"spec", std::move(spec)}});
}

Result<LeaseElection::Record> LeaseElection::ParseRecord(const Reply& reply) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json json, ParseJson(reply.body));
  std::vector<Error> errors;
  Record record;
  const Json empty = Json::object();
  ObjectReader root(json, "", &errors);
  const Json* const metadata = root.Require("metadata", "an object");
  const Json* const spec = root.Find("spec");
  ObjectReader meta(metadata != nullptr ? *metadata : empty, "metadata", &errors);
  ObjectReader fields(spec != nullptr ? *spec : empty, "spec", &errors);
  record.resource_version = meta.String("resourceVersion").value_or("");
  record.holder = fields.String("holderIdentity").value_or("");
  record.acquire_time = fields.String("acquireTime").value_or("");
  record.duration = seconds(fields.Int("leaseDurationSeconds").value_or(0));
  record.transitions = fields.Int("leaseTransitions").value_or(0);
  if (record.resource_version.empty()) {
    meta.Fail("resourceVersion", "is missing");
  }
  if (!errors.empty()) {
    return std::move(errors.front());
  }
  return record;
}

void LeaseElection::OnResult(const CallResult& result, TimePoint sent, TimePoint now) {
  if (step_ == Step::kRead) {
    OnRead(result, now);
  } else {
    OnWritten(result, sent, now);
  }
}

void LeaseElection::OnRead(const CallResult& result, TimePoint now) {
  const auto* reply = std::get_if<Reply>(&result);
  const bool is_missing = reply != nullptr && reply->status == 404;
  Result<Record> record = reply != nullptr && reply->is_success()
                              ? ParseRecord(*reply)
                              : Error(ErrorCode::kUnavailable, "no answer");
  not_before_ = now + (has_led_ ? Duration(options_.retry_period) : StandbyPause());
  if (!is_missing && !record.ok()) {
    return;
  }
  if (record.ok()) {
    Observe(*std::move(record), now);
  } else if (!record_.resource_version.empty()) {
    record_.resource_version.clear();
    observed_at_ = now;  // deleted, and nobody knows when: its holder may believe in it for as long
    if (role(now) != LeaseRole::kLeader) {
      record_.holder = kUnknownHolder;  // may be another than the one that was seen last
    }
  }
  if (has_led_ && leads_until_ <= now) {
    return;  // lost
  }
  if (IsFree(now)) {
    step_ = is_missing ? Step::kCreate : Step::kWrite;
    not_before_ = now;
  }
}

void LeaseElection::OnWritten(const CallResult& result, TimePoint sent, TimePoint now) {
  const auto* reply = std::get_if<Reply>(&result);
  if (reply != nullptr && reply->is_success()) {
    Result<Record> record = ParseRecord(*reply);
    if (record.ok() && record->holder == options_.identity) {
      const TimePoint until = sent + options_.renew_deadline;
      const bool may_lead = now < (has_led_ ? leads_until_ : until);
      if (may_lead || (step_ == Step::kWrite && record_.resource_version == led_version_)) {
        led_version_ = record->resource_version;
      }
      Observe(*std::move(record), now);
      if (may_lead) {
        has_led_ = true;
        leads_until_ = until;
      }
      step_ = Step::kWrite;
      not_before_ = sent + options_.retry_period;
      return;
    }
  }
  // Written by somebody else, or nobody knows: look first. A conflict was decided by the server, so
  // nothing is gained by waiting.
  step_ = Step::kRead;
  const bool is_conflict = reply != nullptr && (reply->status == 409 || reply->status == 404);
  not_before_ = now + (has_led_ ? Duration(options_.retry_period) : StandbyPause());
  if (is_conflict && has_led_) {
    not_before_ = now;
  }
}

void LeaseElection::Observe(Record record, TimePoint now) {
  if (record.resource_version != record_.resource_version || record.holder != record_.holder) {
    observed_at_ = now;
  }
  record_ = std::move(record);
  if (record_.holder != options_.identity) {
    Lose();
  }
}

// Whether nobody else may believe that it leads. One's own lease is free only if no other version
// was between: else it may have been another's, who does not know yet that it was deleted.
bool LeaseElection::IsFree(TimePoint now) const {
  const bool is_ours = record_.holder == options_.identity &&
                       (!has_lost_ || record_.resource_version == led_version_);
  const bool is_of_the_dead = record_.holder != options_.identity && !options_.succession.empty() &&
                              record_.holder.starts_with(options_.succession);
  if (record_.holder.empty() || is_ours || is_of_the_dead || role(now) == LeaseRole::kLeader) {
    return true;
  }
  const Duration promised = record_.duration > seconds::zero()
                                ? Duration(std::min(record_.duration, kDurationMax))
                                : Duration(options_.lease_duration);
  return now >= observed_at_ + promised;
}

void LeaseElection::Lose() {
  leads_until_ = TimePoint::min();
}

void LeaseElection::Rejoin() {
  has_led_ = false;
  has_lost_ = true;
  Lose();
  step_ = Step::kRead;
  not_before_ = TimePoint{};
}

LeaseRole LeaseElection::role(TimePoint now) const {
  if (!has_led_) {
    return LeaseRole::kStandby;
  }
  return now < leads_until_ ? LeaseRole::kLeader : LeaseRole::kLost;
}

std::optional<Request> LeaseElection::Release(WallTime wall_now) {
  const bool is_ours = has_led_ && record_.holder == options_.identity;
  Lose();
  if (!is_ours || record_.resource_version.empty()) {
    return std::nullopt;
  }
  Record released = record_;
  released.holder.clear();
  released.duration = kReleasedDuration;
  return Update(kLeases, options_.namespace_name, options_.name, Encode(released, wall_now));
}

// Choice: often enough that a lease given up is taken within two seconds at the default period, and
// never in step with another standby.
Duration LeaseElection::StandbyPause() {
  const Duration half = Duration(options_.retry_period) / 2;
  return half + Duration(prng_.Below(static_cast<uint64_t>(half.count() / 2)));
}

}  // namespace lockstep::control::kube
