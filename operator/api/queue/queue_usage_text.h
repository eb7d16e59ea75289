#pragma once

#include <string>

#include "operator/api/queue/training_queue.h"

namespace lockstep::control {

// What the queue's jobs hold of what it may hold, on one short line for tables: "gpu 4/16, cpu
// 10.5/64, memory 80Gi/256Gi". Devices come first, by their names without the vendor where no other
// that is shown has the same; amounts are rounded. Resources without a nominal amount are left out;
// of a queue that has none at all it is told what is held: "gpu 4, cpu 10.5". Empty: nothing of
// either.
std::string UsageText(const QueueStatus& status);

}  // namespace lockstep::control
