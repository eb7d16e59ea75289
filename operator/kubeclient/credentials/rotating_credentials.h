#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kubeclient/credentials/exec_plugin.h"
#include "operator/kubeclient/transport/credentials.h"

namespace lockstep::control {

// Where each part of the credentials comes from. Where both a text and a file are named, the text
// counts, but for the token, whose file counts: as client-go has it.
struct CredentialPlan {
  std::string ca_pem;
  std::string ca_file;
  std::string certificate_pem;
  std::string certificate_file;
  std::string key_pem;
  std::string key_file;
  std::string token;
  std::string token_file;
  std::string username;  // with password; only without a token
  std::string password;
  std::optional<ExecPlugin> exec;  // its token and certificate are used where nothing above is
  std::vector<std::pair<std::string, std::string>> impersonation;  // headers
  std::string server_name;
  bool verifies_server = true;
};

struct RotationOptions {
  const Clock* clock = nullptr;  // required; outlives the credentials
  Logger* logger = nullptr;      // required; outlives the credentials

  // How often files are read again. As client-go does with tokens; the kubelet renews a token long
  // before it ends.
  Duration period = std::chrono::seconds(60);

  // A credential with an end is replaced so long before it.
  Duration expiry_leeway = std::chrono::seconds(10);

  // For one run of a plug-in. Choice: one that asks a person would take longer, and nobody is
  // there.
  Duration exec_timeout = std::chrono::seconds(30);

  // Between two runs of a plug-in that a refused call asks for. Choice.
  Duration exec_pause_min = std::chrono::seconds(5);
};

// Credentials that are read again from time to time, and when the server refuses them, on a thread
// of their own. What cannot be read or is empty stays as it was, with a warning: a file that is
// being replaced costs nothing. Files are opened anew each time, because they are replaced by
// links.
class RotatingCredentials final : public Credentials {
 public:
  // Reads everything once before it returns.
  // Errors: those of files (with the path), of RunExecPlugin, kInvalidArgument (a token with
  // control characters). No error holds a secret.
  static Result<std::unique_ptr<RotatingCredentials>> Start(CredentialPlan plan,
                                                            const RotationOptions& options);

  // Ends a running plug-in.
  ~RotatingCredentials() override;

  RotatingCredentials(const RotatingCredentials&) = delete;
  RotatingCredentials& operator=(const RotatingCredentials&) = delete;

  std::shared_ptr<const CredentialSnapshot> Current() const override;
  void ReportRefused(uint64_t version) override;
  CredentialSearch LookForNewer(uint64_t version) override;

 private:
  class Core;

  explicit RotatingCredentials(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
};

}  // namespace lockstep::control
