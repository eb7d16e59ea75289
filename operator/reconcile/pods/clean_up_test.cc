#include <cctype>
#include <cstddef>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "common/base/testing/paths.h"
#include "operator/capacity/capacity_request.h"
#include "operator/capacity/kueue_workload.h"
#include "operator/capacity/placeholder_pod.h"
#include "operator/capacity/pod_group.h"
#include "operator/reconcile/pods/job_objects.h"
#include "operator/reconcile/testing/fake_asking_world.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kDocumentBytesMax = 1 << 20;

// The commands of docs/reference/install.md that remove what a job has left: a kind, as kubectl
// takes it, and the key of a label that has the job's name.
std::set<std::pair<std::string, std::string>> CleanUps() {
  const auto text = ReadFile(RepositoryFile("docs/reference/install.md"), kDocumentBytesMax);
  EXPECT_TRUE(text.ok());
  const std::regex command("kubectl delete ([a-z0-9.,-]+) -l ([a-z./-]+)=NAME");
  std::set<std::pair<std::string, std::string>> found;
  for (std::sregex_iterator each(text->begin(), text->end(), command), end; each != end; ++each) {
    std::stringstream kinds((*each)[1]);
    for (std::string kind; std::getline(kinds, kind, ',');) {
      found.emplace(kind, (*each)[2]);
    }
  }
  return found;
}

// "podgroups.scheduling.k8s.io", "pods": what kubectl calls it.
std::string KindOf(const Json& object) {
  std::string kind = object["kind"].get<std::string>() + "s";
  for (char& letter : kind) {
    letter = static_cast<char>(std::tolower(letter));
  }
  const auto version = object["apiVersion"].get<std::string>();
  const std::size_t slash = version.find('/');
  return slash == version.npos ? kind : kind + "." + version.substr(0, slash);
}

// `kubectl delete tj NAME --cascade=orphan` leaves all of it without an owner.
TEST(CleanUp, CommandsOfTheDocumentFindAllThatIsMadeForAJob) {
  TrainingJob job = AskingJob();
  job.status.provisioning =
      CapacityAsk{1, OpenAsk{ProvisioningClass::kCheckCapacity, "rev", {}}, 0, {}, ""};
  const RoleSpec& role = job.spec.roles[0];
  const std::vector<Json> objects = {ServiceManifest(job),
                                     KeySecretManifest(job, "key"),
                                     CapacityRequestManifest(job),
                                     CapacityTemplateManifest(job, role, {}),
                                     PlaceholderManifest(job, role, 0, {}),
                                     PodGroupManifest(job, kube::PodGroupVersion::kV1Beta1),
                                     WorkloadManifest(job, 0)};
  const auto clean_ups = CleanUps();
  for (const Json& object : objects) {
    bool is_found = false;
    for (const auto& [key, value] : object["metadata"]["labels"].items()) {
      is_found =
          is_found || (value == job.metadata.name && clean_ups.contains({KindOf(object), key}));
    }
    EXPECT_TRUE(is_found) << KindOf(object) << " with labels "
                          << DumpJson(object["metadata"]["labels"]);
  }
}

}  // namespace
}  // namespace lockstep::control
