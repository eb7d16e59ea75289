#include "operator/cli/terminal/console.h"

#include <array>
#include <fcntl.h>
#include <signal.h>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "common/base/io/unique_fd.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Progress Training() {
  Progress progress;
  progress.job = "mnist";
  progress.is_training = true;
  progress.step = 120;
  progress.steps_total = 480;
  progress.steps_done = 120;
  progress.loss = 0.31209;
  progress.has_loss = true;
  progress.samples_per_second = 4321.4;
  progress.pods_running = 3;
  progress.pods_total = 3;
  progress.state = "Running";
  progress.elapsed = seconds(4);
  return progress;
}

TEST(FormatProgress, TrainingShowsStepLossPaceAndPods) {
  EXPECT_EQ(FormatProgress(Training()),
            "mnist  step 120/480  loss 0.3121  4321 samples/s  25 %  eta 12 s  3/3 running");
}

TEST(FormatProgress, LossThatIsNoNumberIsSaid) {
  Progress progress = Training();
  progress.has_loss = false;
  progress.has_diverged = true;
  EXPECT_EQ(FormatProgress(progress),
            "mnist  step 120/480  loss not finite  4321 samples/s  25 %  eta 12 s  3/3 running");
}

TEST(FormatProgress, MissingWorkerAndStateAreShown) {
  Progress progress = Training();
  progress.pods_running = 2;
  progress.state = "Restarting";
  EXPECT_TRUE(FormatProgress(progress).ends_with("  2/3 running (Restarting)"));
}

TEST(FormatProgress, OnceTheJobHasEndedOnlyWhoIsLeftIsShown) {
  Progress progress = Training();
  progress.pods_running = 2;
  progress.state = "Succeeded";
  EXPECT_EQ(FormatProgress(progress), "mnist  2/3 running (Succeeded)");
  progress.state = "Failed";
  EXPECT_EQ(FormatProgressBar(progress, 80), "mnist  2/3 running (Failed)");
}

TEST(FormatProgress, UnknownFiguresAreLeftOut) {
  Progress progress;
  progress.job = "mnist";
  progress.is_training = true;
  progress.pods_total = 3;
  EXPECT_EQ(FormatProgress(progress), "mnist  starting  0/3 running");
}

TEST(FormatProgress, CommandShowsTimeAndPods) {
  Progress progress;
  progress.job = "any";
  progress.elapsed = seconds(65);
  progress.pods_running = 1;
  progress.pods_total = 2;
  EXPECT_EQ(FormatProgress(progress), "any  1 min 05 s  1/2 running");
  progress.elapsed = milliseconds(20);
  EXPECT_EQ(FormatProgress(progress), "any  0 s  1/2 running");
}

TEST(FormatProgress, CommandThatReportsItsStepsShowsThem) {
  Progress progress = Training();
  progress.is_training = false;
  EXPECT_EQ(FormatProgress(progress), "mnist  step 120/480  loss 0.3121  4 s  3/3 running");
  EXPECT_EQ(FormatProgressBar(progress, 80), FormatProgress(progress));
  EXPECT_EQ(FormatProgressBar(progress, 20), "4 s");
  progress.eta_seconds = 75;
  EXPECT_EQ(FormatProgress(progress),
            "mnist  step 120/480  loss 0.3121  eta 1 min 15 s  4 s  3/3 running");
}

TEST(FormatProgressBar, WideScreenHasAll) {
  EXPECT_EQ(FormatProgressBar(Training(), 200),
            "[======>                  ] 25 % step 120/480  loss 0.3121  4321 samples/s"
            "  eta 12 s  3/3 running");
}

// What is worth least goes first, and whole: half an eta is another one.
TEST(FormatProgressBar, NarrowScreenHasFewerColumnsAndNoneInPart) {
  struct Case {
    int columns;
    const char* line;
  };

  const Case cases[] = {
      {95,
       "[=====>                ] 25 % step 120/480  loss 0.3121  4321 samples/s"
       "  eta 12 s  3/3 running"},
      {80, "[=====>                 ] 25 % step 120/480  loss 0.3121  eta 12 s  3/3 running"},
      {60, "25 % step 120/480  loss 0.3121  eta 12 s  3/3 running"},
      {50, "25 % step 120/480  loss 0.3121  eta 12 s"},
      {40, "25 % step 120/480  eta 12 s"},
      {20, "25 % step 120/480"},
      {14, "step 120/480"},
      {8, "step 12"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(FormatProgressBar(Training(), one.columns), one.line) << one.columns;
    EXPECT_LT(FormatProgressBar(Training(), one.columns).size(),
              static_cast<std::size_t>(one.columns));
  }
}

TEST(FormatProgressBar, MissingWorkerOutlastsEtaAndLoss) {
  Progress progress = Training();
  progress.pods_running = 2;
  progress.state = "Restarting";
  EXPECT_EQ(FormatProgressBar(progress, 50), "25 % step 120/480  2/3 running (Restarting)");
}

TEST(FormatProgressBar, NameOfACommandGoesBeforeItsTime) {
  Progress progress;
  progress.job = "a-name-that-is-as-long-as-names-may-be";
  progress.elapsed = seconds(65);
  progress.pods_running = 2;
  progress.pods_total = 2;
  EXPECT_EQ(FormatProgressBar(progress, 40), "1 min 05 s  2/2 running");
}

TEST(EraseBar, TakesAllRowsThatANarrowerTerminalBrokeItInto) {
  EXPECT_EQ(EraseBar(0, 80), "\r\x1b[K");
  EXPECT_EQ(EraseBar(79, 80), "\r\x1b[K");
  EXPECT_EQ(EraseBar(79, 40), "\r\x1b[1A\x1b[J");
  EXPECT_EQ(EraseBar(79, 20), "\r\x1b[3A\x1b[J");
  EXPECT_EQ(EraseBar(79, 0), "\r\x1b[78A\x1b[J");
}

TEST(FormatDuration, UnitsFollowTheSize) {
  EXPECT_EQ(FormatDuration(milliseconds(1)), "1 s");
  EXPECT_EQ(FormatDuration(seconds(59)), "59 s");
  EXPECT_EQ(FormatDuration(seconds(61)), "1 min 01 s");
  EXPECT_EQ(FormatDuration(minutes(127)), "2 h 07 min");
}

class ConsolePipe : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> fds{};
    ASSERT_EQ(::pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK), 0);
    read_end_ = UniqueFd(fds[0]);
    write_end_ = UniqueFd(fds[1]);
    ::signal(SIGPIPE, SIG_IGN);
  }

  ConsoleOptions Options(bool is_terminal) {
    ConsoleOptions options;
    options.fd = write_end_.get();
    options.is_terminal = is_terminal;
    return options;
  }

  std::string Seen() {
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(read_end_.get(), buffer.data(), buffer.size());
    return std::string(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  }

  UniqueFd read_end_;
  UniqueFd write_end_;
};

TEST_F(ConsolePipe, PlainLinesComeAtTheirInterval) {
  Console console(Options(false));
  const TimePoint start(seconds(1000));
  Progress progress = Training();
  console.Show(progress, start);
  EXPECT_EQ(Seen(), FormatProgress(progress) + "\n");
  progress.step = 121;
  console.Show(progress, start + milliseconds(1999));
  EXPECT_EQ(Seen(), "");
  console.Show(progress, start + seconds(2));
  EXPECT_EQ(Seen(), FormatProgress(progress) + "\n");
}

TEST_F(ConsolePipe, LineReplacesTheBarOfATerminal) {
  Console console(Options(true));
  console.Show(Training(), TimePoint(seconds(1000)));
  Seen();
  console.Print("worker-1 lost");
  EXPECT_EQ(Seen(), "\r\x1b[Kworker-1 lost\n");
}

TEST_F(ConsolePipe, QuietConsoleHasNoNewsAndNoProgress) {
  ConsoleOptions options = Options(false);
  options.is_quiet = true;
  Console console(options);
  console.Tell("all 3 pods run");
  console.Show(Training(), TimePoint(seconds(1000)));
  EXPECT_EQ(Seen(), "");
  console.Print("mnist succeeded");
  EXPECT_EQ(Seen(), "mnist succeeded\n");
}

TEST_F(ConsolePipe, GoneReaderSilencesTheConsole) {
  Console console(Options(false));
  read_end_.Reset();
  console.Print("nobody hears this");
  EXPECT_TRUE(console.is_silent());
  console.Print("nor this");
}

}  // namespace
}  // namespace lockstep::control
