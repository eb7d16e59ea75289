#include "operator/cmd/queue_metrics.h"

#include <algorithm>
#include <set>

#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

using Labels = std::map<std::string, std::string>;
using Gauges = prometheus::Family<prometheus::Gauge>;

int64_t AmountOf(const QueueAmounts& amounts, const std::string& resource) {
  const auto found = amounts.find(resource);
  return found == amounts.end() ? 0 : found->second;
}

// Cores of CPUs, as Prometheus counts in base units.
double InBaseUnits(const std::string& resource, int64_t amount) {
  return static_cast<double>(amount) / (resource == kCpuResource ? 1000 : 1);
}

}  // namespace

struct QueueMetrics::Families {
  // Gauges whose labels come and go.
  class LabelledGauges {
   public:
    LabelledGauges(prometheus::Registry* registry, const char* name, const char* help)
        : family_(prometheus::BuildGauge().Name(name).Help(help).Register(*registry)) {}

    void Set(const Labels& labels, double value) {
      prometheus::Gauge& gauge = family_.Add(labels);
      gauge.Set(value);
      known_[labels] = &gauge;
      told_.insert(labels);
    }

    // Those that were not set since the last call are no more.
    void DropOthers() {
      std::erase_if(known_, [&](const auto& one) {
        const bool is_told = told_.contains(one.first);
        if (!is_told) {
          family_.Remove(one.second);
        }
        return !is_told;
      });
      told_.clear();
    }

   private:
    Gauges& family_;
    std::map<Labels, prometheus::Gauge*> known_;
    std::set<Labels> told_;
  };

  explicit Families(prometheus::Registry* registry)
      : nominal(registry,
                "lockstep_queue_nominal",
                "Amount of a resource that a queue may hold without borrowing."),
        used(
            registry, "lockstep_queue_used", "Amount of a resource that the jobs of a queue hold."),
        borrowed(registry,
                 "lockstep_queue_borrowed",
                 "Amount of a resource that the jobs of a queue hold above its nominal amount."),
        waiting(registry, "lockstep_queue_waiting_jobs", "Jobs of a queue that are not placed."),
        oldest_wait(registry,
                    "lockstep_queue_oldest_wait_seconds",
                    "Wait of the job that has waited longest in a queue; 0 if no job waits.") {}

  LabelledGauges nominal;
  LabelledGauges used;
  LabelledGauges borrowed;
  LabelledGauges waiting;
  LabelledGauges oldest_wait;
  std::map<std::string, std::set<std::string>> resources;  // that a queue has had, or may have
};

QueueMetrics::QueueMetrics(prometheus::Registry* registry)
    : families_(std::make_unique<Families>(registry)) {}

QueueMetrics::~QueueMetrics() = default;

void QueueMetrics::Set(const std::map<std::string, QueueStatus>& queues, WallTime now) {
  Families& all = *families_;
  std::erase_if(all.resources, [&](const auto& known) { return !queues.contains(known.first); });
  for (const auto& [name, status] : queues) {
    std::set<std::string>& resources = all.resources[name];
    for (const auto& [resource, amount] : status.nominal) {
      all.nominal.Set({{"queue", name}, {"resource", resource}}, InBaseUnits(resource, amount));
      resources.insert(resource);
    }
    for (const auto& [resource, amount] : status.used) {
      resources.insert(resource);
    }
    for (const std::string& resource : resources) {
      const Labels labels = {{"queue", name}, {"resource", resource}};
      all.used.Set(labels, InBaseUnits(resource, AmountOf(status.used, resource)));
      all.borrowed.Set(labels, InBaseUnits(resource, AmountOf(status.borrowed, resource)));
    }
    all.waiting.Set({{"queue", name}}, static_cast<double>(status.waiting));
    // A clock that was set back makes nothing wait for less than no time.
    const Duration waited = now - status.oldest_wait.value_or(now);
    all.oldest_wait.Set({{"queue", name}}, std::max(0.0, ToSeconds(waited)));
  }
  for (Families::LabelledGauges* const gauges :
       {&all.nominal, &all.used, &all.borrowed, &all.waiting, &all.oldest_wait}) {
    gauges->DropOthers();
  }
}

}  // namespace lockstep::control
