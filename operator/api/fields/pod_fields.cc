#include "operator/api/fields/pod_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include "operator/api/fields/bounds.h"
#include "operator/api/fields/fields.h"

namespace lockstep::control {
namespace {

enum class Shape { kObject, kObjects, kText, kInteger, kBool };

struct PassedField {
  std::string_view name;
  Shape shape;
};

constexpr std::array<PassedField, 15> kContainerFields = {{
    {"imagePullPolicy", Shape::kText},
    {"lifecycle", Shape::kObject},
    {"livenessProbe", Shape::kObject},
    {"ports", Shape::kObjects},
    {"readinessProbe", Shape::kObject},
    {"resizePolicy", Shape::kObjects},
    {"securityContext", Shape::kObject},
    {"startupProbe", Shape::kObject},
    {"stdin", Shape::kBool},
    {"stdinOnce", Shape::kBool},
    {"terminationMessagePath", Shape::kText},
    {"terminationMessagePolicy", Shape::kText},
    {"tty", Shape::kBool},
    {"volumeDevices", Shape::kObjects},
    {"volumeMounts", Shape::kObjects},
}};

constexpr std::array<PassedField, 2> kInitContainerFields = {{
    {"env", Shape::kObjects},
    {"envFrom", Shape::kObjects},
}};

constexpr std::array<PassedField, 1> kResourceFields = {{
    {"claims", Shape::kObjects},
}};

constexpr std::array<PassedField, 28> kPodFields = {{
    {"activeDeadlineSeconds", Shape::kInteger},
    {"affinity", Shape::kObject},
    {"automountServiceAccountToken", Shape::kBool},
    {"dnsConfig", Shape::kObject},
    {"dnsPolicy", Shape::kText},
    {"enableServiceLinks", Shape::kBool},
    {"hostAliases", Shape::kObjects},
    {"hostIPC", Shape::kBool},
    {"hostNetwork", Shape::kBool},
    {"hostPID", Shape::kBool},
    {"hostUsers", Shape::kBool},
    {"imagePullSecrets", Shape::kObjects},
    {"os", Shape::kObject},
    {"preemptionPolicy", Shape::kText},
    {"priority", Shape::kInteger},
    {"priorityClassName", Shape::kText},
    {"readinessGates", Shape::kObjects},
    {"resourceClaims", Shape::kObjects},
    {"runtimeClassName", Shape::kText},
    {"schedulerName", Shape::kText},
    {"schedulingGates", Shape::kObjects},
    {"securityContext", Shape::kObject},
    {"serviceAccount", Shape::kText},
    {"serviceAccountName", Shape::kText},
    {"setHostnameAsFQDN", Shape::kBool},
    {"shareProcessNamespace", Shape::kBool},
    {"topologySpreadConstraints", Shape::kObjects},
    {"volumes", Shape::kObjects},
}};

std::string_view Expected(Shape shape) {
  switch (shape) {
    case Shape::kObject:
      return "an object";
    case Shape::kObjects:
      return "a list of objects";
    case Shape::kText:
      return "a string";
    case Shape::kInteger:
      return "a whole number";
    case Shape::kBool:
      return "true or false";
  }
  return "";
}

// As the API server sees it: 2.0 is whole, and what 64 bits do not hold is not.
bool IsWhole(const Json& value) {
  if (value.is_number_unsigned()) {
    return std::in_range<int64_t>(value.get<uint64_t>());
  }
  return value.is_number_integer() ||
         (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>() &&
          std::abs(value.get<double>()) < 0x1p63);
}

bool HasShape(const Json& value, Shape shape) {
  switch (shape) {
    case Shape::kObject:
      return value.is_object();
    case Shape::kObjects:
      return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& item) {
               return item.is_object();
             });
    case Shape::kText:
      return value.is_string();
    case Shape::kInteger:
      return IsWhole(value);
    case Shape::kBool:
      return value.is_boolean();
  }
  return false;
}

template <std::size_t N>
void Pass(ObjectReader& reader, const std::array<PassedField, N>& fields) {
  for (const PassedField& field : fields) {
    const Json* value = reader.Find(field.name);
    if (value != nullptr && !HasShape(*value, field.shape)) {
      reader.Fail(field.name,
                  DescribeJson(*value) + " found, expected " + std::string(Expected(field.shape)));
    } else if (field.shape == Shape::kObjects) {
      ListUpTo(reader, field.name, field.name == "ports" ? kPortsMax : kEntriesMax);
    }
  }
}

}  // namespace

void PassContainerFields(ObjectReader& container) {
  Pass(container, kContainerFields);
}

void PassInitContainerFields(ObjectReader& container) {
  PassContainerFields(container);
  Pass(container, kInitContainerFields);
}

void PassResourceFields(ObjectReader& resources) {
  Pass(resources, kResourceFields);
}

void PassPodFields(ObjectReader& spec) {
  Pass(spec, kPodFields);
}

}  // namespace lockstep::control
