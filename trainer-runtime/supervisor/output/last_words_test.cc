#include "trainer-runtime/supervisor/output/last_words.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

std::string WordsOf(const std::string& text, std::size_t block = 7) {
  LastWords words;
  for (std::size_t at = 0; at < text.size(); at += block) {
    words.Append(text.substr(at, block), TimePoint());
  }
  return words.Find();
}

constexpr const char* kTraceback =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 7, in <module>\n"
    "    fit(data)\n"
    "ValueError: label 11 is out of range\n";

TEST(LastWords, PlaceOfPythonIsTheProgramsInnermostFunction) {
  const std::string stacks =
      "Fatal Python error: Aborted\n\n"
      "Thread 0x00007f656b000000 (most recent call first):\n"
      "  File \"/usr/lib/python3.11/threading.py\", line 320 in wait\n"
      "  File \"/job/writer.py\", line 9 in write\n\n"
      "Current thread 0x00007f656b3ab040 (most recent call first):\n"
      "  File \"/usr/lib/python3.11/queue.py\", line 171 in get\n"
      "  File \"/opt/lib/python3.11/site-packages/torch/utils/data.py\", line 7 in _next\n";
  const auto place_of = [](const std::string& text) {
    LastWords words;
    words.Append(text, TimePoint());
    return words.PythonPlace();
  };
  EXPECT_EQ(place_of(stacks + "  File \"/job/train.py\", line 88 in load_batch\n"
                              "  File \"/job/train.py\", line 3 in <module>\n"),
            "load_batch (train.py:88)");
  EXPECT_EQ(place_of(stacks), "get (queue.py:171)") << "a module that python -m runs";
  EXPECT_EQ(place_of(stacks + "\nExtension modules: numpy\n  File \"a.py\", line 1 in f\n"),
            "get (queue.py:171)");
  EXPECT_EQ(place_of(kTraceback), "");
  EXPECT_EQ(place_of("Current thread 0 (most recent call first):\n  File \"a\n"), "");
}

TEST(LastWords, TableOfGoodbyes) {
  struct Row {
    std::string what;
    std::string text;
    std::string words;
  };

  const std::string traceback = kTraceback;
  const std::vector<Row> rows = {
      {"nothing", "", ""},
      {"blank lines", "\n  \n", ""},
      {"the last line", "loading\nno such file: data.bin\n\n", "no such file: data.bin"},
      {"an unfinished line", "bye", "bye"},
      {"the exception", traceback, "ValueError: label 11 is out of range"},
      {"the exception, not what is said after it",
       traceback + "[W socket.cpp] cleaning up\nAborted\n",
       "ValueError: label 11 is out of range"},
      {"the newest of two",
       traceback + "\nDuring handling of the above exception, another exception occurred:\n\n"
                   "Traceback (most recent call last):\n  File \"a.py\"\nKeyError: 'x'\n",
       "KeyError: 'x'"},
      {"the exception, not what points at its cause",
       "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    f(x.y)\n"
       "^^^^^\nValueError: label 11 is out of range\n",
       "ValueError: label 11 is out of range"},
      {"the last line that points nowhere", "error: no such name\n  x.y\n^~~\n", "x.y"},
      {"PyTorch's rank before each line",
       "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 1\n"
       "[rank1]: RuntimeError: Connection closed by peer\n",
       "RuntimeError: Connection closed by peer"},
      {"the exception of a rank, and not what torchrun makes of it",
       traceback + "Traceback (most recent call last):\n  File \"torchrun\", line 33\n"
                   "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\n",
       "ValueError: label 11 is out of range"},
      {"what Lightning says of its settings, and what they are here",
       "Traceback (most recent call last):\n  File \"t.py\", line 1\nValueError: You set "
       "`devices=2` "
       "and `num_nodes=1` in Lightning, but the product (2 * 1) does not match the world size "
       "(1).\n",
       "ValueError: You set `devices=2` and `num_nodes=1` in Lightning, but the product (2 * 1) "
       "does not match the world size (1). In Lockstep, `devices` must be the role's `processes`, "
       "and `num_nodes` the number of pods that train"},
      {"colours", "\x1b[1;31mValueError\x1b[0m: \x1b[35mbad\x1b[0m\n", "ValueError: bad"},
      {"a bar in its last state", " 1%\r 2%\r 3%", "3%"},
      {"a bracket that is no rank", "[rank x]: y\n", "[rank x]: y"},
  };
  for (const Row& row : rows) {
    for (std::size_t block = 1; block < 40; ++block) {
      EXPECT_EQ(WordsOf(row.text, block), row.words) << row.what << ", blocks of " << block;
    }
  }
}

// A program that logs an exception and goes on did not end of it.
TEST(LastWords, ExceptionThatWasSurvivedIsForgotten) {
  std::string text = kTraceback;
  for (int step = 0; step < 100; ++step) {
    text += "step " + std::to_string(step) + "\n";
  }
  EXPECT_EQ(WordsOf(text + "out of disk\n"), "out of disk");
}

TEST(LastWords, TailIsTheLastWholeLines) {
  LastWords words;
  for (int line = 0; line < 1000; ++line) {
    words.Append("\x1b[1mline " + std::to_string(line) + "\x1b[0m\n", TimePoint());
  }
  words.Append("bye", TimePoint());
  const std::string tail = words.Tail();
  EXPECT_LE(tail.size(), 1024U);
  EXPECT_TRUE(tail.starts_with("line ")) << tail;
  EXPECT_TRUE(tail.ends_with("line 999\nbye\n")) << tail;
}

TEST(LastWords, EndlessWordsAreCut) {
  EXPECT_LE(WordsOf(std::string(100'000, 'x') + "\n", 1000).size(), 512U);
}

}  // namespace
}  // namespace lockstep::runtime
