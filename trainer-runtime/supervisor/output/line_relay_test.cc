#include "trainer-runtime/supervisor/output/line_relay.h"

#include <csignal>
#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "common/base/io/unique_fd.h"

namespace lockstep::runtime {
namespace {

// Feeds `bytes` in blocks of `block` bytes.
std::string Relay(const std::string& bytes, std::size_t block, std::size_t line_bytes_max) {
  LinePrefixer prefixer("> ", line_bytes_max);
  std::string output;
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    prefixer.Append(std::string_view(bytes).substr(at, block), TimePoint(), &output);
  }
  prefixer.Finish(&output);
  return output;
}

TEST(LinePrefixer, OutputDoesNotDependOnHowBytesArrive) {
  for (std::size_t block = 1; block < 12; ++block) {
    EXPECT_EQ(Relay("one\n\ntwo\nend", block, 100), "> one\n> \n> two\n> end\n") << block;
    EXPECT_EQ(Relay("abcdefgh\nabc\nabcd", block, 6), "> abc\n> def\n> gh\n> abc\n> abc\n> d\n")
        << block;
  }
}

// Container runtimes cut lines after 16 KiB: whose line it is must be told in each piece.
TEST(LinePrefixer, EachPieceOfALongLineHasThePrefixAndFits) {
  const std::string output = Relay(std::string(100, 'x') + "\n", 7, 16);
  std::size_t pieces = 0;
  for (std::size_t at = 0; at < output.size(); ++pieces) {
    const std::size_t end = output.find('\n', at);
    EXPECT_EQ(output.compare(at, 2, "> "), 0);
    EXPECT_LE(end + 1 - at, 16U);
    at = end + 1;
  }
  EXPECT_EQ(pieces, 8U);
}

TEST(LinePrefixer, NothingInNothingOut) {
  EXPECT_EQ(Relay("", 1, 10), "");
}

TEST(OutputSink, FullPipeKeepsTheRestAndDoesNotBlock) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  OutputSink sink(writer.get());
  sink.pending()->assign(300 * 1024, 'x');
  sink.WriteReady();
  EXPECT_TRUE(sink.has_pending());
  std::string taken(1024 * 1024, '\0');
  std::size_t total = 0;
  while (total < 300 * 1024) {
    const ssize_t count = ::read(reader.get(), taken.data(), taken.size());
    ASSERT_GT(count, 0);
    total += static_cast<std::size_t>(count);
    sink.WriteReady();
  }
  EXPECT_FALSE(sink.has_pending());
}

TEST(OutputSink, ReaderThatWentAwayDropsOutput) {
  ::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  reader.Reset();
  OutputSink sink(writer.get());
  for (int round = 0; round < 2; ++round) {
    sink.pending()->assign(1000, 'x');
    sink.WriteReady();
    EXPECT_FALSE(sink.has_pending());
  }
}

}  // namespace
}  // namespace lockstep::runtime
