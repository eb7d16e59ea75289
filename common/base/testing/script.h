#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

// For tests only: stories in text. A script is a file of blocks: lines that say what happens, a
// line "----", and the answers, up to an empty line. Lines that begin with # are for people.

namespace lockstep {

struct ScriptBlock {
  std::string asked;     // its lines, comments included
  std::string expected;  // as the file has it
  std::string answer;    // as it is now
};

// What one line comes to; empty where there is nothing to tell.
using ScriptAnswer = std::function<std::string(const std::string& line)>;

// Goes through the script at `path`, line by line. Where the environment has LOCKSTEP_REWRITE=1 the
// answers are written into the file, to be read as a diff.
std::vector<ScriptBlock> PlayScript(const std::filesystem::path& path, const ScriptAnswer& answer);

// Plays the script and expects every answer as written. Fails where there is nothing to play.
void ExpectScriptAnswered(const std::filesystem::path& path, const ScriptAnswer& answer);

// A test's name for the script that is its parameter: the file's, without what names cannot hold.
std::string ScriptTestName(const testing::TestParamInfo<std::string>& info);

// The files of a folder, by name.
std::vector<std::string> ScriptNames(const std::filesystem::path& folder);

// The words of a line.
std::vector<std::string> ScriptWords(const std::string& line);

}  // namespace lockstep
