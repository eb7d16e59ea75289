#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/kubeclient/kube/decode.h"
#include "operator/kubeclient/kube/reflector.h"

// For tests: a reflector, and the server's side of its exchanges as text.
namespace lockstep::control::kube {

// The server's side broke the connection.
inline const Fault kReset{FaultKind::kReset, true, "by peer"};

// {"metadata":{"name":NAME,"namespace":"ns","uid":"u-NAME","resourceVersion":VERSION}}
std::string ObjectText(const std::string& name, int version);

// One line of a watch.
std::string WatchEventText(const std::string& type, const std::string& name, int version);
std::string BookmarkText(int version, bool ends_initial_events);
std::string ErrorText(int code, const std::string& reason);

// The body of a LIST; `token` continues it.
std::string ListText(const std::vector<std::string>& objects,
                     const std::string& version,
                     const std::string& token = "");

// The body of a refusal: kind "Status".
std::string StatusText(int code, const std::string& reason, bool is_version_too_large = false);

// Drives one reflector; time passes only as its back-off demands and as tests say.
class ReflectorDriver {
 public:
  explicit ReflectorDriver(bool wants_streaming_list, uint64_t seed = 1);

  // Waits as long as the reflector wants and returns what it asks for: "list rv=0 limit=500",
  // "stream rv=", "watch rv=17".
  std::string Ask();

  // How long Ask waited.
  Duration waited() const { return waited_; }

  // Answers and ends the exchange. Returns what came of it: "replace a,b", "put a", "delete a",
  // joined by "; ".
  std::string Answer(int http_status,
                     std::string_view body,
                     const std::optional<Fault>& fault = std::nullopt);

  // The same in three steps. Bytes tells whether the exchange goes on.
  void Status(int http_status) { reflector_.OnStatus(http_status); }

  bool Bytes(std::string_view bytes) { return reflector_.OnBytes(bytes, &updates_); }

  std::string End(const std::optional<Fault>& fault = std::nullopt);

  void Pass(Duration time) { now_ += time; }

  const Reflector<RawObject>& reflector() const { return reflector_; }

 private:
  Reflector<RawObject> reflector_;
  std::vector<ObjectUpdate<RawObject>> updates_;
  TimePoint now_{std::chrono::hours(1)};
  Duration waited_{};
};

}  // namespace lockstep::control::kube
