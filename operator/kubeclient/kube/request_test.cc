#include "operator/kubeclient/kube/request.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::control::kube {
namespace {

struct TargetRow {
  const char* what;
  Request request;
  const char* method;
  const char* target;
  const char* content_type;
};

std::vector<TargetRow> TargetRows() {
  const Selection ours{kPods, "", "lockstep.dev/job,app in (a,b)", ""};
  const Selection foreign{kPods, "default", "", "spec.nodeName!=,status.phase!=Failed"};
  const char* json = "application/json";
  return {
      {"core", Get(kPods, "ns", "a-0"), "GET", "/api/v1/namespaces/ns/pods/a-0", ""},
      {"cluster scope", Get(kNodes, "", "n1"), "GET", "/api/v1/nodes/n1", ""},
      {"group",
       Get(kTrainingJobs, "ns", "mnist"),
       "GET",
       "/apis/lockstep.dev/v1/namespaces/ns/trainingjobs/mnist",
       ""},
      {"first list",
       List(ours, {"0", "", 0}),
       "GET",
       "/api/v1/pods?labelSelector=lockstep.dev%2Fjob%2Capp%20in%20%28a%2Cb%29&resourceVersion=0",
       ""},
      {"page: the token alone says where and at which version",
       List(foreign, {"17", "ab+/=", 500}),
       "GET",
       "/api/v1/namespaces/default/"
       "pods?fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DFailed"
       "&limit=500&continue=ab%2B%2F%3D",
       ""},
      {"watch",
       Watch({kNodes, "", "", ""}, {"17", std::chrono::seconds(301), false}),
       "GET",
       "/api/v1/nodes?watch=1&allowWatchBookmarks=true&resourceVersion=17&timeoutSeconds=301",
       ""},
      {"streaming list",
       Watch({kNodes, "", "", ""}, {"", std::chrono::seconds(300), true}),
       "GET",
       "/api/v1/nodes?watch=1&allowWatchBookmarks=true&sendInitialEvents=true"
       "&resourceVersionMatch=NotOlderThan&timeoutSeconds=300",
       ""},
      {"create",
       Create(kPods, "ns", "{}"),
       "POST",
       "/api/v1/namespaces/ns/pods?fieldValidation=Strict",
       json},
      {"apply",
       Apply(kServices, "ns", "mnist", "{}"),
       "PATCH",
       "/api/v1/namespaces/ns/services/mnist?fieldManager=lockstep-operator&force=true",
       "application/apply-patch+yaml"},
      {"apply of the status, giving way",
       Apply(kTrainingJobs, "ns", "mnist", "{}", {"somebody else", false, "status"}),
       "PATCH",
       "/apis/lockstep.dev/v1/namespaces/ns/trainingjobs/mnist/status"
       "?fieldManager=somebody%20else",
       "application/apply-patch+yaml"},
      {"update of the status",
       Update(kTrainingJobs, "ns", "mnist", "{}", "status"),
       "PUT",
       "/apis/lockstep.dev/v1/namespaces/ns/trainingjobs/mnist/status",
       json},
      {"merge patch",
       MergePatch(kEvents, "ns", "e", "{}"),
       "PATCH",
       "/api/v1/namespaces/ns/events/e",
       "application/merge-patch+json"},
      {"a name cannot leave its path segment",
       Get(kPods, "ns", "../x?y"),
       "GET",
       "/api/v1/namespaces/ns/pods/..%2Fx%3Fy",
       ""},
  };
}

TEST(Request, NamesMethodTargetAndContentType) {
  for (const TargetRow& row : TargetRows()) {
    EXPECT_EQ(row.request.method, row.method) << row.what;
    EXPECT_EQ(row.request.target, row.target) << row.what;
    EXPECT_EQ(row.request.content_type, row.content_type) << row.what;
    EXPECT_EQ(row.request.is_mutating(), row.request.method != "GET") << row.what;
  }
}

TEST(Request, DeleteCarriesItsPreconditionsInTheBody) {
  const Request any = Delete(kPods, "ns", "a", {});
  EXPECT_EQ(any.method, "DELETE");
  EXPECT_EQ(any.body,
            R"({"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"})");
  const Request one = Delete(kPods, "ns", "a", {"u-1", std::chrono::seconds(0), true});
  EXPECT_EQ(one.body,
            R"({"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Foreground",)"
            R"("gracePeriodSeconds":0,"preconditions":{"uid":"u-1"}})");
}

TEST(Request, FaultsHaveNames) {
  EXPECT_EQ(FaultKindName(FaultKind::kNotLeader), "not_leader");
}

std::string StatusBody(const std::string& reason, const std::string& message) {
  return R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":")" + message +
         R"(","reason":")" + reason + R"(","code":1})";
}

TEST(ToError, TellsWhatAFailureMeans) {
  struct Row {
    int status;
    const char* reason;
    const char* message;
    ErrorCode code;
  };

  const Row rows[] = {
      {404, "NotFound", "pods not found", ErrorCode::kNotFound},
      {409, "AlreadyExists", "pods exists", ErrorCode::kAlreadyExists},
      {409, "Conflict", "modified", ErrorCode::kStale},
      {410, "Expired", "too old resource version", ErrorCode::kStale},
      {422, "Invalid", "replicas", ErrorCode::kInvalidArgument},
      {400, "BadRequest", "bad", ErrorCode::kInvalidArgument},
      {401, "Unauthorized", "who", ErrorCode::kInvalidArgument},
      {403, "Forbidden", "user x cannot create pods", ErrorCode::kInvalidArgument},
      {403, "Forbidden", "exceeded quota: q, used", ErrorCode::kResourceExhausted},
      {413, "RequestEntityTooLarge", "limit is 3145728", ErrorCode::kResourceExhausted},
      {429, "TooManyRequests", "later", ErrorCode::kUnavailable},
      {500, "InternalError", "etcd", ErrorCode::kUnavailable},
      {503, "ServiceUnavailable", "starting", ErrorCode::kUnavailable},
      {504, "Timeout", "Too large resource version", ErrorCode::kUnavailable},
  };
  for (const Row& row : rows) {
    const Error error = ToError(Reply{row.status, StatusBody(row.reason, row.message), {}});
    EXPECT_EQ(error.code(), row.code) << row.status << row.reason;
    EXPECT_EQ(error.message(), row.message);
  }
}

TEST(ToError, KeepsTheBeginningOfWhatIsNoStatus) {
  EXPECT_EQ(ToError(Reply{502, "<html>", {}}).message(), "HTTP 502: <html>");
  EXPECT_EQ(ToError(Reply{503, "", {}}).message(), "HTTP 503");
  EXPECT_EQ(ToError(Reply{500, std::string(5000, 'x'), {}}).message().size(), 210U);
  EXPECT_EQ(ToError(Reply{500, R"({"message":7})", {}}).message(), R"(HTTP 500: {"message":7})");
}

TEST(ToError, AFaultIsUnavailableOrATimeout) {
  const Error reset = ToError(Fault{FaultKind::kReset, true, "by peer"});
  EXPECT_EQ(reset.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(reset.message(), "reset: by peer");
  EXPECT_EQ(ToError(Fault{FaultKind::kTimeout, true, "5 s"}).code(), ErrorCode::kTimeout);
}

TEST(MayHaveHappened, UnlessTheServerHasRefusedOrHasNeverHeard) {
  EXPECT_FALSE(MayHaveHappened(Reply{409, "", {}}));
  EXPECT_FALSE(MayHaveHappened(Reply{429, "", {}}));
  EXPECT_TRUE(MayHaveHappened(Reply{500, "", {}}));
  EXPECT_TRUE(MayHaveHappened(Reply{504, "", {}}));
  EXPECT_FALSE(MayHaveHappened(Fault{FaultKind::kTimeout, false, ""}));
  EXPECT_TRUE(MayHaveHappened(Fault{FaultKind::kReset, true, ""}));
}

TEST(RequireSuccess, PassesOnTheReplyOrTheError) {
  EXPECT_EQ(RequireSuccess(Reply{201, "{}", {}}).value().body, "{}");
  EXPECT_EQ(RequireSuccess(Reply{404, "", {}}).error().code(), ErrorCode::kNotFound);
  EXPECT_FALSE(RequireSuccess(Fault{}).ok());
}

}  // namespace
}  // namespace lockstep::control::kube
