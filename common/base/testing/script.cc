#include "common/base/testing/script.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

constexpr std::string_view kDivider = "----";

std::vector<ScriptBlock> Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<ScriptBlock> blocks;
  ScriptBlock block;
  bool is_answer = false;
  for (std::string line; std::getline(file, line);) {
    if (is_answer && line.empty()) {
      blocks.push_back(std::exchange(block, {}));
      is_answer = false;
    } else if (!is_answer && line == kDivider) {
      is_answer = true;
    } else {
      (is_answer ? block.expected : block.asked) += line + "\n";
    }
  }
  if (is_answer) {
    blocks.push_back(std::move(block));
  }
  return blocks;
}

void Write(const std::filesystem::path& path, const std::vector<ScriptBlock>& blocks) {
  std::ofstream file(path);
  for (const ScriptBlock& block : blocks) {
    file << (&block == &blocks.front() ? "" : "\n") << block.asked << kDivider << "\n"
         << block.answer;
  }
}

}  // namespace

std::vector<ScriptBlock> PlayScript(const std::filesystem::path& path, const ScriptAnswer& answer) {
  std::vector<ScriptBlock> blocks = Read(path);
  for (ScriptBlock& block : blocks) {
    std::istringstream lines(block.asked);
    for (std::string line; std::getline(lines, line);) {
      block.answer += line.empty() || line.front() == '#' ? "" : answer(line);
    }
  }
  const char* const rewrite = std::getenv("LOCKSTEP_REWRITE");
  if (rewrite != nullptr && std::string_view(rewrite) == "1") {
    Write(path, blocks);
  }
  return blocks;
}

void ExpectScriptAnswered(const std::filesystem::path& path, const ScriptAnswer& answer) {
  const std::vector<ScriptBlock> blocks = PlayScript(path, answer);
  EXPECT_FALSE(blocks.empty()) << path;
  for (const ScriptBlock& block : blocks) {
    EXPECT_EQ(block.answer, block.expected) << path.filename() << " after\n" << block.asked;
  }
}

std::string ScriptTestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.find('.'));
  std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0; });
  return name;
}

std::vector<std::string> ScriptNames(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> ScriptWords(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

}  // namespace lockstep
