#include "common/contract/command/executed_commands.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// "a b | c": the commands that are seen.
std::string Told(const std::vector<std::string>& command) {
  std::string text;
  for (const std::vector<std::string>& words : ExecutedCommands(command)) {
    text += text.empty() ? "" : " |";
    for (const std::string& word : words) {
      text += (text.empty() ? "" : " ") + word;
    }
  }
  return text;
}

std::string InShell(const std::string& text) {
  return Told({"sh", "-c", text});
}

TEST(ExecutedCommands, WhatOnlyStartsAnotherProgramIsLeftOut) {
  using Words = std::vector<std::string>;
  for (const Words& command :
       std::vector<Words>{{"p", "-n", "1"},
                          {"env", "-u", "A", "B=1", "p", "-n", "1"},
                          {"env", "-S", "C=2 p -n", "1"},
                          {"/usr/bin/timeout", "-k", "5", "60", "nice", "-n", "5", "p", "-n", "1"},
                          {"numactl", "--cpunodebind=0", "-m", "0", "p", "-n", "1"},
                          {"taskset", "-c", "0-3", "p", "-n", "1"},
                          {"tini", "-s", "--", "p", "-n", "1"},
                          {"neuron_parallel_compile", "p", "-n", "1"},
                          {"conda", "run", "-n", "torch", "--no-capture-output", "p", "-n", "1"},
                          {"uv", "run", "--python", "3.11", "p", "-n", "1"},
                          {"xargs", "-n", "1", "-P4", "p", "-n", "1"},
                          {"flock", "-w", "5", "/tmp/lock", "p", "-n", "1"},
                          {"nsys", "profile", "-o", "x", "--trace", "cuda", "p", "-n", "1"},
                          {"/opt/nvidia/nvidia_entrypoint.sh", "p", "-n", "1"},
                          {"bash", "-euo", "pipefail", "-c", "exec p -n 1"},
                          {"bash", "-lc", "exec -a q \"$@\"", "bash", "p", "-n", "1"},
                          {"sh", "-c", "sh -c 'p -n 1'"},
                          {"sh", "-c", "eval \"p -n\" 1"}}) {
    EXPECT_EQ(Told(command), "p -n 1") << command[0];
  }
  EXPECT_EQ(Told({"bash", "run.sh", "p"}), "bash run.sh p");
  EXPECT_EQ(Told({"python3", "t.py", "p"}), "python3 t.py p");
  EXPECT_EQ(Told({"env"}), "env");
  EXPECT_EQ(Told({}), "");
}

TEST(ExecutedCommands, SimpleCommandsOfAShellAreApart) {
  EXPECT_EQ(InShell("cd /w && p 1; q||r&s|t\nu"), "cd /w | p 1 | q | r | s | t | u");
  EXPECT_EQ(InShell("# p\nq # p\nr#p"), "q | r#p");
  EXPECT_EQ(InShell("p \\\n  1 '2 3' \"4;5\" 6\\ 7"), "p 1 2 3 4;5 6 7");
  EXPECT_EQ(InShell("p 2>&1 >a <b &>c >>d 3"), "p 3");
  EXPECT_EQ(InShell("(p 1) && { q; }; if r; then s; else ! t; fi"), "p 1 | q | r | s | t");
  EXPECT_EQ(InShell("while p; do q; done; for i in a p; do r; done"), "p | q | for i in a p | r");
  EXPECT_EQ(InShell("case $A in p) q;; p|r) s;; esac; t"), "case $A in | q | s | t");
  EXPECT_EQ(InShell("f() { p; }; function g { q; }\n[[ -n $A && p ]]; r"),
            "p | q | [[ -n $A && p ]] | r");
  EXPECT_EQ(InShell("p > >(tee a) 2> /dev/null"), "tee a | p");
}

TEST(ExecutedCommands, WhatAShellPutsInIsPutInWhereItIsSeen) {
  EXPECT_EQ(InShell("A=1 p $A"), "A=1 | p $A");
  EXPECT_EQ(InShell("A='p -n'; $A 1"), "A=p -n | p -n 1");
  EXPECT_EQ(InShell("export A=p; exec ${A} 1"), "export A=p | p 1");
  EXPECT_EQ(InShell("$B 1 \"$C\""), "$B 1 $C");
  EXPECT_EQ(InShell("python $(which p) 1"), "which p | python p 1");
  EXPECT_EQ(InShell("`command -v p` 1"), "command -v p | p 1");
  EXPECT_EQ(InShell("A=$(p 1)"), "p 1 | A=$(p 1)");
  EXPECT_EQ(InShell("set -- p 1; exec \"$@\""), "p 1");
  EXPECT_EQ(InShell("A=p; A+=' -n'; A=\"$A 1\"; $A"), "A=p | A+= -n | A=$A 1 | p -n 1");
  EXPECT_EQ(InShell("A=${B}x; A=$; A=${; $A"), "A=${B}x | A=$ | A=${; $A");
  EXPECT_EQ(InShell("A=(p\n -n); A+=(1); \"${A[@]}\" 2"), "A=(p\n -n) | A+=(1) | p -n 1 2");
  EXPECT_EQ(InShell("\"${A[@]}\" 2"), "${A[@]} 2");
}

TEST(ExecutedCommands, HereDocumentIsReadByAShellOnly) {
  EXPECT_EQ(InShell("bash <<EOF\np 1\nEOF\nq"), "p 1 | q");
  EXPECT_EQ(InShell("cat > run.sh <<-'E'\n\tp 1\n\tE\nq"), "cat | q");
  EXPECT_EQ(InShell("bash -s -- 1 2 <<EOF\np $2\nEOF\nq"), "p 2 | q");
  EXPECT_EQ(InShell("bash <<< 'p 1'; q"), "p 1 | q");
  EXPECT_EQ(InShell("python3 <<< 'p 1'; bash"), "python3 | bash");
}

TEST(ExecutedCommands, ShellReadsWhatIsWrittenToItsPipe) {
  EXPECT_EQ(InShell("cat <<EOF | sh\np 1\nEOF\nq"), "cat | p 1 | q");
  EXPECT_EQ(InShell("echo -e 'p 1' |\n bash; q"), "echo -e p 1 | p 1 | q");
  EXPECT_EQ(InShell("P='p 1'; echo \"$P\" | sh"), "P=p 1 | echo p 1 | p 1");
  EXPECT_EQ(InShell("echo p || sh; echo p; sh; echo p | grep p | sh"),
            "echo p | sh | echo p | sh | echo p | grep p | sh");
}

TEST(ExecutedCommands, TextThatAShellRefusesIsReadAsFarAsItGoes) {
  for (const char* const text :
       {"p 'a", "p \"a", "p $(", "p ${", "p `", "p <(", "p \\", "p <<", ")", "p ("}) {
    EXPECT_LE(ExecutedCommands({"sh", "-c", text}).size(), 2U) << text;
  }
}

// Each would be millions of words, or of commands.
TEST(ExecutedCommands, TextsThatDoubleThemselvesEndSomewhere) {
  std::string doubled = "set -- a\n";
  for (int i = 0; i < 40; ++i) {
    doubled += "set -- $@ $@\n";
  }
  EXPECT_TRUE(InShell("echo one\n" + doubled + "echo $@").starts_with("echo one"));
  std::string appended = "A=p\n";
  for (int i = 0; i < 60; ++i) {
    appended += "A+=$A\n";
  }
  EXPECT_TRUE(InShell(appended + "$A").starts_with("A=p"));
  std::string evaluated = "A='";
  for (int i = 0; i < 100; ++i) {
    evaluated += "eval \"$A\"; ";
  }
  EXPECT_LE(ExecutedCommands({"sh", "-c", evaluated + "'; eval \"$A\""}).size(), 10'000U);
}

}  // namespace
}  // namespace lockstep
