#pragma once

#include <optional>
#include <vector>

#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/contract/status/status_document.h"

namespace lockstep::runtime {

// What is known of one local rank.
struct ProcessReport {
  std::optional<StatusDocument> newest;  // of the process that stands for it now
  CheckpointStatus earlier;              // of those before it
  std::optional<Step> earlier_checkpoint_step;
  std::optional<TimePoint> lost_at;   // set until a successor has started
  std::vector<TimelineEvent> losses;  // of those that were replaced, oldest first
};

// The process that has got furthest, of several the first: it speaks for all, as ranks that train
// together know the same. -1: none has told anything.
int LeadingProcess(const std::vector<ProcessReport>& reports);

// Keeps what the process of `report` has counted, for it has ended.
void CloseReport(ProcessReport* report);

// A process was lost: at `at` it was heard last, or ended.
void NoteLost(TimePoint at, ProcessReport* report);

// A process started: where one was lost before it, the document of the pod tells of both.
void NoteSuccessor(TimePoint at, ProcessReport* report);

// The document of a pod with several processes: who it is and what it has are those of `pod`, how
// far it is those of the leading process, and checkpoints are counted over all that wrote any. The
// timeline has the processes that were replaced, too: kPeerLost and kProcessStart with their rank.
// Where each process trains a model of its own (`has_own_models`), the history is the first one's,
// `models` tells of each, and the timeline has with its rank what one that replaced another went on
// by: kFirstStep, or kStateReady where its model was at its end.
StatusDocument PodStatus(const StatusDocument& pod,
                         const std::vector<ProcessReport>& reports,
                         bool has_own_models = false);

}  // namespace lockstep::runtime
