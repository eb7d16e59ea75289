#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/base/time.h"

namespace lockstep::control::sim {

// What was done to pods. Local words: an *act* is one thing that happened, to however many pods at
// once; it is *free* where somebody asked the pods to go. What an operator may count against a job
// are acts that are not free, each once.
class Casualties {
 public:
  // A new act.
  int Begin(bool is_free);

  // The act has met the pod.
  void Note(const std::string& pod_uid, int act) { acts_[pod_uid].insert(act); }

  // The act took this node. Pods that have their place there while it does not report share that
  // fate, whenever they came and even if somebody asked them to go before: nobody can tell.
  void NoteNode(const std::string& node, int act) { node_acts_[node] = act; }

  void NoteWithNode(const std::string& pod_uid, const std::string& node);

  // Something has met this pod alone; nothing new where it has met something of that kind before.
  void NoteAlone(const std::string& pod_uid, bool is_free);

  // A program of this pod has ended that its pod outlives, after so many relaunches; -1: the pod
  // has ended in another way while it was held.
  void NoteHeld(const std::string& pod_uid, int64_t relaunches);

  bool IsHit(const std::string& pod_uid) const { return acts_.count(pod_uid) > 0; }

  // What an operator saw of a job that may be counted: each act that is not free and has met a pod
  // of it, and each pod that did not come to run, by its name.
  void OfferPod(const std::string& job_uid, const std::string& pod_uid);
  void OfferName(const std::string& job_uid, const std::string& pod_name);

  // The pod is given up at `now`, for whatever has met it. An act of which another pod of the job
  // was given up longer ago than an incident stays open may be counted once more: by then nobody
  // can tell that it was the same.
  void OfferLate(const std::string& job_uid, const std::string& pod_uid, TimePoint now);

  std::size_t OfferedTo(const std::string& job_uid) const;

  // A process of the job has ended in a way that no retry cures.
  void NotePermanentEnd(const std::string& job_uid) { permanent_.insert(job_uid); }

  bool HadPermanentEnd(const std::string& job_uid) const { return permanent_.count(job_uid) > 0; }

 private:
  std::map<std::string, std::set<int>> acts_;  // by pod uid
  std::map<std::string, int> node_acts_;       // by node: the last that took it
  // By job uid and act: when the first pod that it had met was given up.
  std::map<std::pair<std::string, int>, TimePoint> answered_;
  std::set<int> free_acts_;
  std::set<std::pair<std::string, int64_t>> held_;        // by pod uid and relaunches
  std::map<std::string, std::set<std::string>> offered_;  // by job uid
  std::set<std::string> permanent_;                       // uids of jobs
  int next_act_ = 1;
};

}  // namespace lockstep::control::sim
