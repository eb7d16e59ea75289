#include "operator/kubeclient/credentials/rotating_credentials.h"

#include <algorithm>
#include <cctype>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <sys/eventfd.h>

#include "common/base/check.h"
#include "common/base/io/file.h"
#include "common/base/io/signals_blocked.h"
#include "common/base/io/unique_fd.h"
#include "operator/kubeclient/credentials/base64.h"

namespace lockstep::control {
namespace {

// Choice: larger than any certificate bundle.
constexpr std::size_t kCredentialBytesMax = 4 * 1024 * 1024;

constexpr std::string_view kSpace = " \t\r\n";

std::string Trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

Result<std::string> ReadNonEmpty(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::string content, ReadFile(path, kCredentialBytesMax));
  content = Trimmed(content);
  if (content.empty()) {
    return Error(ErrorCode::kUnavailable, path + " is empty");
  }
  return content;
}

// Headers made of files must not be able to add others.
bool CanBeHeader(const std::string& name, const std::string& value) {
  const bool is_name = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '%';
  });
  return is_name && std::none_of(value.begin(), value.end(), [](unsigned char c) {
           return c < ' ' || c == 0x7F;
         });
}

// What was read at one time.
struct Material {
  std::vector<std::pair<std::string, std::string>> headers;
  TlsMaterial tls;
};

}  // namespace

class RotatingCredentials::Core {
 public:
  Core(CredentialPlan plan, const RotationOptions& options)
      : plan_(std::move(plan)), options_(options), stop_(::eventfd(0, EFD_CLOEXEC)) {}

  ~Core() {
    if (!thread_.joinable()) {
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    ::eventfd_write(stop_.get(), 1);
    changed_.notify_all();
    thread_.join();
  }

  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  Status Start() {
    LOCKSTEP_ASSIGN_OR_RETURN(Material first, Read(/*is_refused=*/false));
    Publish(std::move(first));
    const SignalsBlocked blocked;  // inherited by the thread
    thread_ = std::thread([this] { Run(); });
    return OkStatus();
  }

  std::shared_ptr<const CredentialSnapshot> Current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }

  void ReportRefused(uint64_t version) {
    const std::lock_guard lock(mutex_);
    if (version == current_->version) {
      refused_version_ = version;
      ++asked_round_;
      changed_.notify_all();
    }
  }

  CredentialSearch LookForNewer(uint64_t version) const {
    const std::lock_guard lock(mutex_);
    if (current_->version > version) {
      return CredentialSearch::kFound;
    }
    return asked_round_ > done_round_ ? CredentialSearch::kGoesOn : CredentialSearch::kNothing;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (!is_stopping_) {
      changed_.wait_until(
          lock, NextDue(), [this] { return is_stopping_ || asked_round_ > done_round_; });
      if (is_stopping_) {
        return;
      }
      const uint64_t round = asked_round_;
      const bool is_refused = refused_version_ == current_->version;
      lock.unlock();
      Result<Material> read = Read(is_refused);
      if (!read.ok()) {
        options_.logger->Warn("credentials were not renewed", {{"error", read.error().ToString()}});
      }
      lock.lock();
      if (read.ok()) {
        PublishLocked(std::move(read).value());
      }
      refused_version_ = 0;
      done_round_ = round;
      changed_.notify_all();
    }
  }

  // When things are read again though nobody asks.
  TimePoint NextDue() const {
    const TimePoint now = options_.clock->Now();
    TimePoint due = now + options_.period;
    if (exec_ && exec_->expires) {
      const Duration left = *exec_->expires - options_.clock->WallNow() - options_.expiry_leeway;
      due = std::min(due, now + std::max<Duration>(left, options_.exec_pause_min));
    }
    return due;
  }

  // Reads everything anew; what cannot be read stays as it was, if it was ever read.
  Result<Material> Read(bool is_refused) {
    if (plan_.exec) {
      LOCKSTEP_RETURN_IF_ERROR(RunPluginIfDue(is_refused));
    }
    Material material;
    material.tls.server_name = plan_.server_name;
    material.tls.verifies_server = plan_.verifies_server;
    LOCKSTEP_ASSIGN_OR_RETURN(material.tls.ca_pem, TextOf(plan_.ca_pem, plan_.ca_file, &ca_));
    LOCKSTEP_ASSIGN_OR_RETURN(material.tls.certificate_pem,
                              TextOf(plan_.certificate_pem, plan_.certificate_file, &certificate_));
    LOCKSTEP_ASSIGN_OR_RETURN(material.tls.key_pem, TextOf(plan_.key_pem, plan_.key_file, &key_));
    if (material.tls.certificate_pem.empty() && exec_) {
      material.tls.certificate_pem = exec_->certificate_pem;
      material.tls.key_pem = exec_->key_pem;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string authorization, Authorization());
    if (!authorization.empty()) {
      material.headers.emplace_back("Authorization", authorization);
    }
    material.headers.insert(
        material.headers.end(), plan_.impersonation.begin(), plan_.impersonation.end());
    for (const auto& [name, value] : material.headers) {
      if (!CanBeHeader(name, value)) {
        return Error(
            ErrorCode::kInvalidArgument,
            "the value of the header " + name + " has characters that a header may not have");
      }
    }
    return material;
  }

  // The text, or what the file holds. `last` is what it held when it could last be read.
  Result<std::string> TextOf(const std::string& text, const std::string& file, std::string* last) {
    if (!text.empty() || file.empty()) {
      return text;
    }
    auto content = ReadNonEmpty(file);
    if (content.ok()) {
      *last = std::move(content).value();
    } else if (last->empty()) {
      return std::move(content).error();
    } else {
      options_.logger->Warn(
          "a credential file could not be read; the operator uses its previous content",
          {{"error", content.error().ToString()}});
    }
    return *last;
  }

  Result<std::string> Authorization() {
    std::string token;
    if (!plan_.token_file.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(token, TextOf("", plan_.token_file, &token_));
    } else {
      token = Trimmed(plan_.token.empty() && exec_ ? exec_->token : plan_.token);
    }
    if (!token.empty()) {
      return "Bearer " + token;
    }
    return plan_.username.empty() ? std::string()
                                  : "Basic " + EncodeBase64(plan_.username + ":" + plan_.password);
  }

  Status RunPluginIfDue(bool is_refused) {
    const TimePoint now = options_.clock->Now();
    const bool is_expiring = exec_ && exec_->expires &&
                             *exec_->expires - options_.expiry_leeway <= options_.clock->WallNow();
    const bool may_run_again = !exec_ran_at_ || now - *exec_ran_at_ >= options_.exec_pause_min;
    if (exec_ && !((is_expiring || is_refused) && may_run_again)) {
      return OkStatus();
    }
    exec_ran_at_ = now;
    auto credential = RunExecPlugin(
        *plan_.exec, Deadline::After(SteadyNow(), options_.exec_timeout), stop_.get());
    if (credential.ok()) {
      exec_ = std::move(credential).value();
      return OkStatus();
    }
    if (!exec_) {
      return std::move(credential).error();
    }
    options_.logger->Warn("the credential plug-in failed; the operator uses its previous answer",
                          {{"error", credential.error().ToString()}});
    return OkStatus();
  }

  void Publish(Material material) {
    const std::lock_guard lock(mutex_);
    PublishLocked(std::move(material));
  }

  void PublishLocked(Material material) {
    auto next = std::make_shared<CredentialSnapshot>();
    if (current_ != nullptr) {
      if (current_->headers == material.headers && current_->tls == material.tls) {
        return;
      }
      next->version = current_->version;
      next->tls_version = current_->tls_version;
    }
    ++next->version;
    next->tls_version += current_ == nullptr || current_->tls != material.tls ? 1U : 0U;
    next->headers = std::move(material.headers);
    next->tls = std::move(material.tls);
    current_ = std::move(next);
  }

  const CredentialPlan plan_;
  const RotationOptions options_;
  const UniqueFd stop_;  // readable when the thread must end

  // What could last be read; before the thread starts and by it.
  std::string ca_;
  std::string certificate_;
  std::string key_;
  std::string token_;
  std::optional<ExecCredential> exec_;
  std::optional<TimePoint> exec_ran_at_;

  mutable std::mutex mutex_;  // for all below
  std::condition_variable changed_;
  std::shared_ptr<const CredentialSnapshot> current_;  // shared with requests under way
  uint64_t asked_round_ = 0;
  uint64_t done_round_ = 0;
  uint64_t refused_version_ = 0;  // 0: none
  bool is_stopping_ = false;
  std::thread thread_;  // last: it uses everything above
};

RotatingCredentials::RotatingCredentials(std::unique_ptr<Core> core) : core_(std::move(core)) {}

RotatingCredentials::~RotatingCredentials() = default;

Result<std::unique_ptr<RotatingCredentials>> RotatingCredentials::Start(
    CredentialPlan plan, const RotationOptions& options) {
  LOCKSTEP_CHECK(options.clock != nullptr && options.logger != nullptr,
                 "credentials need a clock and a logger");
  auto core = std::make_unique<Core>(std::move(plan), options);
  LOCKSTEP_RETURN_IF_ERROR(core->Start());
  return std::unique_ptr<RotatingCredentials>(new RotatingCredentials(std::move(core)));
}

std::shared_ptr<const CredentialSnapshot> RotatingCredentials::Current() const {
  return core_->Current();
}

void RotatingCredentials::ReportRefused(uint64_t version) {
  core_->ReportRefused(version);
}

CredentialSearch RotatingCredentials::LookForNewer(uint64_t version) {
  return core_->LookForNewer(version);
}

}  // namespace lockstep::control
