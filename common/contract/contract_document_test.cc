#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "common/base/testing/paths.h"
#include "common/contract/environment/environment.h"
#include "common/contract/environment/supervised_place.h"
#include "common/contract/environment/tf_config.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/exit_code.h"
#include "common/contract/status/status_document.h"
#include "common/contract/status/termination_message.h"

namespace lockstep {
namespace {

// These pages tell users what this folder does; these tests hold them to that.
class ContractDocument : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const page : {"docs/reference/environment.md",
                                   "docs/reference/pod-endpoints.md",
                                   "docs/reference/exit-codes.md"}) {
      const Result<std::string> text = ReadFile(RepositoryFile(page), 1 << 20);
      ASSERT_TRUE(text.ok()) << text.error().ToString();
      text_ += *text;
    }
  }

  // Whether `word` stands somewhere in code quotes.
  bool Names(std::string_view word) const {
    return text_.find("`" + std::string(word) + "`") != std::string::npos;
  }

  // The samples marked "```json KIND".
  std::vector<std::string> Samples(const std::string& kind) const {
    const std::string mark = "```json " + kind + "\n";
    std::vector<std::string> samples;
    for (std::size_t at = text_.find(mark); at != std::string::npos; at = text_.find(mark, at)) {
      at += mark.size();
      samples.push_back(text_.substr(at, text_.find("```", at) - at));
    }
    return samples;
  }

  std::string text_;
};

TEST_F(ContractDocument, NamesEveryVariable) {
  const JobTopology topology = {"m", "n", {{Role::kWorker, 2, 1}}, DnsAddressing{}};
  WorkerEnvironment environment =
      MakeWorkerEnvironment(topology, {{Role::kWorker, 0}, {}, {}, "uid"}).value();
  environment.job_key_file = environment.training = environment.checkpoint_directory =
      environment.data_directory = environment.termination_message_file = "x";
  for (const auto& [name, value] : RenderEnvironment(environment).value()) {
    EXPECT_TRUE(Names(name)) << name;
  }
  for (const char* const name :
       {env::kLocalRank, env::kProcessStart, env::kChannelFd, env::kTfConfigUrl}) {
    EXPECT_TRUE(Names(name)) << name;
  }
}

TEST_F(ContractDocument, NamesEveryWordOfItsDocuments) {
  for (const Outcome outcome : kOutcomes) {
    EXPECT_TRUE(Names(OutcomeName(outcome))) << OutcomeName(outcome);
  }
  for (const ExitCause cause : kExitCauses) {
    EXPECT_TRUE(Names(ExitCauseName(cause))) << ExitCauseName(cause);
  }
  for (const Phase phase : kPhases) {
    EXPECT_TRUE(Names(PhaseName(phase))) << PhaseName(phase);
  }
  for (const PeerState state : kPeerStates) {
    EXPECT_TRUE(Names(PeerStateName(state))) << PeerStateName(state);
  }
  for (const TimelineEventKind kind : kTimelineEventKinds) {
    EXPECT_TRUE(Names(TimelineEventName(kind))) << TimelineEventName(kind);
  }
}

template <typename Decode>
void ExpectAllDecode(const std::vector<std::string>& samples, const Decode& decode) {
  ASSERT_FALSE(samples.empty());
  for (const std::string& sample : samples) {
    const auto value = decode(sample);
    EXPECT_TRUE(value.ok()) << value.error().ToString();
  }
}

TEST_F(ContractDocument, ItsSamplesAreRead) {
  ExpectAllDecode(Samples("tf_config"), [](std::string_view text) { return ParseTfConfig(text); });
  ExpectAllDecode(Samples("termination_message"), DecodeTerminationMessage);
  ExpectAllDecode(Samples("status_document"), DecodeStatusDocument);
  ExpectAllDecode(Samples("control_message"), DecodeControlMessage);
}

}  // namespace
}  // namespace lockstep
