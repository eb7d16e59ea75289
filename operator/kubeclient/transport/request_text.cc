#include "operator/kubeclient/transport/request_text.h"

#include <algorithm>
#include <charconv>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

// Choice: a server that wants to be left alone for longer is asked again after a day.
constexpr int64_t kRetryAfterSecondsMax = 24 * 60 * 60;

bool HoldsControlCharacter(std::string_view text) {
  return std::any_of(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; });
}

void AddHeader(std::string_view name, std::string_view value, std::string* text) {
  LOCKSTEP_CHECK(!HoldsControlCharacter(name) && !HoldsControlCharacter(value),
                 "a header must not have a line end");
  text->append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

std::string ApiEndpoint::Url() const {
  return (is_tls ? "https://" : "http://") + Authority(*this) + base_path;
}

std::string Authority(const ApiEndpoint& endpoint) {
  const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" +
         std::to_string(endpoint.port);
}

std::string RequestText(const ApiEndpoint& endpoint,
                        const kube::Request& request,
                        const std::string& user_agent,
                        const std::vector<std::pair<std::string, std::string>>& headers) {
  const bool is_one_line = request.target.find(' ') == std::string::npos &&
                           !HoldsControlCharacter(request.target) &&
                           !HoldsControlCharacter(request.method);
  LOCKSTEP_CHECK(is_one_line, "the target of the request is not escaped");
  std::string text = request.method + " " + endpoint.base_path + request.target + " HTTP/1.1\r\n";
  AddHeader("Host", Authority(endpoint), &text);
  AddHeader("User-Agent", user_agent, &text);
  AddHeader("Accept", "application/json", &text);
  for (const auto& [name, value] : headers) {
    AddHeader(name, value, &text);
  }
  if (!request.content_type.empty()) {
    AddHeader("Content-Type", request.content_type, &text);
  }
  if (!request.body.empty() || request.is_mutating()) {
    AddHeader("Content-Length", std::to_string(request.body.size()), &text);
  }
  return text + "\r\n" + request.body;
}

std::optional<std::chrono::seconds> ParseRetryAfter(std::string_view text) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(std::min(seconds, kRetryAfterSecondsMax));
}

}  // namespace lockstep::control
