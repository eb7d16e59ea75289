#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "common/base/rfc3339.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/kubeclient/kube/json_scan.h"
#include "operator/kubeclient/kube/object_meta.h"
#include "operator/kubeclient/kube/pod_requests.h"
#include "operator/kubeclient/kube/resources.h"

namespace lockstep::control::kube {
namespace {

using scan::Value;

// Texts for people are cut here. Source: the kubelet's limit on a termination message.
constexpr std::size_t kTextBytesMax = 4096;

// The container that the operator looks after: the one of this name, else the first.
constexpr std::string_view kOwnContainer = "trainer";

constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";

// Every container waits like this for a moment.
constexpr std::array<std::string_view, 2> kOrdinaryWaits = {"ContainerCreating", "PodInitializing"};

std::string CutText(Value value) {
  return std::string(scan::Text(value).substr(0, kTextBytesMax));
}

// What one container asks for.
struct ContainerRequests {
  std::string name;
  ResourceVector requests;
  bool is_init = false;
  bool is_sidecar = false;
};

// How one container of the pod is doing.
struct ContainerState {
  std::string name;
  ResourceVector given;  // what its kubelet says it has, where it says so
  bool is_running = false;
  std::optional<WallTime> changed_at;  // when it started or ended
  std::string waiting_reason;
  std::string waiting_message;
  std::optional<ContainerTermination> termination;
};

// What is read before it can be put together: fields come in any order.
struct PodParts {
  ObjectMeta meta;
  Pod pod;
  PodRequests requests;
  std::string pinned_node;
  std::string own_container;
  std::vector<ContainerRequests> requested;  // in the order of the document
  std::vector<ContainerState> containers;
  std::vector<ContainerState> init_containers;
};

ResourceVector ReadRequests(Value resources) {
  ResourceVector requests;
  scan::ForEachField(resources, [&](std::string_view key, Value value) {
    if (key == "requests") {
      requests = ReadResourceVector(value);
    }
  });
  return requests;
}

// The ports that a container takes of its node. Addresses and protocols are not told apart: who
// takes a port at one address of a node keeps others from all.
ResourceVector ReadHostPorts(Value ports) {
  ResourceVector taken;
  scan::ForEachElement(ports, [&](Value port) {
    scan::ForEachField(port, [&](std::string_view key, Value value) {
      if (key == "hostPort") {
        taken.Set(HostPortResource(scan::Integer(value)), 1);
      }
    });
  });
  return taken;
}

void ReadContainers(Value containers, bool is_init, PodParts* parts) {
  scan::ForEachElement(containers, [&](Value container) {
    ContainerRequests one;
    one.is_init = is_init;
    ResourceVector host_ports;
    scan::ForEachField(container, [&](std::string_view key, Value value) {
      if (key == "name") {
        one.name = std::string(scan::Text(value));
      } else if (key == "resources") {
        one.requests = ReadRequests(value);
      } else if (key == "ports" && !is_init) {
        host_ports = ReadHostPorts(value);
      } else if (key == "restartPolicy") {
        one.is_sidecar = is_init && scan::Text(value) == "Always";
      }
    });
    if (!is_init && (parts->own_container.empty() || one.name == kOwnContainer)) {
      parts->own_container = one.name;
    }
    one.requests = Sum(one.requests, host_ports);
    parts->requested.push_back(std::move(one));
  });
}

// The node name that one term of a node selector asks for; empty where it asks for something else.
std::string ReadTermNode(Value term) {
  std::string node;
  scan::ForEachField(term, [&](std::string_view key, Value fields) {
    if (key != "matchFields") {
      return;
    }
    scan::ForEachElement(fields, [&](Value field) {
      bool is_name = false;
      bool is_in = false;
      std::vector<std::string> values;
      scan::ForEachField(field, [&](std::string_view name, Value value) {
        if (name == "key") {
          is_name = scan::Text(value) == "metadata.name";
        } else if (name == "operator") {
          is_in = scan::Text(value) == "In";
        } else if (name == "values") {
          scan::ForEachElement(value, [&](Value text) { values.emplace_back(scan::Text(text)); });
        }
      });
      if (is_name && is_in && values.size() == 1) {
        node = std::move(values.front());
      }
    });
  });
  return node;
}

// The one node that node affinity lets the pod go to; empty when there are several or any.
std::string ReadPinnedNode(Value node_affinity) {
  std::vector<std::string> nodes;
  const auto read_required = [&](std::string_view key, Value terms) {
    if (key == "nodeSelectorTerms") {
      scan::ForEachElement(terms, [&](Value term) { nodes.push_back(ReadTermNode(term)); });
    }
  };
  scan::ForEachField(node_affinity, [&](std::string_view name, Value required) {
    if (name == kRequired) {
      scan::ForEachField(required, read_required);
    }
  });
  return nodes.size() == 1 ? nodes.front() : std::string();
}

void ReadAffinity(Value affinity, PodParts* parts) {
  scan::ForEachField(affinity, [&](std::string_view kind, Value value) {
    if (kind == "nodeAffinity") {
      parts->pinned_node = ReadPinnedNode(value);
      return;
    }
    scan::ForEachField(value, [&](std::string_view name, Value terms) {
      if (name == kRequired) {
        scan::ForEachElement(terms, [&](Value) {
          parts->pod.spec.hard_rules.insert("affinity." + std::string(kind));
        });
      }
    });
  });
}

void ReadSpread(Value constraints, std::set<std::string>* hard_rules) {
  scan::ForEachElement(constraints, [&](Value one) {
    scan::ForEachField(one, [&](std::string_view name, Value value) {
      if (name == "whenUnsatisfiable" && scan::Text(value) == "DoNotSchedule") {
        hard_rules->insert("topologySpreadConstraints");
      }
    });
  });
}

std::string ReadPodGroup(Value scheduling_group) {
  std::string name;
  scan::ForEachField(scheduling_group, [&](std::string_view key, Value value) {
    if (key == "podGroupName") {
      name = std::string(scan::Text(value));
    }
  });
  return name;
}

void ReadSpec(Value spec, PodParts* parts) {
  scan::ForEachField(spec, [&](std::string_view key, Value value) {
    if (key == "nodeName") {
      parts->pod.spec.node_name = std::string(scan::Text(value));
    } else if (key == "hostname") {
      parts->pod.spec.hostname = std::string(scan::Text(value));
    } else if (key == "subdomain") {
      parts->pod.spec.subdomain = std::string(scan::Text(value));
    } else if (key == "affinity") {
      ReadAffinity(value, parts);
    } else if (key == "topologySpreadConstraints") {
      ReadSpread(value, &parts->pod.spec.hard_rules);
    } else if (key == "schedulingGates") {
      scan::ForEachElement(value,
                           [&](Value) { parts->pod.spec.hard_rules.insert(std::string(key)); });
    } else if (key == "containers" || key == "initContainers") {
      ReadContainers(value, key == "initContainers", parts);
    } else if (key == "resources") {
      parts->requests.SetPodLevel(ReadRequests(value));
    } else if (key == "overhead") {
      parts->requests.AddOverhead(ReadResourceVector(value));
    } else if (key == "terminationGracePeriodSeconds") {
      parts->pod.spec.termination_grace = std::chrono::seconds(scan::Integer(value));
    } else if (key == "nodeSelector") {
      parts->pod.spec.node_selector = scan::TextMap(value);
    } else if (key == "schedulerName") {
      parts->pod.spec.scheduler_name = std::string(scan::Text(value));
    } else if (key == "schedulingGroup") {
      parts->pod.spec.pod_group = ReadPodGroup(value);
    }
  });
}

ContainerTermination ReadTermination(Value terminated) {
  ContainerTermination termination;
  scan::ForEachField(terminated, [&](std::string_view key, Value value) {
    if (key == "exitCode") {
      termination.exit_code = static_cast<int>(scan::Integer(value));
    } else if (key == "signal") {
      termination.signal = static_cast<int>(scan::Integer(value));
    } else if (key == "reason") {
      termination.reason = std::string(scan::Text(value));
    } else if (key == "message") {
      termination.message = CutText(value);
    } else if (key == "finishedAt") {
      termination.finished_at = ParseRfc3339(scan::Text(value));
    }
  });
  return termination;
}

std::optional<WallTime> ReadTime(Value object, std::string_view wanted) {
  std::optional<WallTime> time;
  scan::ForEachField(object, [&](std::string_view key, Value value) {
    if (key == wanted) {
      time = ParseRfc3339(scan::Text(value));
    }
  });
  return time;
}

void ReadWaiting(Value waiting, ContainerState* container) {
  scan::ForEachField(waiting, [&](std::string_view key, Value text) {
    if (key == "reason") {
      container->waiting_reason = std::string(scan::Text(text));
    } else if (key == "message") {
      container->waiting_message = CutText(text);
    }
  });
}

void ReadContainerState(Value state, ContainerState* container) {
  scan::ForEachField(state, [&](std::string_view key, Value value) {
    if (scan::IsNull(value)) {
      return;
    }
    if (key == "terminated") {
      container->termination = ReadTermination(value);
      container->changed_at = container->termination->finished_at;
    } else if (key == "running") {
      container->is_running = true;
      container->changed_at = ReadTime(value, "startedAt");
    } else if (key == "waiting") {
      ReadWaiting(value, container);
    }
  });
}

std::vector<ContainerState> ReadContainerStates(Value statuses) {
  std::vector<ContainerState> containers;
  scan::ForEachElement(statuses, [&](Value status) {
    ContainerState container;
    scan::ForEachField(status, [&](std::string_view key, Value value) {
      if (key == "name") {
        container.name = std::string(scan::Text(value));
      } else if (key == "state") {
        ReadContainerState(value, &container);
      } else if (key == "allocatedResources") {
        container.given = Larger(container.given, ReadResourceVector(value));
      } else if (key == "resources") {
        container.given = Larger(container.given, ReadRequests(value));
      }
    });
    containers.push_back(std::move(container));
  });
  return containers;
}

// What PodScheduled says, since when it is true or the words with which it is false, and the words
// of DisruptionTarget=True.
void ReadPodConditions(Value conditions, PodStatus* pod) {
  scan::ForEachElement(conditions, [&](Value condition) {
    std::string type;
    std::string truth;
    std::string reason;
    std::string message;
    std::optional<WallTime> since;
    scan::ForEachField(condition, [&](std::string_view key, Value value) {
      if (key == "type") {
        type = std::string(scan::Text(value));
      } else if (key == "status") {
        truth = std::string(scan::Text(value));
      } else if (key == "reason") {
        reason = std::string(scan::Text(value));
      } else if (key == "message") {
        message = CutText(value);
      } else if (key == "lastTransitionTime") {
        since = ParseRfc3339(scan::Text(value));
      }
    });
    if (type == "PodScheduled" && truth == "False") {
      pod->unschedulable = message.empty() ? "not scheduled" : std::move(message);
    } else if (type == "PodScheduled" && truth == "True") {
      pod->progress_at = std::max(pod->progress_at, since);
    } else if (type == "DisruptionTarget" && truth == "True") {
      pod->disruption = reason.empty() ? std::move(type) : std::move(reason);
    }
  });
}

PodPhase PhaseOf(std::string_view word) {
  for (const PodPhase phase :
       {PodPhase::kPending, PodPhase::kRunning, PodPhase::kSucceeded, PodPhase::kFailed}) {
    if (word == PodPhaseName(phase)) {
      return phase;
    }
  }
  return word.empty() ? PodPhase::kPending : PodPhase::kUnknown;
}

void ReadPodStatus(Value value, PodParts* parts) {
  PodStatus& status = parts->pod.status;
  scan::ForEachField(value, [&](std::string_view key, Value field) {
    if (key == "phase") {
      status.phase = PhaseOf(scan::Text(field));
    } else if (key == "reason") {
      status.reason = std::string(scan::Text(field));
    } else if (key == "message") {
      status.message = CutText(field);
    } else if (key == "podIP") {
      status.pod_ip = std::string(scan::Text(field));
    } else if (key == "conditions") {
      ReadPodConditions(field, &status);
    } else if (key == "containerStatuses") {
      parts->containers = ReadContainerStates(field);
    } else if (key == "initContainerStatuses") {
      parts->init_containers = ReadContainerStates(field);
    }
  });
}

bool IsWorthTelling(const ContainerState& container) {
  return !container.waiting_reason.empty() &&
         std::find(kOrdinaryWaits.begin(), kOrdinaryWaits.end(), container.waiting_reason) ==
             kOrdinaryWaits.end();
}

bool IsSidecar(const PodParts& parts, const ContainerState& container) {
  return std::any_of(
      parts.requested.begin(), parts.requested.end(), [&](const ContainerRequests& one) {
        return one.is_sidecar && one.name == container.name;
      });
}

// How far the pod's init containers are.
void NoteProgress(PodParts* parts) {
  PodStatus& status = parts->pod.status;
  for (const ContainerState& container : parts->init_containers) {
    status.progress_at = std::max(status.progress_at, container.changed_at);
    status.is_initializing =
        status.is_initializing || (container.is_running && !IsSidecar(*parts, container));
  }
}

// What the containers ask for, or were given if that is more: a container that is resized in place
// keeps what it has until it gets what it wants.
ResourceVector SumUpRequests(PodParts* parts) {
  for (const ContainerRequests& one : parts->requested) {
    const std::vector<ContainerState>& states =
        one.is_init ? parts->init_containers : parts->containers;
    const auto state =
        std::find_if(states.begin(), states.end(), [&](const ContainerState& container) {
          return container.name == one.name;
        });
    const ResourceVector requests =
        state == states.end() ? one.requests : Larger(one.requests, state->given);
    if (one.is_init) {
      parts->requests.AddInitContainer(requests, one.is_sidecar);
    } else {
      parts->requests.AddContainer(requests);
    }
  }
  return parts->requests.Sum();
}

std::optional<ContainerTermination> EndOf(const ContainerState& container) {
  std::optional<ContainerTermination> end = container.termination;
  if (end.has_value()) {
    end->container = container.name;
  }
  return end;
}

// The pod's word is that of its own container; of an init container when that one is in the way.
void SumUpContainers(PodParts* parts) {
  PodStatus& status = parts->pod.status;
  std::vector<ContainerState> relevant = std::move(parts->init_containers);
  std::vector<std::string> open;
  for (ContainerState& container : parts->containers) {
    if (!container.termination) {
      open.push_back(container.name);
    }
    if (container.name == parts->own_container) {
      status.termination = EndOf(container);
      relevant.push_back(std::move(container));
    }
  }
  if (status.termination && status.phase == PodPhase::kRunning) {
    status.open_containers = std::move(open);
  }
  for (ContainerState& container : relevant) {
    if (status.waiting_reason.empty() && IsWorthTelling(container)) {
      status.waiting_reason = std::move(container.waiting_reason);
      status.waiting_message = std::move(container.waiting_message);
    }
    const bool is_failed_init = container.termination && container.termination->exit_code != 0;
    if (!status.termination && is_failed_init && status.phase == PodPhase::kFailed) {
      status.termination = EndOf(container);
    }
  }
}

}  // namespace

Result<Item<Pod>> DecodePod(std::string_view json) {
  PodParts parts;
  const Status scanned = scan::ScanObject(json, [&](std::string_view key, Value value) {
    if (key == "metadata") {
      parts.meta = ReadObjectMeta(value, kOurPrefix);
    } else if (key == "spec") {
      ReadSpec(value, &parts);
    } else if (key == "status") {
      ReadPodStatus(value, &parts);
    }
  });
  Pod& pod = parts.pod;
  pod.spec.container.requests = SumUpRequests(&parts);
  NoteProgress(&parts);
  SumUpContainers(&parts);
  pod.name = parts.meta.key.name;
  pod.namespace_name = parts.meta.key.namespace_name;
  pod.uid = parts.meta.uid;
  pod.labels = std::move(parts.meta.labels);
  pod.annotations = std::move(parts.meta.annotations);
  pod.owner_uid = parts.meta.owner_uid;
  pod.owner_job = std::move(parts.meta.owner_job);
  pod.finalizers = std::move(parts.meta.finalizers);
  pod.is_deleting = parts.meta.is_deleting;
  pod.deletion_due = parts.meta.deletion_due;
  pod.deletion_grace = parts.meta.deletion_grace;
  pod.spec.container.name = std::move(parts.own_container);
  if (pod.spec.node_name.empty()) {
    pod.status.is_unbound = true;
    pod.spec.node_name = std::move(parts.pinned_node);
  }
  return MakeItem(scanned, std::move(parts.meta), std::move(parts.pod));
}

}  // namespace lockstep::control::kube
