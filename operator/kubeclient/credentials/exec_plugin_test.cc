#include "operator/kubeclient/credentials/exec_plugin.h"

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "common/base/io/file.h"
#include "common/base/io/unique_fd.h"
#include "common/json/json.h"
#include "operator/kubeclient/transport/testing/temporary_folder.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kVersion = "client.authentication.k8s.io/v1";

class ExecPluginTest : public ::testing::Test {
 protected:
  Result<ExecCredential> Run(const std::string& script, Duration timeout = seconds(60)) {
    plugin_.api_version = kVersion;
    plugin_.command = folder_.WriteScript("plugin", script);
    return RunExecPlugin(plugin_, Deadline::After(SteadyNow(), timeout), -1);
  }

  TemporaryFolder folder_;
  ExecPlugin plugin_;
};

// A script that prints an ExecCredential with this status.
std::string Saying(const std::string& status) {
  return "echo '{\"apiVersion\":\"" + std::string(kVersion) +
         "\",\"kind\":\"ExecCredential\",\"status\":" + status + "}'\n";
}

TEST_F(ExecPluginTest, TokenAndEndAreRead) {
  const auto credential =
      Run(Saying(R"({"token":"abc","expirationTimestamp":"2026-11-21T10:00:00Z"})"));
  ASSERT_TRUE(credential.ok()) << credential.error().ToString();
  EXPECT_EQ(credential->token, "abc");
  EXPECT_EQ(FormatRfc3339(credential->expires.value()), "2026-11-21T10:00:00.000Z");
}

TEST_F(ExecPluginTest, CertificateIsRead) {
  const auto credential = Run(Saying(R"({"clientCertificateData":"cert","clientKeyData":"key"})"));
  ASSERT_TRUE(credential.ok()) << credential.error().ToString();
  EXPECT_EQ(credential->certificate_pem, "cert");
  EXPECT_EQ(credential->key_pem, "key");
  EXPECT_FALSE(credential->expires);
}

TEST_F(ExecPluginTest, ProgramIsToldWhatKubernetesSays) {
  plugin_.args = {"one", "two words"};
  plugin_.environment = {{"PROFILE", "dev"}};
  plugin_.cluster_json = R"({"server":"https://api:6443"})";
  const std::string output = folder_.PathOf("told");
  ASSERT_TRUE(Run("printf '%s|%s|%s|%s' \"$1\" \"$2\" \"$PROFILE\" \"$KUBERNETES_EXEC_INFO\" > " +
                  output + "\n" + Saying(R"({"token":"t"})"))
                  .ok());
  const std::string told = ReadFile(output, 4096).value();
  EXPECT_EQ(told.substr(0, told.find('{')), "one|two words|dev|");
  const Json info = ParseJson(told.substr(told.find('{'))).value();
  EXPECT_EQ(info.at("apiVersion"), kVersion);
  EXPECT_EQ(info.at("kind"), "ExecCredential");
  EXPECT_EQ(info.at("spec").at("interactive"), false);
  EXPECT_EQ(info.at("spec").at("cluster").at("server"), "https://api:6443");
}

TEST_F(ExecPluginTest, ProgramInheritsNoDescriptor) {
  const UniqueFd ours(::eventfd(0, 0));  // without close-on-exec, like sockets of libraries
  const std::string output = folder_.PathOf("descriptors");
  ASSERT_TRUE(Run("test ! -e /proc/self/fd/" + std::to_string(ours.get()) + " || exit 9\n" +
                  Saying(R"({"token":"t"})"))
                  .ok());
}

struct BadPlugin {
  const char* name;
  std::string script;
  ErrorCode code;
};

TEST_F(ExecPluginTest, BadAnswersAreErrorsWithoutTheAnswer) {
  const std::string secret = "hunter2";
  const BadPlugin kPlugins[] = {
      {"nothing", "", ErrorCode::kCorrupt},
      {"garbage", "echo " + secret, ErrorCode::kCorrupt},
      {"no status", "echo '{\"kind\":\"ExecCredential\"}'", ErrorCode::kCorrupt},
      {"other version",
       "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":\"ExecCredential\","
       "\"status\":{\"token\":\"hunter2\"}}'",
       ErrorCode::kCorrupt},
      {"empty status", Saying("{}"), ErrorCode::kCorrupt},
      {"key only", Saying(R"({"clientKeyData":"hunter2"})"), ErrorCode::kCorrupt},
      {"bad time",
       Saying(R"({"token":"hunter2","expirationTimestamp":"soon"})"),
       ErrorCode::kCorrupt},
      {"number", Saying(R"({"token":42})"), ErrorCode::kCorrupt},
      {"failure", "echo " + secret + "; exit 3", ErrorCode::kUnavailable},
      {"signal", "kill -9 $$", ErrorCode::kUnavailable},
      {"endless",
       "while :; do echo hunter2hunter2hunter2hunter2hunter2hunter2; done",
       ErrorCode::kCorrupt},
  };
  for (const BadPlugin& bad : kPlugins) {
    SCOPED_TRACE(bad.name);
    const auto credential = Run(bad.script);
    ASSERT_FALSE(credential.ok());
    EXPECT_EQ(credential.error().code(), bad.code) << credential.error().ToString();
    EXPECT_EQ(credential.error().ToString().find(secret), std::string::npos);
  }
}

TEST_F(ExecPluginTest, MissingProgramGivesTheHint) {
  plugin_.api_version = kVersion;
  plugin_.command = folder_.PathOf("absent");
  plugin_.install_hint = "install it from the shop";
  const auto credential = RunExecPlugin(plugin_, Deadline::After(SteadyNow(), seconds(60)), -1);
  ASSERT_FALSE(credential.ok());
  EXPECT_EQ(credential.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(credential.error().ToString().find("install it from the shop"), std::string::npos);
}

// Writes its process id into a file and then hangs, with a child of its own.
std::string Hanging(const std::string& pid_file) {
  return "sleep 1000 &\necho $! > " + pid_file + ".part\nmv " + pid_file + ".part " + pid_file +
         "\nwait\n";
}

bool IsGone(const std::string& pid_file) {
  const auto pid = std::stoi(ReadFile(pid_file, 100).value());
  // A killed orphan may wait to be collected by init: then it is dead all the same.
  const auto stat = ReadFile("/proc/" + std::to_string(pid) + "/stat", 4096);
  return !stat.ok() || stat->find(") Z ") != std::string::npos;
}

void AwaitGone(const std::string& pid_file) {
  const Deadline deadline = Deadline::After(SteadyNow(), seconds(60));
  while (!IsGone(pid_file)) {
    ASSERT_FALSE(deadline.HasPassed(SteadyNow())) << "a process was left behind";
    std::this_thread::yield();
  }
}

TEST_F(ExecPluginTest, HangingProgramIsKilledWithItsChildren) {
  const std::string pid_file = folder_.PathOf("pid");
  Result<ExecCredential> credential = Error(ErrorCode::kInternal, "not run");
  Duration timeout = milliseconds(100);
  do {  // until the script got as far as starting its child
    timeout *= 2;
    credential = Run(Hanging(pid_file), timeout);
    ASSERT_FALSE(credential.ok());
    EXPECT_EQ(credential.error().code(), ErrorCode::kTimeout);
  } while (::access(pid_file.c_str(), R_OK) != 0);
  AwaitGone(pid_file);
}

TEST_F(ExecPluginTest, StopEndsTheProgramAtOnce) {
  const std::string pid_file = folder_.PathOf("pid");
  plugin_.api_version = kVersion;
  plugin_.command = folder_.WriteScript("plugin", Hanging(pid_file));
  const UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  std::jthread stopper([&] {
    while (::access(pid_file.c_str(), R_OK) != 0) {
      std::this_thread::yield();
    }
    ::eventfd_write(stop.get(), 1);
  });
  const auto credential =
      RunExecPlugin(plugin_, Deadline::After(SteadyNow(), seconds(1000)), stop.get());
  ASSERT_FALSE(credential.ok());
  EXPECT_EQ(credential.error().code(), ErrorCode::kAborted);
  AwaitGone(pid_file);
}

// What a plug-in leaves running may keep the pipe open: its own end is what counts.
TEST_F(ExecPluginTest, OrphanThatHoldsTheOutputIsNotWaitedFor) {
  const std::string pid_file = folder_.PathOf("pid");
  const auto credential =
      Run("sleep 1000 &\necho $! > " + pid_file + "\n" + Saying(R"({"token":"t"})"));
  EXPECT_TRUE(credential.ok()) << credential.error().ToString();
  ::kill(std::stoi(ReadFile(pid_file, 100).value()), SIGKILL);
}

}  // namespace
}  // namespace lockstep::control
