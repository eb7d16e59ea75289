#include <chrono>
#include <iostream>
#include <string>

#include "common/base/check.h"
#include "common/json/json.h"
#include "tests/sim/api_server.h"

// The simulated API server behind a pipe: one command a line, one answer a line, both JSON.
//
//   {"method": .., "path": .., "type": .., "body": ..}  a call: {"code": .., "body": ..}
//   {"watch": PATH}                                     starts one: the same, and {"id": ..}
//   {"read": ID}                                        its events since: {"body": lines}
//   {"terminate": NAMESPACE}                            it is being deleted: {}
//   {"do": "compact"}, {"do": "collect"}                history goes; garbage goes: {}
//
// Ends with its input.
namespace lockstep::control::sim {
namespace {

constexpr std::size_t kChangesMax = 1000;  // of one read: all of a test's

kube::Request RequestOf(const Json& command) {
  kube::Request request;
  request.method = TextAt(command, "method");
  request.target = TextAt(command, "path");
  request.content_type = TextAt(command, "type");
  request.body = TextAt(command, "body");
  return request;
}

Json AnswerOf(const kube::Reply& reply) {
  return {{"code", reply.status}, {"body", reply.body}};
}

Json Do(const Json& command, ApiServer* server, WallTime now) {
  if (command.contains("method")) {
    return AnswerOf(server->Handle(RequestOf(command), now));
  }
  if (command.contains("watch")) {
    kube::Request request;
    request.method = "GET";
    request.target = TextAt(command, "watch");
    const ApiServer::WatchStart start = server->OpenWatch(request);
    Json answer = AnswerOf(start.reply);
    answer["id"] = start.id;
    return answer;
  }
  if (command.contains("read")) {
    return {{"body", server->ReadWatch(command.at("read").get<int>(), kChangesMax)}};
  }
  if (command.contains("terminate")) {
    server->terminating.insert(TextAt(command, "terminate"));
    return Json::object();
  }
  const std::string what = TextAt(command, "do");
  LOCKSTEP_CHECK(what == "compact" || what == "collect", "known commands only");
  if (what == "compact") {
    server->mutable_store()->Compact();
  }
  while (what == "collect" && server->CollectGarbage(now)) {
  }
  return Json::object();
}

void Serve() {
  ApiServer server;
  WallTime now{std::chrono::seconds(1'800'000'000)};
  for (std::string line; std::getline(std::cin, line);) {
    now += std::chrono::seconds(1);
    std::cout << DumpJson(Do(ParseJson(line).value(), &server, now)) << std::endl;
  }
}

}  // namespace
}  // namespace lockstep::control::sim

int main() {
  lockstep::control::sim::Serve();
}
