#include "trainer-runtime/telemetry/runtime_endpoints.h"

#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/time.h"
#include "common/contract/status/status_document.h"
#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

// kControlSignatureHeader as HttpServerRequest names headers.
constexpr const char* kSignatureHeader = "x-lockstep-signature";

HttpServerResponse Refusal(int status, std::string_view reason) {
  return HttpServerResponse{status, "application/json", DumpJson(Json{{"error", reason}}) + "\n"};
}

HttpServerResponse AnswerHealth(const StatusBoard& board) {
  const Phase phase = board.Snapshot().phase;
  if (phase == Phase::kFailed) {
    return HttpServerResponse{503, "text/plain", "failed\n"};
  }
  return HttpServerResponse{200, "text/plain", "ok\n"};
}

HttpServerResponse AnswerStatus(const RuntimeEndpointsOptions& options,
                                const HttpServerRequest& request) {
  switch (JudgeStatusToken(
      options.job_key, options.pod, request.Header("authorization"), SystemClock().WallNow())) {
    case TokenVerdict::kTaken:
      return HttpServerResponse{
          200, "application/json", EncodeStatusDocument(options.board->Tell())};
    case TokenVerdict::kExpired:
      return Refusal(401, kStatusTokenExpired);
    case TokenVerdict::kForeign:
      return Refusal(401, "a status token for this pod, signed with the job's key, is required");
  }
  LOCKSTEP_CHECK(false, "unknown verdict on a token");
}

// Refuses what is not signed before anything of it is read, and what is old before it is obeyed.
class ControlGate {
 public:
  explicit ControlGate(RuntimeEndpointsOptions options)
      : options_(std::move(options)),
        receiver_{options_.job_uid, options_.attempt, options_.control_counter} {}

  HttpServerResponse Answer(const HttpServerRequest& request) {
    const std::string_view signature = request.Header(kSignatureHeader);
    const bool is_signed =
        !options_.job_key.empty() &&
        ConstantTimeEquals(signature, SignControlBody(options_.job_key, request.body));
    if (!is_signed) {
      return Refuse(ControlVerdict::kForged, 401, "the signature does not match");
    }
    const Result<ControlMessage> message =
        VerifyControlMessage(options_.job_key, request.body, signature);
    if (!message.ok()) {
      return Refuse(ControlVerdict::kMalformed, 400, message.error().ToString());
    }
    const Status fresh = CheckControlFreshness(*message, receiver_);
    if (!fresh.ok()) {
      return Refuse(ControlVerdict::kStale, 409, fresh.error().ToString());
    }
    receiver_.counter_highest = message->counter;
    options_.metrics->ControlMessageReceived(ControlVerdict::kAccepted);
    options_.logger->Info(
        "control message accepted",
        {{"kind", ControlKindName(message->kind)}, {"counter", message->counter}});
    if (options_.on_control) {
      options_.on_control(*message);
    }
    return HttpServerResponse{200, "application/json", "{}\n"};
  }

 private:
  HttpServerResponse Refuse(ControlVerdict verdict, int status, const std::string& reason) {
    options_.metrics->ControlMessageReceived(verdict);
    options_.logger->Warn("control message refused", {{"error", reason}});
    return Refusal(status, reason);
  }

  RuntimeEndpointsOptions options_;
  ControlReceiver receiver_;
};

}  // namespace

HttpRoutes MakeRuntimeRoutes(RuntimeEndpointsOptions options) {
  LOCKSTEP_CHECK(options.board != nullptr && options.metrics != nullptr,
                 "endpoints need a status board and metrics");
  LOCKSTEP_CHECK(options.logger != nullptr, "endpoints need a logger");
  // Shared by the copies of one handler, which all run on the server's one thread.
  const auto gate = std::make_shared<ControlGate>(options);
  HttpRoutes routes;
  routes["/healthz"]["GET"] = [board = options.board](const HttpServerRequest&) {
    return AnswerHealth(*board);
  };
  routes["/metrics"]["GET"] = [metrics = options.metrics,
                               other = options.metrics_page,
                               more = options.pod_metrics](const HttpServerRequest&) {
    std::string page = other ? other() : std::string();
    page = page.empty() ? metrics->RenderText() : page;
    page += more ? more() : std::string();
    return HttpServerResponse{200, "text/plain; version=0.0.4", std::move(page)};
  };
  routes["/control"]["POST"] = [gate](const HttpServerRequest& request) {
    return gate->Answer(request);
  };
  // Whether somebody reaches this pod is the first thing to know where its end was not held.
  const auto was_asked = std::make_shared<bool>(false);
  routes["/status"]["GET"] = [options = std::move(options),
                              was_asked](const HttpServerRequest& request) {
    HttpServerResponse answer = AnswerStatus(options, request);
    if (options.tells_of_first_status && answer.status == 200 && !std::exchange(*was_asked, true)) {
      options.logger->Info("the status was requested and sent");
    }
    return answer;
  };
  return routes;
}

}  // namespace lockstep::runtime
