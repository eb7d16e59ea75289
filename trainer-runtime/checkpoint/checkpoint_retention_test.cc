#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/digest.h"
#include "common/base/io/file.h"
#include "common/base/testing/paths.h"
#include "common/json/json.h"
#include "trainer-runtime/checkpoint/checkpoint_store.h"
#include "trainer-runtime/checkpoint/checkpoint_test_support.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAreArray;

// A checkpoint of retention.txt: its step, and the letter behind it, if any.
struct Word {
  int64_t step = 0;
  char mark = ' ';
};

std::vector<Word> ParseWords(const std::string& cell) {
  std::vector<Word> words;
  std::istringstream stream(cell);
  for (std::string word; stream >> word;) {
    const bool is_marked = word.find_first_of("ndsl") != std::string::npos;
    words.push_back({std::stoll(word), is_marked ? word.back() : ' '});
  }
  return words;
}

struct Row {
  std::string text;
  int keep_count = 0;
  std::vector<Word> there;
  Word saved;
  std::vector<Word> stays;
};

std::vector<Row> ReadRows() {
  std::istringstream file(
      ReadFile(RepositoryFile("trainer-runtime/checkpoint/testdata/retention.txt"), kFileMax)
          .value());
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') {
      continue;
    }
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, '|');) {
      cells.push_back(cell);
    }
    rows.push_back({line,
                    std::stoi(cells.at(0)),
                    ParseWords(cells.at(1)),
                    ParseWords(cells.at(2)).at(0),
                    ParseWords(cells.at(3))});
  }
  return rows;
}

class CheckpointRetention : public CheckpointTest {
 protected:
  void Save(int keep_count, const Word& word) {
    CheckpointStoreOptions options = Options();
    options.keep_count = keep_count;
    const auto store = Open(options);
    ASSERT_TRUE(store->Claim(Epoch(1), Incarnation(0)).ok());
    Snapshot snapshot = SnapshotAt(word.step);
    snapshot.is_finite = word.mark != 'n';
    store->SaveAsync(std::move(snapshot));
    ASSERT_TRUE(store->Flush(Soon()).ok());
  }

  void Damage(const Word& word) {
    const std::string path = FileOf(word.step, "manifest.json");
    if (word.mark == 'd') {
      std::filesystem::remove(path);
    }
    if (word.mark == 's') {
      ASSERT_TRUE(WriteFileAtomically(FileOf(word.step, "tensors.safetensors"), "short").ok());
    }
    if (word.mark == 'l') {
      Json manifest = ParseJson(ReadFile(path, kFileMax).value()).value();
      manifest.erase("sha256");
      manifest["formatVersion"] = 4;
      manifest["sha256"] = Sha256Hex(DumpJson(manifest));
      ASSERT_TRUE(WriteFileAtomically(path, DumpJson(manifest)).ok());
    }
  }
};

// The same table is run against lockstep.torch.
TEST_F(CheckpointRetention, WhatStaysIsAsTheTableSays) {
  const std::vector<Row> rows = ReadRows();
  ASSERT_GT(rows.size(), 10U);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    std::filesystem::remove_all(directory_);
    for (const Word& word : row.there) {
      Save(100, word);
    }
    for (const Word& word : row.there) {
      Damage(word);
    }
    Save(row.keep_count, row.saved);
    std::vector<std::string> expected = {"fence.json"};
    for (const Word& word : row.stays) {
      expected.push_back(std::filesystem::path(FileOf(word.step, "")).parent_path().filename());
    }
    EXPECT_THAT(Names(), ElementsAreArray(expected));
  }
}

}  // namespace
}  // namespace lockstep::runtime
