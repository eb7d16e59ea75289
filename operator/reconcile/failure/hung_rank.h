#pragma once

#include <chrono>
#include <set>
#include <string>

#include "operator/api/job/training_job.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Ranks that hang: a connected peer of the same epoch has heard nothing of them for `silent_after`,
// and they give no fresh report of their own. Both are required: a rank that still answers is not
// killed because one connection is slow, and a rank whose report is late is not killed while its
// peers hear it. Where nobody gives fresh reports nobody is suspected: then the observer is blind.
std::set<int> HangingRanks(const GangView& view, std::chrono::milliseconds silent_after);

// Ranks whose process has ended, although no kubelet has told so yet: a peer has lost its
// connection to it and waits to meet it again, and nobody listens at its port.
std::set<int> EndedRanks(const GangView& view, const std::set<std::string>& closed_pods);

// A process that ends closes its connections, and its kubelet says how it ended. It gets this long
// beyond `silent_after` to do so. Choice: real kubelets took up to 2.1 s.
inline constexpr std::chrono::milliseconds kKubeletHeadStart{1500};

// Ranks that have lost their connections to a peer and of whose end nobody tells: their node has
// died with them. As HangingRanks, but after kKubeletHeadStart more, and not for a rank that said
// in its last report that it is about to end.
std::set<int> LostRanks(const GangView& view, std::chrono::milliseconds silent_after);

// The part of rendezvousTimeoutSeconds for which peers wait before they are believed. Choice: the
// rank that nobody hears is replaced well before those that wait for it give up.
inline constexpr int kRendezvousShare = 4;

// Ranks that a meeting waits for in vain: they ran when the gang was whole, nobody hears them now,
// and a peer that never met them has waited for them so long. So a rank is found out that froze
// when everybody who had met it was replaced.
std::set<int> AbsentRanks(const DecisionBuilder& builder, const GangView& view);

}  // namespace lockstep::control
