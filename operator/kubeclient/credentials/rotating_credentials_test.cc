#include "operator/kubeclient/credentials/rotating_credentials.h"

#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "operator/kubeclient/transport/testing/temporary_folder.h"

namespace lockstep::control {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

class RotatingCredentialsTest : public ::testing::Test {
 protected:
  RotatingCredentialsTest() {
    options_.clock = &clock_;
    options_.logger = logger_.get();
    options_.period = hours(1);  // nothing happens by itself
    options_.exec_pause_min = Duration::zero();
  }

  Result<std::unique_ptr<RotatingCredentials>> Start() {
    return RotatingCredentials::Start(plan_, options_);
  }

  std::unique_ptr<RotatingCredentials> MustStart() {
    auto started = Start();
    LOCKSTEP_CHECK(started.ok(), started.error().ToString());
    return std::move(started).value();
  }

  // The Authorization header; empty: none.
  static std::string Authorization(const Credentials& credentials) {
    const auto snapshot = credentials.Current();
    for (const auto& [name, value] : snapshot->headers) {
      if (name == "Authorization") {
        return value;
      }
    }
    return "";
  }

  static bool AwaitNewer(Credentials& credentials) {
    const uint64_t version = credentials.Current()->version;
    credentials.ReportRefused(version);
    const Deadline deadline = Deadline::After(SteadyNow(), seconds(60));
    while (credentials.LookForNewer(version) == CredentialSearch::kGoesOn &&
           !deadline.HasPassed(SteadyNow())) {
      std::this_thread::yield();
    }
    return credentials.LookForNewer(version) == CredentialSearch::kFound;
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  CredentialPlan plan_;
  RotationOptions options_;
};

TEST_F(RotatingCredentialsTest, RefusedTokenIsReadAgain) {
  plan_.token_file = folder_.Write("token", "old\n");
  const auto credentials = MustStart();
  EXPECT_EQ(Authorization(*credentials), "Bearer old");
  EXPECT_FALSE(AwaitNewer(*credentials)) << "the file is as it was";
  folder_.Write("token", "new\n");
  EXPECT_TRUE(AwaitNewer(*credentials));
  EXPECT_EQ(Authorization(*credentials), "Bearer new");
}

TEST_F(RotatingCredentialsTest, RefusalOfAnOlderTokenChangesNothing) {
  plan_.token_file = folder_.Write("token", "one");
  const auto credentials = MustStart();
  const uint64_t first = credentials->Current()->version;
  folder_.Write("token", "two");
  ASSERT_TRUE(AwaitNewer(*credentials));
  EXPECT_EQ(credentials->LookForNewer(first), CredentialSearch::kFound);
  EXPECT_EQ(Authorization(*credentials), "Bearer two");
}

TEST_F(RotatingCredentialsTest, FilesAreReadFromTimeToTime) {
  options_.period = milliseconds(1);
  plan_.token_file = folder_.Write("token", "old");
  const auto credentials = MustStart();
  folder_.Write("token", "new");
  const Deadline deadline = Deadline::After(SteadyNow(), seconds(60));
  while (Authorization(*credentials) != "Bearer new") {
    ASSERT_FALSE(deadline.HasPassed(SteadyNow()));
    std::this_thread::yield();
  }
}

TEST_F(RotatingCredentialsTest, EmptyOrMissingFileKeepsTheOldToken) {
  plan_.token_file = folder_.Write("token", "old");
  const auto credentials = MustStart();
  folder_.Write("token", "");
  EXPECT_FALSE(AwaitNewer(*credentials));
  EXPECT_EQ(Authorization(*credentials), "Bearer old");
  ::unlink(plan_.token_file.c_str());
  EXPECT_FALSE(AwaitNewer(*credentials));
  EXPECT_EQ(Authorization(*credentials), "Bearer old");
  folder_.Write("token", "new");
  EXPECT_TRUE(AwaitNewer(*credentials));
  EXPECT_EQ(Authorization(*credentials), "Bearer new");
}

TEST_F(RotatingCredentialsTest, NothingToBeginWithIsAnErrorThatNamesTheFile) {
  plan_.token_file = folder_.PathOf("absent");
  const auto started = Start();
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().ToString().find(plan_.token_file), std::string::npos);
}

TEST_F(RotatingCredentialsTest, TokenThatWouldAddAHeaderIsRefusedUnseen) {
  plan_.token = "abc\r\nX-Evil: yes";
  const auto started = Start();
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(started.error().ToString().find("abc"), std::string::npos);
}

TEST_F(RotatingCredentialsTest, TlsVersionGrowsWithCertificatesOnly) {
  plan_.token_file = folder_.Write("token", "t1");
  plan_.ca_file = folder_.Write("ca", "ca1");
  plan_.certificate_file = folder_.Write("cert", "cert1");
  plan_.key_file = folder_.Write("key", "key1");
  const auto credentials = MustStart();
  const auto first = credentials->Current();
  EXPECT_EQ(first->tls.ca_pem, "ca1");
  EXPECT_EQ(first->tls.certificate_pem, "cert1");
  EXPECT_EQ(first->tls.key_pem, "key1");
  folder_.Write("token", "t2");
  ASSERT_TRUE(AwaitNewer(*credentials));
  EXPECT_EQ(credentials->Current()->tls_version, first->tls_version);
  folder_.Write("ca", "ca2");
  ASSERT_TRUE(AwaitNewer(*credentials));
  EXPECT_GT(credentials->Current()->tls_version, first->tls_version);
  EXPECT_EQ(credentials->Current()->tls.ca_pem, "ca2");
}

TEST_F(RotatingCredentialsTest, TokenFileBeatsTokenAndTextBeatsOtherFiles) {
  plan_.token = "text";
  plan_.token_file = folder_.Write("token", "file");
  plan_.ca_pem = "text";
  plan_.ca_file = folder_.Write("ca", "file");
  const auto credentials = MustStart();
  EXPECT_EQ(Authorization(*credentials), "Bearer file");
  EXPECT_EQ(credentials->Current()->tls.ca_pem, "text");
}

TEST_F(RotatingCredentialsTest, PasswordAndImpersonationBecomeHeaders) {
  plan_.username = "Aladdin";
  plan_.password = "open sesame";
  plan_.impersonation = {{"Impersonate-User", "jane"}};
  const auto credentials = MustStart();
  EXPECT_EQ(Authorization(*credentials), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
  EXPECT_EQ(credentials->Current()->headers.at(1).second, "jane");
}

class ExecCredentials : public RotatingCredentialsTest {
 protected:
  // A plug-in that counts its runs; each token is the number of the run.
  void UsePlugin(const std::string& expires) {
    ExecPlugin plugin;
    plugin.api_version = "client.authentication.k8s.io/v1beta1";
    plugin.command = folder_.WriteScript(
        "plugin",
        "echo x >> " + folder_.PathOf("runs") + "\nn=$(wc -l < " + folder_.PathOf("runs") +
            ")\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":"
            "\"ExecCredential\",\"status\":{\"token\":\"'$n'\"" +
            (expires.empty() ? "" : ",\"expirationTimestamp\":\"" + expires + "\"") + "}}'\n");
    plan_.exec = plugin;
  }
};

TEST_F(ExecCredentials, RefusedTokenRunsThePluginAgain) {
  UsePlugin("");
  const auto credentials = MustStart();
  EXPECT_EQ(Authorization(*credentials), "Bearer 1");
  EXPECT_TRUE(AwaitNewer(*credentials));
  EXPECT_EQ(Authorization(*credentials), "Bearer 2");
}

TEST_F(ExecCredentials, PluginRestsBetweenRefusals) {
  UsePlugin("");
  options_.exec_pause_min = hours(1);
  const auto credentials = MustStart();
  EXPECT_FALSE(AwaitNewer(*credentials));
  EXPECT_EQ(Authorization(*credentials), "Bearer 1");
}

TEST_F(ExecCredentials, ExpiringTokenIsRenewedUnasked) {
  options_.exec_pause_min = milliseconds(1);
  UsePlugin(FormatRfc3339(clock_.WallNow()));
  const auto credentials = MustStart();
  const Deadline deadline = Deadline::After(SteadyNow(), seconds(60));
  while (Authorization(*credentials) == "Bearer 1") {
    ASSERT_FALSE(deadline.HasPassed(SteadyNow()));
    std::this_thread::yield();
  }
}

TEST_F(ExecCredentials, LastingTokenIsKept) {
  UsePlugin(FormatRfc3339(clock_.WallNow() + hours(1)));
  options_.period = milliseconds(1);
  const auto credentials = MustStart();
  EXPECT_TRUE(AwaitNewer(*credentials));  // asked for: the second run
  EXPECT_EQ(ReadFile(folder_.PathOf("runs"), 100).value(), "x\nx\n");
}

TEST_F(ExecCredentials, PluginThatBreaksKeepsTheOldToken) {
  UsePlugin("");
  const auto credentials = MustStart();
  folder_.WriteScript("plugin", "exit 1\n");
  EXPECT_FALSE(AwaitNewer(*credentials));
  EXPECT_EQ(Authorization(*credentials), "Bearer 1");
}

TEST_F(ExecCredentials, EndDoesNotWaitForAHangingPlugin) {
  UsePlugin("");
  options_.exec_timeout = hours(1);
  auto credentials = MustStart();
  folder_.WriteScript("plugin", "echo x > " + folder_.PathOf("hanging") + "\nexec sleep 1000\n");
  credentials->ReportRefused(credentials->Current()->version);
  const Deadline deadline = Deadline::After(SteadyNow(), seconds(60));
  while (::access(folder_.PathOf("hanging").c_str(), R_OK) != 0) {
    ASSERT_FALSE(deadline.HasPassed(SteadyNow()));
    std::this_thread::yield();
  }
  credentials = nullptr;
}

}  // namespace
}  // namespace lockstep::control
