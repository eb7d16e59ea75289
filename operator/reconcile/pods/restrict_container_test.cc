#include "operator/reconcile/pods/restrict_container.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

struct RestrictCase {
  const char* what;
  const char* pod;        // the pod's securityContext
  const char* container;  // the container's; empty: none
  const char* expected;
};

constexpr const char* kAllDefaults =
    R"({"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"},)"
    R"("allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}})";

TEST(RestrictContainer, FillsInExactlyWhatNobodySaid) {
  const std::vector<RestrictCase> cases = {
      {"nothing said", "{}", "", kAllDefaults},
      {"null is nothing", "{}", "null", kAllDefaults},
      {"a user is no reason to be root", R"({"runAsUser":1000})", "{}", kAllDefaults},
      {"the pod has said it",
       R"({"runAsNonRoot":true,"seccompProfile":{"type":"Localhost"}})",
       "{}",
       R"({"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}})"},
      {"the container has said it",
       "{}",
       R"({"capabilities":{"add":["IPC_LOCK"]},"allowPrivilegeEscalation":true})",
       R"({"capabilities":{"add":["IPC_LOCK"]},"allowPrivilegeEscalation":true,)"
       R"("runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}})"},
      {"a capability that needs escalation",
       "{}",
       R"({"capabilities":{"add":["SYS_ADMIN"]}})",
       R"({"capabilities":{"add":["SYS_ADMIN"]},"runAsNonRoot":true,)"
       R"("seccompProfile":{"type":"RuntimeDefault"}})"},
      {"privileged", "{}", R"({"privileged":true})", R"({"privileged":true})"},
      {"root by number", "{}", R"({"runAsUser":0})", R"({"runAsUser":0})"},
      {"root by the pod's number", R"({"runAsUser":0})", "{}", "{}"},
      {"root of the pod, but not of the container",
       R"({"runAsUser":0})",
       R"({"runAsUser":5})",
       R"({"runAsUser":5,"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"},)"
       R"("allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}})"},
      {"root allowed", R"({"runAsNonRoot":false})", "{}", "{}"},
      {"a wrong type", "{}", "7", "7"},
  };
  for (const RestrictCase& one : cases) {
    Json container = Json::object();
    if (*one.container != '\0') {
      container["securityContext"] = ParseJson(one.container).value();
    }

    RestrictContainer(ParseJson(one.pod).value(), &container);

    EXPECT_EQ(DumpJson(container["securityContext"]), one.expected) << one.what;
  }
}

}  // namespace
}  // namespace lockstep::control
