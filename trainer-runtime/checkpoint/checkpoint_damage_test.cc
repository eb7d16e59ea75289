#include <filesystem>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/digest.h"
#include "common/base/io/file.h"
#include "common/base/testing/paths.h"
#include "common/json/json.h"
#include "trainer-runtime/checkpoint/checkpoint_store.h"
#include "trainer-runtime/checkpoint/checkpoint_test_support.h"
#include "trainer-runtime/checkpoint/manifest.h"

namespace lockstep::runtime {
namespace {

// Keeps what is said of checkpoints that are skipped: their paths, and why.
class SkippedLog final : public Logger {
 public:
  void Log(LogLevel /*level*/, std::string_view message, LogFields fields) override {
    if (message != "checkpoint skipped") {
      return;
    }
    std::string words;
    for (const LogField& field : fields) {
      words += (words.empty() ? "" : ": ") + std::string(field.value);
    }
    skipped.push_back(words);
  }

  std::vector<std::string> skipped;
};

class CheckpointDamage : public CheckpointTest {
 protected:
  // As the table has it, whatever the folder, the hashes and the sizes are here.
  std::string Plain(std::string text) const {
    for (std::size_t at = text.find(directory_); at != std::string::npos;
         at = text.find(directory_)) {
      text.replace(at, directory_.size(), "DIR");
    }
    text = std::regex_replace(text, std::regex("[0-9a-f]{64}"), "HASH");
    text = std::regex_replace(text, std::regex("\\b[1-9][0-9]* bytes"), "N bytes");
    text = std::regex_replace(text, std::regex("expected (at most )?[1-9][0-9]*$"), "expected $1N");
    return std::regex_replace(text,
                              std::regex("expected 1 to " + std::to_string(kManifestVersion)),
                              "expected 1 to FORMAT");
  }

  static void Write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  }

  void Damage(int64_t step, const Json& how) {
    const std::string path = FileOf(step, how.at("file"));
    const std::string what = how.at("do");
    if (what == "cut" || what == "grow" || what == "empty") {
      const auto size = static_cast<std::size_t>(std::filesystem::file_size(path));
      std::filesystem::resize_file(path, what == "empty" ? 0 : what == "cut" ? size - 1 : size + 1);
      return;
    }
    if (what == "remove all") {
      const std::string folder = std::filesystem::path(path).parent_path();
      std::filesystem::remove_all(folder);
      return Write(folder, "a file");
    }
    std::string text = ReadFile(path, kFileMax).value();
    std::filesystem::remove(path);
    if (what == "flip") {
      text.back() = static_cast<char>(text.back() ^ 1);
      Write(path, text);
    } else if (what == "edit") {
      const std::string old = how.at("old");
      Write(path, text.replace(text.find(old), old.size(), how.at("new")));
    } else if (what == "of step 2") {
      Write(path, ReadFile(FileOf(2, how.at("file")), kFileMax).value());
    } else if (what == "text") {
      Write(path, how.at("text"));
    } else if (what == "fields") {
      Json fields = how.at("fields");
      fields["sha256"] = Sha256Hex(DumpJson(fields));
      Write(path, DumpJson(fields));
    } else if (what == "folder") {
      std::filesystem::create_directory(path);
    } else if (what == "pipe") {
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    } else if (what == "loop") {
      std::filesystem::create_symlink(path, path);
    } else {
      ASSERT_EQ(what, "remove");
    }
  }
};

// The same table is run against lockstep.torch.
TEST_F(CheckpointDamage, DecisionAndSentencesAreThoseOfTheTable) {
  const Json cases =
      ParseJson(
          ReadFile(RepositoryFile("trainer-runtime/checkpoint/testdata/damages.json"), kFileMax)
              .value())
          .value();
  ASSERT_GT(cases.size(), 20U);
  for (const Json& row : cases) {
    SCOPED_TRACE(row.at("name").get<std::string>());
    std::filesystem::remove_all(directory_);
    SkippedLog log;
    CheckpointStoreOptions options = Options();
    options.logger = &log;
    const auto store = Open(options);
    ASSERT_TRUE(store->Claim(Epoch(1), Incarnation(0)).ok());
    for (const int64_t step : {1, 2, 3}) {
      SaveAndWait(store.get(), step);
    }
    for (const auto& [step, how] : row.at("damage").items()) {
      Damage(std::stoll(step), how);
    }
    const std::vector<std::string> names = Names();
    const Result<std::optional<Snapshot>> newest = store->LoadNewest();
    EXPECT_EQ(Names(), names) << "nothing is deleted";
    if (row.contains("refused")) {
      ASSERT_FALSE(newest.ok());
      EXPECT_EQ(Plain(newest.error().ToString()), row.at("refused").get<std::string>());
      continue;
    }
    ASSERT_TRUE(newest.ok()) << newest.error().ToString();
    ASSERT_TRUE(newest->has_value());
    EXPECT_EQ((*newest)->step, Step(row.at("goes_on_from").get<int64_t>()));
    std::vector<std::string> skipped;
    for (const std::string& words : log.skipped) {
      skipped.push_back(Plain(words));
    }
    EXPECT_EQ(Json(skipped), row.at("skipped"));
  }
}

}  // namespace
}  // namespace lockstep::runtime
