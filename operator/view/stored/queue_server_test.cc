#include "operator/view/stored/queue_server.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

StoredQueue Queue(const std::string& name,
                  const std::string& parent = "",
                  std::set<std::string> namespaces = {}) {
  StoredQueue stored;
  stored.queue.name = name;
  stored.queue.parent = parent;
  stored.queue.namespaces = std::move(namespaces);
  return stored;
}

std::set<std::string> NamesElsewhere(const std::vector<StoredQueue>& queues,
                                     const std::set<std::string>& own,
                                     const std::vector<OtherRelease>& others) {
  std::set<std::string> names;
  for (const auto& [name, why] : QueuesServedElsewhere(queues, own, others)) {
    names.insert(name);
  }
  return names;
}

TEST(QueueServer, EachFamilyOfQueuesIsServedByOneReleaseAndBothAgree) {
  struct Case {
    const char* name;
    std::vector<StoredQueue> queues;
    std::set<std::string> of_younger;  // those that the older of two leaves to the other
    std::set<std::string> of_older;
  };

  const std::vector<Case> cases = {
      {"open to all", {Queue("q")}, {}, {"q"}},
      {"for the younger's jobs", {Queue("q", "", {"b"})}, {"q"}, {}},
      {"for both", {Queue("q", "", {"a", "b"})}, {}, {"q"}},
      {"for nobody's", {Queue("q", "", {"c"})}, {}, {}},
      {"two beside each other", {Queue("q", "", {"a"}), Queue("r", "", {"b"})}, {"r"}, {"q"}},
      {"two that share the quota above",
       {Queue("top"), Queue("q", "top", {"a"}), Queue("r", "top", {"b"})},
       {},
       {"q", "r", "top"}},
      {"all below are closed",
       {Queue("top"), Queue("q", "top", {"b"}), Queue("r", "top", {"b"})},
       {"q", "r", "top"},
       {}},
      {"closed above", {Queue("top", "", {"b"}), Queue("q", "top")}, {"q", "top"}, {}},
      {"closed above and below",
       {Queue("top", "", {"a", "b"}), Queue("q", "top", {"b", "c"})},
       {"q", "top"},
       {}},
      {"below itself", {Queue("q", "r"), Queue("r", "q")}, {}, {}},
  };
  const OtherRelease older{"s/older", {"a"}, true};
  const OtherRelease younger{"s/younger", {"b"}, false};
  for (const Case& one : cases) {
    EXPECT_EQ(NamesElsewhere(one.queues, {"a"}, {younger}), one.of_younger) << one.name;
    EXPECT_EQ(NamesElsewhere(one.queues, {"b"}, {older}), one.of_older) << one.name;
  }
}

TEST(QueueServer, ReleaseThatIsAloneServesAll) {
  EXPECT_EQ(NamesElsewhere({Queue("q"), Queue("r", "", {"b"})}, {"a"}, {}),
            std::set<std::string>());
}

// A lease stays when its release is uninstalled.
TEST(QueueServer, ReleaseWhoseNamespacesAreAllServedHereIsReplaced) {
  const std::vector<StoredQueue> queues = {Queue("q")};
  EXPECT_EQ(NamesElsewhere(queues, {"a", "b"}, {{"s/older", {"a"}, true}}),
            std::set<std::string>());
  EXPECT_EQ(NamesElsewhere(queues, {}, {{"s/older", {}, true}}), std::set<std::string>());
  EXPECT_EQ(NamesElsewhere(queues, {"a"}, {{"s/older", {}, true}}), std::set<std::string>{"q"});
}

TEST(QueueServer, WhyNamesTheLease) {
  const auto elsewhere = QueuesServedElsewhere({Queue("q")}, {"b"}, {{"s/older", {"a"}, true}});
  EXPECT_EQ(elsewhere.at("q"),
            "the operator with the lease s/older serves this queue and the queues that share its "
            "quota; if this queue is for jobs of other namespaces, list those namespaces in the "
            "queue's spec.namespaces");
}

}  // namespace
}  // namespace lockstep::control
