#include "common/process/process_stat.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <unistd.h>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

TEST(ParseProcessStat, TakesTheNameForWhatItIs) {
  const auto stat = ParseProcessStat(
      "42 (a) S 1 (b) T 7 41 40 0 -1 4194304 9 9 9 9 100 20 3 4 20 0 3 0 123 456 5",
      {milliseconds(10), 4096});
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(*stat, (ProcessStat{42, 7, 41, 40, 'T', 3, milliseconds(1270), 20480}));
}

TEST(ParseProcessStat, RefusesWhatIsCutShort) {
  for (const char* line : {"", "42", "42 (a", "42 (a) S 1 2 3", "x (a) S 1"}) {
    EXPECT_FALSE(ParseProcessStat(line, {milliseconds(10), 4096}).has_value()) << line;
  }
}

TEST(Handles, WhatThisProcessHasAHandlerFor) {
  const auto handles = [](int signal) {
    return Handles(ReadProcessStat(::getpid()).value(), signal);
  };
  ASSERT_NE(::signal(SIGUSR2, SIG_IGN), SIG_ERR);
  EXPECT_FALSE(handles(SIGUSR2));
  ASSERT_NE(::signal(SIGUSR2, [](int) {}), SIG_ERR);
  EXPECT_TRUE(handles(SIGUSR2));
  EXPECT_FALSE(handles(SIGUSR1));
  ::signal(SIGUSR2, SIG_DFL);
  EXPECT_FALSE(handles(SIGUSR2));
  sigset_t held_back;
  sigemptyset(&held_back);
  sigaddset(&held_back, SIGUSR2);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &held_back, nullptr), 0);
  EXPECT_TRUE(handles(SIGUSR2));
  ::pthread_sigmask(SIG_UNBLOCK, &held_back, nullptr);
}

TEST(HasEnded, NotWhileAThreadIsLeftBehindItsMainThread) {
  ProcessStat stat;
  stat.state = 'Z';
  stat.threads = 2;
  EXPECT_FALSE(HasEnded(stat));
  stat.threads = 1;
  EXPECT_TRUE(HasEnded(stat));
  stat.state = 'S';
  EXPECT_FALSE(HasEnded(stat));
}

TEST(ReadProcessStats, HasThisProcess) {
  const std::vector<ProcessStat> table = ReadProcessStats();
  const auto own = std::find_if(
      table.begin(), table.end(), [](const ProcessStat& stat) { return stat.pid == ::getpid(); });
  ASSERT_NE(own, table.end());
  EXPECT_EQ(own->parent, ::getppid());
  EXPECT_EQ(own->group, ::getpgrp());
  EXPECT_EQ(own->session, ::getsid(0));
  EXPECT_EQ(own->state, 'R');
  EXPECT_GT(own->resident_bytes, 0);
}

TEST(ReadProcessStat, OfNobodyIsNothing) {
  EXPECT_TRUE(ReadProcessStat(::getpid()).has_value());
  EXPECT_FALSE(ReadProcessStat(0).has_value());
}

}  // namespace
}  // namespace lockstep
