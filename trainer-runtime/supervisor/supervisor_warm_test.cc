// Programs that are forked from an interpreter which has imported their modules, as real processes:
// what they see and how they end is held against a plain start.

#include <algorithm>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include "trainer-runtime/supervisor/supervisor_test_support.h"

namespace lockstep::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Writes where a supervisor's programs write, which is there in the supervisor only.
class PipeLogger : public Logger {
 public:
  explicit PipeLogger(const SuperviseOptions* options) : options_(options) {}

  void Log(LogLevel level, std::string_view message, LogFields fields) override {
    if (level < LogLevel::kWarn) {
      return;
    }
    std::string line(message);
    for (const LogField& field : fields) {
      line += " " + std::string(field.key) + "=" + field.value;
    }
    line += "\n";
    [[maybe_unused]] const ssize_t written = ::write(options_->error_fd, line.data(), line.size());
  }

 private:
  const SuperviseOptions* options_;
};

class SupervisorWarmTest : public SupervisorTest {
 protected:
  void SetUp() override {
    SupervisorTest::SetUp();
    logger_ = std::make_unique<PipeLogger>(&options_);
    options_.logger = logger_.get();
    options_.warm = {"heavy"};
    // Tells when it is imported, and by which process.
    Write("heavy.py", "import os\nimported_by = os.getpid()\n");
    for (SupervisedProcess& process : options_.processes) {
      process.environment["PYTHONDONTWRITEBYTECODE"] = "1";
    }
  }

  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(directory_ + "/" + name, text).ok());
  }

  // A script beside heavy.py.
  void UsePython(const std::string& program) {
    Write("train.py", program);
    options_.command = {"python3", "-u", directory_ + "/train.py", "--lr", "0.1"};
  }

  std::vector<std::string> OutputOf(std::vector<std::string> warm, int* exit_code) {
    std::filesystem::remove(options_.termination_message_file);
    options_.warm = std::move(warm);
    seen_.clear();
    *exit_code = Run();
    return SortedLines();
  }
};

TEST_F(SupervisorWarmTest, TheModuleIsThereAlreadyInEachProcess) {
  UseProcesses(2);
  UsePython(
      "import os, heavy\n"
      "print('another' if heavy.imported_by != os.getpid() else 'same', os.environ['RANK'])");
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(SortedLines(), testing::ElementsAre("[rank 0] another 0", "[rank 1] another 1"));
}

TEST_F(SupervisorWarmTest, WhatTorchImportsWithTheFirstOptimizerIsThereAlready) {
  std::filesystem::create_directory(directory_ + "/torch");
  Write("torch/__init__.py", "");
  options_.warm = {"torch"};
  UsePython("import sys\nprint('torch._dynamo' in sys.modules)");
  EXPECT_EQ(Run(), 0) << "a torch without it";
  Write("torch/_dynamo.py", "");
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(SortedLines(), testing::ElementsAre("[rank 0] False", "[rank 0] True"));
}

TEST_F(SupervisorWarmTest, WhatProgramsSeeAndHowTheyEndIsAsOfAPlainStart) {
  Write("pack.py", "import sys\nprint(__name__, sys.argv, sys.path[0] != '', __spec__.name)\n");
  const std::vector<std::string> programs = {
      "import sys, os\n"
      "print(__name__, __file__, sys.argv, sys.path[0], sys.orig_argv, __spec__)\n"
      "print(os.getpgrp() == os.getpid(), sys.stdin.read(), os.getcwd())",
      "raise SystemExit(3)",
      "raise SystemExit('words')",
      "def f():\n  raise ValueError('no')\nf()",
      "try:\n  1 / 0\nexcept ZeroDivisionError as error:\n  raise KeyError('k') from error",
      "raise KeyboardInterrupt",
      "x = (",
      "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
      "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
      "import signal\n"
      "print([signal.getsignal(n) for n in (2, 13, 15, 17)], signal.pthread_sigmask(0, []))",
      "import atexit, threading, time\natexit.register(print, 'bye')\n"
      "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
      "import sys\nsys.excepthook = lambda kind, error, tb: print(tb.tb_frame.f_code.co_name)\n1 / "
      "0",
      "import multiprocessing as m, pickle\nclass A: pass\n"
      "def g(x): return x * x\n"
      "if __name__ == '__main__':\n  pickle.loads(pickle.dumps(A()))\n"
      "  with m.get_context('spawn').Pool(1) as pool: print(pool.map(g, [2, 3]))",
      "import os; os._exit(9)",
  };
  for (const std::string& program : programs) {
    SCOPED_TRACE(program);
    UsePython(program);
    int plain = 0;
    int warm = 0;
    const std::vector<std::string> expected = OutputOf({}, &plain);
    const std::string reason = Message().reason;
    EXPECT_EQ(OutputOf({"heavy"}, &warm), expected);
    EXPECT_EQ(warm, plain);
    EXPECT_EQ(Message().reason, reason);
  }
}

// Some parse arguments, or look for files beside the program.
TEST_F(SupervisorWarmTest, WhatModulesSeeOfTheProgramIsAsOfAPlainStart) {
  Write("heavy.py",
        "import sys, __main__\nseen = (sys.argv[1:], getattr(__main__, '__file__', None))\n");
  UsePython("import heavy, __main__\nprint(heavy.seen, heavy.__main__ is __main__)");
  int exit_code = 0;
  const std::vector<std::string> expected = OutputOf({}, &exit_code);
  EXPECT_EQ(OutputOf({"heavy"}, &exit_code), expected);
  EXPECT_EQ(exit_code, 0);
}

TEST_F(SupervisorWarmTest, AModuleThatChangesTheFolderMeansAPlainStartAndAWarning) {
  Write("heavy.py", "import os\nos.chdir('/')\n");
  UsePython("import os, heavy\nprint('runs in', os.getcwd())");
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(seen_,
              AllOf(HasSubstr("[rank 0] runs in /\n"),
                    HasSubstr("modules have changed the working directory to /")));
}

TEST_F(SupervisorWarmTest, AModuleRunsAsMain) {
  Write("package.py", "import sys, heavy\nprint(__name__, sys.argv[1:], __spec__.name)\n");
  options_.processes[0].environment["PYTHONPATH"] = directory_;
  options_.command = {"python3", "-m", "package", "a"};
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(seen_, HasSubstr("[rank 0] __main__ ['a'] package\n"));
}

TEST_F(SupervisorWarmTest, AKilledProcessIsForkedAgainFromTheSameInterpreter) {
  options_.wants_again = [count = 0](const SupervisorEvent& ended) mutable {
    EXPECT_EQ(ended.signal, SIGKILL);
    return ++count == 1;
  };
  UsePython(
      "import os, signal, heavy\nprint('imported', heavy.imported_by)\n"
      "os.kill(os.getpid(), signal.SIGKILL)");
  EXPECT_EQ(Run(), 137);
  const std::size_t first = seen_.find("imported ");
  const std::size_t second = seen_.find("imported ", first + 1);
  ASSERT_NE(second, std::string::npos) << seen_;
  EXPECT_EQ(std::stoi(seen_.substr(first + 9)), std::stoi(seen_.substr(second + 9)));
}

TEST_F(SupervisorWarmTest, WhatAStartHasBesidesIsThere) {
  options_.on_start = [](int) -> Result<ProcessStart> {
    ProcessStart start;
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    start.kept = UniqueFd(ends[1]);
    const UniqueFd reader(ends[0]);
    start.environment = {{"CHANNEL", std::to_string(ends[1])}, {"START", "4"}};
    start.kept_variable = "CHANNEL";
    return start;
  };
  UsePython(
      "import os, stat\nfd = int(os.environ['CHANNEL'])\n"
      "print(stat.S_ISFIFO(os.fstat(fd).st_mode), os.get_inheritable(fd), os.environ['START'])");
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(seen_, HasSubstr("True True 4"));
}

TEST_F(SupervisorWarmTest, GeneratorsDoNotRepeatThemselves) {
  options_.wants_again = [count = 0](const SupervisorEvent&) mutable { return ++count == 1; };
  UsePython(
      "import os, random, signal, tempfile\nprint('random', random.random())\n"
      "os.kill(os.getpid(), signal.SIGKILL)");
  options_.warm = {"random"};
  EXPECT_EQ(Run(), 137);
  const std::vector<std::string> lines = SortedLines();
  EXPECT_EQ(std::count_if(
                lines.begin(),
                lines.end(),
                [](const std::string& line) { return line.find("random") != std::string::npos; }),
            2);
  EXPECT_EQ(std::adjacent_find(lines.begin(), lines.end()), lines.end()) << seen_;
}

TEST_F(SupervisorWarmTest, OfNumpyNeither) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3-numpy is not installed";
  }
  options_.wants_again = [count = 0](const SupervisorEvent&) mutable { return ++count == 1; };
  UsePython(
      "import os, numpy, signal\nprint('random', numpy.random.rand())\n"
      "os.kill(os.getpid(), signal.SIGKILL)");
  options_.warm = {"numpy"};
  EXPECT_EQ(Run(), 137);
  const std::vector<std::string> lines = SortedLines();
  EXPECT_EQ(std::adjacent_find(lines.begin(), lines.end()), lines.end()) << seen_;
  EXPECT_THAT(seen_, Not(HasSubstr("threads"))) << "OpenBLAS stops its own for a fork";
}

TEST_F(SupervisorWarmTest, AModuleThatIsNotThereMeansAPlainStartAndAWarning) {
  options_.warm = {"no_such_module"};
  UsePython("print('runs')");
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(seen_,
              AllOf(HasSubstr("[rank 0] runs"),
                    HasSubstr("there is no warm interpreter, so the process starts without one"),
                    HasSubstr("No module named 'no_such_module'")));
}

TEST_F(SupervisorWarmTest, AModuleThatEndsTheInterpreterDoesTheSame) {
  Write("heavy.py", "import os\nos._exit(3)\n");
  UsePython("print('runs')");
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(
      seen_,
      AllOf(HasSubstr("[rank 0] runs"), HasSubstr("the interpreter ended before it was ready")));
}

TEST_F(SupervisorWarmTest, AnInterpreterThatDiesMeansAPlainStartAndAWarning) {
  options_.wants_again = [count = 0](const SupervisorEvent&) mutable { return ++count == 1; };
  UsePython(
      "import os, signal, sys, heavy\n"
      "if heavy.imported_by == os.getpid(): sys.exit(5)\n"
      "os.kill(heavy.imported_by, signal.SIGKILL)\n"
      "while os.path.exists('/proc/%d' % heavy.imported_by): pass\n"
      "os.kill(os.getpid(), signal.SIGKILL)");
  EXPECT_EQ(Run(), 5);
  EXPECT_THAT(seen_, HasSubstr("there is no warm interpreter, so the process starts without one"));
}

// It would cost its patience at each start, in which the pod hears no signal.
TEST_F(SupervisorWarmTest, AnInterpreterThatDoesNotAnswerIsAskedOnce) {
  options_.wants_again = [count = 0](const SupervisorEvent&) mutable { return ++count <= 2; };
  UsePython(
      "import os, signal, heavy\n"
      "print('started', heavy.imported_by != os.getpid())\n"
      "if heavy.imported_by != os.getpid(): os.kill(heavy.imported_by, signal.SIGSTOP)\n"
      "os.kill(os.getpid(), signal.SIGKILL)");
  EXPECT_EQ(Run(), 137);
  const std::string warning = "did not fork in time, and will not be used again";
  EXPECT_THAT(seen_, AllOf(HasSubstr("started True"), HasSubstr("started False")));
  ASSERT_THAT(seen_, HasSubstr(warning));
  EXPECT_EQ(seen_.find(warning), seen_.rfind(warning)) << seen_;
}

TEST_F(SupervisorWarmTest, ThreadsOfAModuleAreWarnedOf) {
  Write("heavy.py",
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n");
  UsePython("print('runs')");
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(seen_,
              AllOf(HasSubstr("[rank 0] runs"),
                    HasSubstr("modules in the warm interpreter have started threads"),
                    HasSubstr("threads=1")));
}

TEST_F(SupervisorWarmTest, NothingIsSaidWhereAllIsWell) {
  UsePython("print('runs')");
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(seen_, "[rank 0] runs\n");
}

TEST_F(SupervisorWarmTest, WhatModulesPrintComesOnce) {
  Write("heavy.py",
        "import ctypes\nprint('imported', end='')\n"
        "ctypes.CDLL(None).printf(b'from c')\n");
  options_.processes[0].environment["PYTHONUNBUFFERED"] = "";
  options_.wants_again = [count = 0](const SupervisorEvent&) mutable { return ++count == 1; };
  UsePython("print('runs')\nraise SystemExit(3)");
  options_.command = {"python3", directory_ + "/train.py"};
  EXPECT_EQ(Run(), 3);
  EXPECT_EQ(seen_.find("imported"), seen_.rfind("imported")) << seen_;
  EXPECT_EQ(seen_.find("from c"), seen_.rfind("from c")) << seen_;
}

TEST_F(SupervisorWarmTest, AStopWhileModulesAreImportedEndsThePod) {
  Write("heavy.py", "import time\nprint('importing', flush=True)\ntime.sleep(1000)\n");
  UsePython("import heavy");
  Start();
  AwaitOutput("importing");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 143);
}

TEST_F(SupervisorWarmTest, ProgramsGetTheirSignalsAndKeepTheirExitCodes) {
  UsePython(
      "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
      "print('ready')\nwhile True: time.sleep(0.05)");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 7);
}

TEST_F(SupervisorWarmTest, KilledSupervisorTakesProgramAndInterpreterAlong) {
  UsePython(
      "import os, time, heavy\nprint('pid', os.getpid(), heavy.imported_by, '.')\n"
      "time.sleep(1000)");
  Start();
  AwaitOutput(" .");
  const std::size_t at = seen_.find("pid ") + 4;
  const pid_t program = std::stoi(seen_.substr(at));
  const pid_t interpreter = std::stoi(seen_.substr(seen_.find(' ', at)));
  const UniqueFd first(static_cast<int>(::syscall(SYS_pidfd_open, program, 0)));
  const UniqueFd second(static_cast<int>(::syscall(SYS_pidfd_open, interpreter, 0)));
  ASSERT_TRUE(first.is_open() && second.is_open());
  Signal(SIGKILL);
  for (const UniqueFd* pidfd : {&first, &second}) {
    pollfd entry{pidfd->get(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 20'000), 1) << "one outlived its supervisor";
  }
}

TEST_F(SupervisorWarmTest, NothingIsLeftBehind) {
  UsePython("import heavy, os\nprint('pid', heavy.imported_by)");
  EXPECT_EQ(Run(), 0);
  EXPECT_FALSE(IsRunning(std::stoi(seen_.substr(seen_.find("pid ") + 4))));
}

TEST_F(SupervisorWarmTest, AProgramThatHangsIsNamedAndItsInterpreterIsNot) {
  options_.hung_after = std::chrono::seconds(1);
  options_.processes[0].environment["PYTHONFAULTHANDLER"] = "1";
  UsePython("import time\ndef wait_long():\n  time.sleep(1000)\nwait_long()");
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_THAT(seen_, HasSubstr("line 3 in wait_long"));
}

}  // namespace
}  // namespace lockstep::runtime
