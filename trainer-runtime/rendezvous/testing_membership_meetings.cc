#include <algorithm>

#include <gtest/gtest.h>

#include "trainer-runtime/rendezvous/testing_membership.h"

// Data connections and meetings of the simulated world, and what must always hold.

namespace lockstep::runtime::testing {

using std::chrono::milliseconds;

void World::Do(int id, const action::Formed& formed) {
  CheckFormed(id, formed);
  Of(id).formed = formed;
  if (is_faulty_ && Chance(0.05)) {
    Kill(id);
    return;
  }
  for (int lower = 0; lower < Of(id).rank; ++lower) {
    At(NetworkDelay(), [this, id, lower, epoch = formed.epoch] { Wire(id, lower, epoch); });
  }
  At(Duration::zero(), [this, id] { MaybeReady(id); });
}

void World::Wire(int id, int lower, Epoch epoch) {
  const Process& process = Of(id);
  if (process.is_dead || !process.formed.has_value() || process.formed->epoch != epoch) {
    return;
  }
  const Incarnation expected = process.formed->members[static_cast<std::size_t>(lower)].incarnation;
  for (const auto& target : processes_) {
    const bool is_it = target->rank == lower && target->incarnation == expected;
    if (is_it && !target->is_dead && !target->is_paused && !IsCut(process, *target) &&
        target->membership->WantsDataLink(process.rank, process.incarnation, epoch)) {
      data_links_.insert({epoch, id, target->id});
      MaybeReady(id);
      MaybeReady(target->id);
      return;
    }
  }
  Deliver(id, event::DataLinkFailed{epoch, lower});
}

void World::MaybeReady(int id) {
  const Process& process = Of(id);
  if (process.is_dead || !process.formed.has_value()) {
    return;
  }
  const Epoch epoch = process.formed->epoch;
  const auto count = std::count_if(data_links_.begin(), data_links_.end(), [&](const auto& link) {
    return std::get<0>(link) == epoch && (std::get<1>(link) == id || std::get<2>(link) == id);
  });
  if (count == world_size_ - 1) {
    Deliver(id, event::DataLinksReady{epoch});
  }
}

void World::Do(int id, const action::Abandon& /*abandon*/) {
  Of(id).formed.reset();
}

void World::Do(int id, const action::Met& met) {
  Process& process = Of(id);
  ASSERT_TRUE(process.formed.has_value());
  process.met = met.epoch;
  process.formed.reset();
  Note(Name(process) + " joined the rendezvous at epoch " + std::to_string(met.epoch.value()));
  if (is_faulty_ && Chance(0.03)) {  // a collective failed: meet again
    RequestMeetingIfMet(id, Between(50, 500));
  }
}

void World::RequestMeetingIfMet(int id, Duration delay) {
  At(delay, [this, id] {
    if (!Of(id).is_dead && !Of(id).is_paused && Of(id).met.has_value()) {
      RequestMeeting(id, Epoch(0), Duration::zero());
    }
  });
}

void World::Do(int id, const action::Broken& broken) {
  Process& process = Of(id);
  if (process.met != broken.loss.epoch) {
    return;  // the program asked for a new meeting in the same moment
  }
  process.met.reset();
  Note(Name(process) + " lost " + std::to_string(broken.loss.rank) + " " +
       LossReasonName(broken.loss.reason) + " at " + std::to_string(broken.loss.epoch.value()));
  EXPECT_NE(broken.loss.rank, process.rank);
  RequestMeeting(id, broken.loss.epoch.Next(), Between(0, 300));
}

void World::Do(int id, const action::TimedOut& timed_out) {
  Note(Name(Of(id)) + " timed out, missing " + std::to_string(timed_out.missing.size()));
  RequestMeeting(id, Epoch(0), Between(1, 50));
}

void World::Do(int /*id*/, const action::PlansDiffer& /*plans_differ*/) {
  LOCKSTEP_CHECK(false, "plans differ, although this test makes them equal");
}

void World::Do(int /*id*/, const action::NobodyNeeded& /*nobody_needed*/) {
  LOCKSTEP_CHECK(false, "a rank has finished, although no rank finishes in this test");
}

void World::Do(int id, const action::Superseded& /*superseded*/) {
  Note(Name(Of(id)) + " superseded");
  EXPECT_FALSE(Of(id).is_current) << Name(Of(id))
                                  << " was reported as superseded, but has not been replaced";
  Of(id).met.reset();
  Of(id).formed.reset();
}

void World::CheckFormed(int id, const action::Formed& formed) {
  Note(Name(Of(id)) + " formed " + std::to_string(formed.epoch.value()));
  for (const Record& earlier : formed_) {
    CheckAgainst(earlier, formed);
  }
  formed_.push_back(Record{id, formed.epoch, formed.members});
}

void World::CheckAgainst(const Record& earlier, const action::Formed& formed) {
  bool has_common = false;
  bool is_same = true;
  bool is_older = false;
  bool is_newer = false;
  for (std::size_t rank = 0; rank < formed.members.size(); ++rank) {
    const MemberFacts& a = earlier.members[rank];
    const MemberFacts& b = formed.members[rank];
    has_common |= a.incarnation == b.incarnation;
    is_older |= b.incarnation < a.incarnation;
    is_newer |= b.incarnation > a.incarnation;
    is_same &= a.incarnation == b.incarnation && a.last_applied == b.last_applied &&
               a.has_state == b.has_state;
  }
  if (!has_common) {
    return;
  }
  if (earlier.epoch == formed.epoch) {
    EXPECT_TRUE(is_same) << "two different rendezvous have epoch " << formed.epoch.value();
  } else if (earlier.epoch < formed.epoch) {
    EXPECT_FALSE(is_older) << "a superseded process joined the rendezvous of epoch "
                           << formed.epoch.value();
  } else {
    EXPECT_FALSE(is_newer) << "a superseded process joined the rendezvous of epoch "
                           << earlier.epoch.value();
  }
}

void World::ExpectConverged() {
  std::optional<Epoch> epoch;
  for (const auto& process : processes_) {
    if (process->is_dead) {
      continue;
    }
    if (!process->is_current) {
      ExpectHarmless(*process);
      continue;
    }
    ASSERT_TRUE(process->met.has_value()) << Name(*process) << " has joined no rendezvous";
    epoch = epoch.value_or(*process->met);
    EXPECT_EQ(*process->met, *epoch) << Name(*process);
  }
  ASSERT_TRUE(epoch.has_value());
  EXPECT_GE(std::count_if(formed_.begin(),
                          formed_.end(),
                          [&](const Record& record) { return record.epoch == *epoch; }),
            world_size_);
}

void World::ExpectHarmless(const Process& zombie) {
  if (zombie.membership->is_superseded()) {
    return;
  }
  for (const Record& record : formed_) {
    if (record.process != zombie.id || record.epoch != zombie.met) {
      continue;
    }
    for (const auto& process : processes_) {
      const auto rank = static_cast<std::size_t>(process->rank);
      EXPECT_FALSE(process->is_current && record.members[rank].incarnation == process->incarnation)
          << "superseded process " << Name(zombie) << " is in a rendezvous with " << Name(*process);
    }
  }
}

}  // namespace lockstep::runtime::testing
