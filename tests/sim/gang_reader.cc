#include "tests/sim/gang_reader.h"

#include <algorithm>

#include "common/base/rfc3339.h"
#include "tests/sim/object_store.h"
#include "tests/sim/selector.h"

namespace lockstep::control::sim {
namespace {

// Of one container.
constexpr std::size_t kPortsRead = 64;

const Json* FindIn(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

const Json* Find(const Json& object, const char* first, const char* second) {
  const auto found = object.find(first);
  if (found == object.end() || !found->is_object()) {
    return nullptr;
  }
  const auto inner = found->find(second);
  return inner == found->end() ? nullptr : &*inner;
}

// What a pod of the role asks for, as its manifest says.
Amounts RequestsOf(const Json& role) {
  const Json* const spec = Find(role, "template", "spec");
  Amounts amounts = RequestsOfSpec(spec == nullptr ? Json::object() : *spec);
  amounts["nvidia.com/gpu"] = role.value("gpus", int64_t{0}) * 1000;
  return amounts;
}

void Move(const Json& job, int64_t sign, AmountsByNode* free) {
  const Json* const places = Find(job, "status", "placement");
  if (places == nullptr) {
    return;
  }
  const Amounts request = RequestsOf(job.at("spec").at("roles").at(0));
  for (const Json& place : *places) {
    const auto node = free->find(TextAt(place, "node"));
    if (node == free->end() || place.value("completed", false)) {
      continue;
    }
    for (const auto& [name, amount] : request) {
      node->second[name] += sign * amount;
    }
  }
}

}  // namespace

bool IsOlder(const Json& a, const Json& b) {
  const auto age = [](const Json& job) {
    return TextAt(job, "metadata.creationTimestamp") + " " + TextAt(job, "metadata.name");
  };
  return age(a) < age(b);
}

std::optional<WallTime> TimeAt(const Json& object, std::string_view path) {
  const std::string text = TextAt(object, path);
  return text.empty() ? std::nullopt : ParseRfc3339(text);
}

bool HasPlaces(const Json& job) {
  const Json* const places = Find(job, "status", "placement");
  return places != nullptr && !places->empty();
}

bool WantsPlaces(const Json& job) {
  const Json* const suspend = Find(job.at("spec"), "runPolicy", "suspend");
  return !HasPlaces(job) && TextAt(job, "status.completionTime").empty() && !IsDeleting(job) &&
         !IsUnreadable(job) && (suspend == nullptr || !suspend->get<bool>());
}

bool HoldsPlaces(const Json& job) {
  return HasPlaces(job) && TextAt(job, "status.completionTime").empty() && !IsDeleting(job);
}

int64_t CompletedCount(const Json& job) {
  const Json* const places = Find(job, "status", "placement");
  return places == nullptr ? 0
                           : std::count_if(places->begin(), places->end(), [](const Json& place) {
                               return place.value("completed", false);
                             });
}

bool IsPausing(const Json& job, WallTime now) {
  const std::optional<WallTime> retry_at = TimeAt(job, "status.retryAt");
  return retry_at.has_value() && *retry_at > now;
}

const Json* WhyUnscheduled(const Json& job) {
  const Json* const conditions = Find(job, "status", "conditions");
  if (conditions == nullptr) {
    return nullptr;
  }
  const auto found =
      std::find_if(conditions->begin(), conditions->end(), [](const Json& condition) {
        return TextAt(condition, "type") == "Scheduled";
      });
  return found == conditions->end() || TextAt(*found, "status") != "False" ? nullptr : &*found;
}

bool FitsGang(const AmountsByNode& free, const Json& job) {
  const Json& role = job.at("spec").at("roles").at(0);
  const Amounts request = RequestsOf(role);
  int64_t missing = role.at("replicas").get<int64_t>();
  for (const auto& [node, amounts] : free) {
    missing -= std::min(missing, CountThatFits(amounts, request));
  }
  return missing == 0;
}

bool IsUnreadable(const Json& job) {
  const Json& spec = job.at("spec");
  const Json* const pod = Find(spec.at("roles").at(0), "template", "spec");
  if (spec.contains("fromANewerVersion") || pod == nullptr) {
    return spec.contains("fromANewerVersion");
  }
  const Json* const ports =
      pod->contains("containers") ? FindIn(pod->at("containers").at(0), "ports") : nullptr;
  return pod->contains("deep") || (ports != nullptr && ports->size() > kPortsRead);
}

Json WithoutUnreadable(Json job) {
  Json& spec = job["spec"];
  spec.erase("fromANewerVersion");
  if (!spec["roles"][0].contains("template")) {
    return job;
  }
  Json& pod = spec["roles"][0]["template"]["spec"];
  pod.erase("deep");
  if (Json& first = pod["containers"][0];
      first.contains("ports") && first["ports"].size() > kPortsRead) {
    first.erase("ports");
  }
  return job;
}

void TakePlaces(const Json& job, AmountsByNode* free) {
  Move(job, -1, free);
}

void GiveBackPlaces(const Json& job, AmountsByNode* free) {
  Move(job, 1, free);
}

}  // namespace lockstep::control::sim
