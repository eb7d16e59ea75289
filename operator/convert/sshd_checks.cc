#include "operator/convert/sshd_checks.h"

#include <algorithm>
#include <array>
#include <string>

namespace lockstep::control {
namespace {

// A port as it is written, or the number of the container's port of that name.
Json PortOf(const Json& written, const Json& container) {
  const Json ports = MemberOf(container, "ports");
  for (const Json& one : ports.is_array() ? ports : Json::array()) {
    if (written.is_string() && MemberOf(one, "name") == written) {
      return MemberOf(one, "containerPort");
    }
  }
  return written;
}

// Whether a probe, or the handler of a hook, asks for sshd or starts it.
bool IsOfSshd(const Json& check, const Json& container) {
  constexpr std::array<int, 2> kPorts = {22, 2222};  // of sshd in images for MPIJobs
  const Json port = PortOf(MemberOf(MemberOf(check, "tcpSocket"), "port"), container);
  if (std::find(kPorts.begin(), kPorts.end(), port) != kPorts.end()) {
    return true;
  }
  const Json exec = MemberOf(check, "exec");
  return exec.is_object() && DumpJson(exec).find("ssh") != std::string::npos;
}

// Of the members `keys` of `object`, which stands at `path`.
template <std::size_t kCount>
void DropFrom(Json* object,
              const std::array<const char*, kCount>& keys,
              const std::string& path,
              const Json& container,
              Conversion* conversion) {
  for (const char* const key : keys) {
    const Json check = object->value(key, Json());
    if (check.is_null()) {
      continue;
    }
    const bool is_of_sshd = IsOfSshd(check, container);
    conversion->notes.push_back(
        {path + "." + key,
         is_of_sshd ? "not kept: it checks or controls sshd, which no pod of the job runs"
                    : "kept, but check it: the pod ran sshd before, and runs the program now"});
    if (is_of_sshd) {
      object->erase(key);
    }
  }
}

}  // namespace

void DropChecksOfSshd(ConvertedPod* pod, Conversion* conversion) {
  constexpr std::array<const char*, 3> kProbes = {
      "readinessProbe", "livenessProbe", "startupProbe"};
  constexpr std::array<const char*, 2> kHooks = {"postStart", "preStop"};
  const std::string& path = pod->container_path;
  const Json container = pod->container();
  DropFrom(&pod->container(), kProbes, path, container, conversion);
  const auto lifecycle = pod->container().find("lifecycle");
  if (lifecycle != pod->container().end() && lifecycle->is_object()) {
    DropFrom(&*lifecycle, kHooks, path + ".lifecycle", container, conversion);
    if (lifecycle->empty()) {
      pod->container().erase("lifecycle");
    }
  }
}

}  // namespace lockstep::control
