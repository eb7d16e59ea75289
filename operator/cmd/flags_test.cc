#include "operator/cmd/flags.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

template <typename... Words>
std::variant<OperatorFlags, PrintAndExit> Parse(Words... words) {
  const char* const argv[] = {"lockstep-operator", words...};
  return ParseOperatorFlags(1 + static_cast<int>(sizeof...(words)), argv);
}

TEST(OperatorFlags, DefaultsServeTheWholeClusterByLease) {
  const auto flags = std::get<OperatorFlags>(Parse());

  EXPECT_TRUE(flags.leader_elect);
  EXPECT_EQ(flags.lease_duration, std::chrono::seconds(15));
  EXPECT_TRUE(flags.namespaces.empty());
  EXPECT_EQ(flags.pod_security, PodSecurityLevel::kBaseline);
  EXPECT_EQ(flags.metrics_address, "0.0.0.0:8080");
  EXPECT_EQ(flags.round_log, "");
  EXPECT_FALSE(flags.learns_run_times);
}

TEST(OperatorFlags, ValuesAreTakenOver) {
  const auto flags = std::get<OperatorFlags>(Parse("--no-leader-elect",
                                                   "--namespaces=a,b",
                                                   "--lease-duration=30s",
                                                   "--retry-period=500ms",
                                                   "--image-pull-secrets=registry,mirror",
                                                   "--pod-security=restricted",
                                                   "--topology-levels=example.com/block,rack",
                                                   "--fair-share-half-life=7d",
                                                   "--learn-run-times",
                                                   "--round-log=/logs/rounds.log",
                                                   "--round-log-mib=12",
                                                   "--kueue",
                                                   "--provisioning",
                                                   "--placeholder-pods",
                                                   "--native-binding",
                                                   "--log-level=warn",
                                                   "--log-format=json"));

  EXPECT_FALSE(flags.leader_elect);
  EXPECT_EQ(flags.namespaces, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(flags.lease_duration, std::chrono::seconds(30));
  EXPECT_EQ(flags.retry_period, std::chrono::milliseconds(500));
  EXPECT_EQ(flags.image_pull_secrets, (std::vector<std::string>{"registry", "mirror"}));
  EXPECT_EQ(flags.pod_security, PodSecurityLevel::kRestricted);
  EXPECT_TRUE(flags.follows_kueue);
  EXPECT_TRUE(flags.follows_provisioning);
  EXPECT_TRUE(flags.makes_placeholders);
  EXPECT_TRUE(flags.binds_natively);
  EXPECT_EQ(flags.topology_levels, (std::vector<std::string>{"example.com/block", "rack"}));
  EXPECT_EQ(flags.fair_share_half_life, std::chrono::hours(24 * 7));
  EXPECT_TRUE(flags.learns_run_times);
  EXPECT_EQ(flags.round_log, "/logs/rounds.log");
  EXPECT_EQ(flags.round_log_mib, 12);
  EXPECT_EQ(flags.log_level, LogLevel::kWarn);
  EXPECT_EQ(flags.log_format, LogFormat::kJson);
}

TEST(OperatorFlags, MistakesEndWithCodeTwoAndHelpWithZero) {
  EXPECT_EQ(std::get<PrintAndExit>(Parse("--lease-duration=15")).exit_code, 2);
  EXPECT_EQ(std::get<PrintAndExit>(Parse("--log-level=loud")).exit_code, 2);
  EXPECT_EQ(std::get<PrintAndExit>(Parse("--no-such-flag")).exit_code, 2);
  for (const char* const wrong : {"9m", "366d", "0", "-1d", "soon", "1000000000000d"}) {
    const std::string flag = std::string("--fair-share-half-life=") + wrong;
    EXPECT_EQ(std::get<PrintAndExit>(Parse(flag.c_str())).exit_code, 2) << wrong;
  }
  EXPECT_NE(std::get<PrintAndExit>(Parse("--fair-share-half-life=5m"))
                .text.find("--fair-share-half-life: 5m found, expected 0s, or 10m to 365d"),
            std::string::npos);
  EXPECT_EQ(
      std::get<OperatorFlags>(Parse("--fair-share-half-life=0s")).fair_share_half_life.count(), 0);
  EXPECT_EQ(std::get<PrintAndExit>(Parse("--round-log-mib=12")).exit_code, 2) << "of no log";
  EXPECT_EQ(std::get<PrintAndExit>(Parse("--round-log=f", "--round-log-mib=0")).exit_code, 2);
  for (const char* const wrong : {"--namespaces=Bad_NS",
                                  "--namespaces=a,b.c",
                                  "--topology-levels=",
                                  "--topology-levels=a b",
                                  "--renew-deadline=15s",
                                  "--retry-period=10s",
                                  "--lease-duration=900ms"}) {
    const auto parsed = Parse(wrong);
    ASSERT_TRUE(std::holds_alternative<PrintAndExit>(parsed)) << wrong;
    EXPECT_EQ(std::get<PrintAndExit>(parsed).exit_code, 2) << wrong;
    EXPECT_EQ(std::get<PrintAndExit>(parsed).text.find("--"), 0U)
        << std::get<PrintAndExit>(parsed).text;
  }
  EXPECT_TRUE(
      std::holds_alternative<OperatorFlags>(Parse("--no-leader-elect", "--renew-deadline=15s")))
      << "nobody uses it";
  EXPECT_EQ(std::get<PrintAndExit>(Parse("--help")).exit_code, 0);
  EXPECT_NE(std::get<PrintAndExit>(Parse("--version")).text.find("lockstep-operator"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
