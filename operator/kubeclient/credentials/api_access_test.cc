#include "operator/kubeclient/credentials/api_access.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "operator/kubeclient/credentials/kubeconfig.h"
#include "operator/kubeclient/transport/testing/temporary_folder.h"

namespace lockstep::control {
namespace {

struct UrlCase {
  const char* url;
  const char* host;
  uint16_t port;
  bool is_tls;
  const char* path;
};

TEST(ParseApiUrl, UnderstandsWhatServersAreCalled) {
  for (const UrlCase& one : {UrlCase{"https://api", "api", 443, true, ""},
                             UrlCase{"https://api:6443/", "api", 6443, true, ""},
                             UrlCase{"http://127.0.0.1", "127.0.0.1", 80, false, ""},
                             UrlCase{"https://[::1]:6443", "::1", 6443, true, ""},
                             UrlCase{"https://[fd00::1]", "fd00::1", 443, true, ""},
                             UrlCase{"https://r/k8s/c-1/", "r", 443, true, "/k8s/c-1"}}) {
    SCOPED_TRACE(one.url);
    const auto endpoint = ParseApiUrl(one.url);
    ASSERT_TRUE(endpoint.ok()) << endpoint.error().ToString();
    EXPECT_EQ(endpoint->host, one.host);
    EXPECT_EQ(endpoint->port, one.port);
    EXPECT_EQ(endpoint->is_tls, one.is_tls);
    EXPECT_EQ(endpoint->base_path, one.path);
  }
}

TEST(ParseApiUrl, RefusesEverythingElse) {
  for (const char* url : {"",
                          "api:6443",
                          "ftp://api",
                          "https://",
                          "https://:6443",
                          "https://api:0",
                          "https://api:65536",
                          "https://api:6443x",
                          "https://[::1",
                          "https://[::1]6443",
                          "https://[]",
                          "https://user:secret@api",
                          "https://api/?a",
                          "https://api/a b"}) {
    EXPECT_FALSE(ParseApiUrl(url).ok()) << url;
  }
}

class ApiAccessTest : public ::testing::Test {
 protected:
  ApiAccessTest() {
    options_.environment = [this](const char* name) { return environment_[name]; };
    options_.service_account_folder = folder_.PathOf(".");
    environment_["HOME"] = folder_.PathOf("home");
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> environment_;
  ApiAccessOptions options_;
};

TEST_F(ApiAccessTest, PodUsesItsServiceAccount) {
  folder_.Write("namespace", "lockstep-system\n");
  environment_["KUBERNETES_SERVICE_HOST"] = "fd00::1";
  environment_["KUBERNETES_SERVICE_PORT"] = "6443";
  const auto access = FindApiAccess(options_);
  ASSERT_TRUE(access.ok()) << access.error().ToString();
  EXPECT_EQ(access->endpoint.Url(), "https://[fd00::1]:6443");
  EXPECT_EQ(access->namespace_name, "lockstep-system");
  EXPECT_EQ(access->credentials.token_file, options_.service_account_folder + "/token");
  EXPECT_EQ(access->credentials.ca_file, options_.service_account_folder + "/ca.crt");
}

TEST_F(ApiAccessTest, NothingAtAllSaysWhatWasTried) {
  const auto access = FindApiAccess(options_);
  ASSERT_FALSE(access.ok());
  EXPECT_EQ(access.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(access.error().message().find("KUBECONFIG"), std::string::npos);
}

constexpr const char* kFirst = R"(
apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: dev
  cluster: {server: "https://dev:6443", certificate-authority: ca/dev.crt, tls-server-name: api.dev}
contexts:
- name: dev
  context: {cluster: dev, user: jane, namespace: team}
users:
- name: jane
  user: {client-certificate: jane.crt, client-key: /keys/jane.key}
)";

constexpr const char* kSecond = R"(
current-context: prod
clusters:
- name: dev
  cluster: {server: "https://wrong"}
- name: prod
  cluster: {server: "https://prod", certificate-authority-data: Q0E=}
contexts:
- name: prod
  context: {cluster: prod, user: robot}
- name: mixed
  context: {cluster: dev, user: robot}
users:
- name: jane
  user: {token: wrong}
- name: robot
  user: {token: plain, tokenFile: robot.token, as: boss, as-groups: [a, b]}
)";

TEST_F(ApiAccessTest, FirstFileOfTheListWins) {
  const std::string first = folder_.Write("first", kFirst);
  const std::string second = folder_.Write("second", kSecond);
  environment_["KUBECONFIG"] = folder_.PathOf("absent") + "::" + first + ":" + second;
  const auto access = FindApiAccess(options_);
  ASSERT_TRUE(access.ok()) << access.error().ToString();
  EXPECT_EQ(access->endpoint.Url(), "https://dev:6443");
  EXPECT_EQ(access->namespace_name, "team");
  EXPECT_EQ(access->credentials.server_name, "api.dev");
  EXPECT_EQ(access->credentials.ca_file, folder_.PathOf("ca/dev.crt"));
  EXPECT_EQ(access->credentials.certificate_file, folder_.PathOf("jane.crt"));
  EXPECT_EQ(access->credentials.key_file, "/keys/jane.key");
  EXPECT_EQ(access->credentials.token, "");
  EXPECT_EQ(access->source, "context dev of " + first);
}

TEST_F(ApiAccessTest, ContextMayMixFiles) {
  environment_["KUBECONFIG"] =
      folder_.Write("first", kFirst) + ":" + folder_.Write("second", kSecond);
  options_.context = "mixed";
  const auto access = FindApiAccess(options_);
  ASSERT_TRUE(access.ok()) << access.error().ToString();
  EXPECT_EQ(access->endpoint.Url(), "https://dev:6443");
  EXPECT_EQ(access->credentials.token_file, folder_.PathOf("robot.token"));
  using Header = std::pair<std::string, std::string>;
  EXPECT_EQ(
      access->credentials.impersonation,
      (std::vector<Header>{
          {"Impersonate-User", "boss"}, {"Impersonate-Group", "a"}, {"Impersonate-Group", "b"}}));
  options_.context = "prod";
  EXPECT_EQ(FindApiAccess(options_)->credentials.ca_pem, "CA");
}

TEST_F(ApiAccessTest, FileThatTheUserNamedBeatsAllOthers) {
  environment_["KUBECONFIG"] = folder_.Write("first", kFirst);
  environment_["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  options_.kubeconfig = folder_.Write("second", kSecond);
  EXPECT_EQ(FindApiAccess(options_)->endpoint.host, "prod");
  options_.kubeconfig = folder_.PathOf("absent");
  EXPECT_EQ(FindApiAccess(options_).error().code(), ErrorCode::kNotFound);
}

TEST_F(ApiAccessTest, PluginIsDescribedWithItsCluster) {
  const std::string path = folder_.Write("config", R"(
current-context: x
clusters:
- name: x
  cluster:
    server: https://api:6443
    certificate-authority-data: Q0E=
    extensions:
    - name: client.authentication.k8s.io/exec
      extension: {audience: me}
contexts: [{name: x, context: {cluster: x, user: x}}]
users:
- name: x
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: ./bin/login
      args: [--cluster, x]
      env: [{name: A, value: b}]
      installHint: get it
      provideClusterInfo: true
      interactiveMode: IfAvailable
)");
  const auto access = ReadKubeconfig({path}, "");
  ASSERT_TRUE(access.ok()) << access.error().ToString();
  const ExecPlugin& plugin = access->credentials.exec.value();
  EXPECT_EQ(plugin.api_version, "client.authentication.k8s.io/v1beta1");
  EXPECT_EQ(plugin.command, folder_.PathOf("./bin/login"));
  EXPECT_EQ(plugin.args, (std::vector<std::string>{"--cluster", "x"}));
  EXPECT_EQ(plugin.environment.at(0).second, "b");
  EXPECT_EQ(plugin.install_hint, "get it");
  EXPECT_EQ(plugin.cluster_json,
            R"({"server":"https://api:6443","certificate-authority-data":"Q0E=",)"
            R"("config":{"audience":"me"}})");
}

// A whole file with this cluster and this user.
std::string ConfigWith(const std::string& cluster, const std::string& user) {
  return "current-context: x\nclusters: [{name: x, cluster: {" + cluster +
         "}}]\ncontexts: [{name: x, context: {cluster: x, user: x}}]\nusers: [{name: x, user: {" +
         user + "}}]\n";
}

TEST_F(ApiAccessTest, WhatIsNotUnderstoodIsSaidWithItsPlaceAndNoSecret) {
  struct Bad {
    const char* cluster;
    const char* user;
    const char* says;
  };

  constexpr const char* kServer = "server: 'https://api'";
  for (const Bad& bad : {
           Bad{"server: api", "token: hunter2", "clusters[0].cluster.server"},
           Bad{"server: 'https://api', proxy-url: 'http://p'", "", "proxies are not supported"},
           Bad{"server: 'https://api', insecure-skip-tls-verify: true, certificate-authority: x",
               "",
               "insecure-skip-tls-verify"},
           Bad{"server: 'https://api', certificate-authority-data: '?'", "", "is not base64"},
           Bad{kServer, "token: [hunter2]", "users[0].user.token"},
           Bad{kServer, "client-key-data: hunter2!", "users[0].user.client-key-data"},
           Bad{kServer, "auth-provider: {name: gcp}", "auth-provider"},
           Bad{kServer, "exec: {apiVersion: client.authentication.k8s.io/v1alpha1}", "apiVersion"},
           Bad{kServer, "exec: {apiVersion: client.authentication.k8s.io/v1}", "command"},
           Bad{kServer,
               "exec: {apiVersion: client.authentication.k8s.io/v1, command: x, "
               "interactiveMode: Always}",
               "terminal"},
       }) {
    SCOPED_TRACE(bad.says);
    const std::string path = folder_.Write("config", ConfigWith(bad.cluster, bad.user));
    const auto access = ReadKubeconfig({path}, "");
    ASSERT_FALSE(access.ok());
    const std::string text = access.error().ToString();
    EXPECT_NE(text.find(bad.says), std::string::npos) << text;
    EXPECT_EQ(text.find("hunter2"), std::string::npos) << text;
  }
}

TEST_F(ApiAccessTest, BrokenFileIsNamedAndNotQuoted) {
  const std::string path = folder_.Write("config", "users: [hunter2\n");
  const auto access = ReadKubeconfig({path}, "");
  ASSERT_FALSE(access.ok());
  EXPECT_NE(access.error().ToString().find(path), std::string::npos);
  EXPECT_EQ(access.error().ToString().find("hunter2"), std::string::npos);
}

TEST_F(ApiAccessTest, MissingNamesAreNamed) {
  const std::string path = folder_.Write("config", kFirst);
  EXPECT_NE(ReadKubeconfig({path}, "other").error().message().find("context \"other\""),
            std::string::npos);
  const std::string lonely =
      folder_.Write("lonely", "contexts: [{name: x, context: {cluster: nowhere, user: nobody}}]\n");
  EXPECT_NE(ReadKubeconfig({lonely}, "x").error().message().find("cluster \"nowhere\""),
            std::string::npos);
  EXPECT_NE(ReadKubeconfig({lonely}, "").error().message().find("current-context"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
