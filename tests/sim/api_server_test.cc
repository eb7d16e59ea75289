#include "tests/sim/api_server.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kubeclient/kube/decode.h"
#include "operator/kubeclient/kube/reflector.h"

namespace lockstep::control::sim {
namespace {

constexpr WallTime kNow{std::chrono::seconds(1'800'000'000)};
const kube::Selection kAllPods{kube::kPods, "", "", ""};

Json PodBody(const std::string& name, const std::string& owner_uid = "") {
  Json pod = {{"metadata", {{"name", name}, {"labels", {{"lockstep.dev/job", "j"}}}}},
              {"spec", {{"containers", Json::array({{{"name", "trainer"}}})}}}};
  if (!owner_uid.empty()) {
    pod["metadata"]["ownerReferences"] = Json::array(
        {{{"kind", "TrainingJob"}, {"name", "j"}, {"uid", owner_uid}, {"controller", true}}});
  }
  return pod;
}

class ApiServerTest : public ::testing::Test {
 protected:
  kube::Reply Send(const kube::Request& request) { return server.Handle(request, kNow); }

  Json Create(const kube::ResourceType& type, const Json& body) {
    const kube::Reply reply = Send(kube::Create(type, "ns", DumpJson(body)));
    EXPECT_EQ(reply.status, 201) << reply.body;
    return ParseJson(reply.body).value();
  }

  Json CreateJob() { return Create(kube::kTrainingJobs, {{"metadata", {{"name", "j"}}}}); }

  int Put(Json object, const std::string& subresource = "") {
    return Send(kube::Update(kube::kTrainingJobs, "ns", "j", DumpJson(object), subresource)).status;
  }

  bool IsThere(const kube::ResourceType& type, const std::string& name) {
    return Send(kube::Get(type, "ns", name)).status == 200;
  }

  void CollectAll() {
    while (server.CollectGarbage(kNow)) {
    }
  }

  ApiServer server;
};

TEST_F(ApiServerTest, KeepsWhatWasCreatedOnce) {
  const Json pod = Create(kube::kPods, PodBody("a"));
  EXPECT_EQ(pod["kind"], "Pod");
  EXPECT_EQ(pod["metadata"]["namespace"], "ns");
  EXPECT_NE(pod["metadata"]["uid"], "");
  EXPECT_EQ(pod["status"]["phase"], "Pending");
  const kube::Reply again = Send(kube::Create(kube::kPods, "ns", DumpJson(PodBody("a"))));
  EXPECT_EQ(again.status, 409);
  EXPECT_EQ(kube::ToError(again).code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(Send(kube::Get(kube::kPods, "ns", "b")).status, 404);
  EXPECT_EQ(Send(kube::Get(kube::kPods, "ns", "a")).body, DumpJson(pod));
}

TEST_F(ApiServerTest, AnOlderVersionIsRefusedAndStatusIsWrittenApart) {
  Json job = CreateJob();
  Json with_spec = job;
  with_spec["spec"]["x"] = 1;
  with_spec["status"]["y"] = 2;
  EXPECT_EQ(Put(with_spec), 200);
  EXPECT_EQ(Put(with_spec), 409);
  Json stored = ParseJson(Send(kube::Get(kube::kTrainingJobs, "ns", "j")).body).value();
  EXPECT_FALSE(stored.contains("status"));
  EXPECT_EQ(stored["metadata"]["generation"], 2);
  stored["spec"]["x"] = 7;
  stored["status"]["y"] = 2;
  EXPECT_EQ(Put(stored, "status"), 200);
  stored = ParseJson(Send(kube::Get(kube::kTrainingJobs, "ns", "j")).body).value();
  EXPECT_EQ(stored["spec"]["x"], 1);
  EXPECT_EQ(stored["status"]["y"], 2);
  EXPECT_EQ(stored["metadata"]["generation"], 2);
  const int64_t version = server.mutable_store()->version();
  EXPECT_EQ(Put(stored, "status"), 200);
  EXPECT_EQ(server.mutable_store()->version(), version) << "nothing changed: no write";
  stored["metadata"]["uid"] = "another";
  EXPECT_EQ(Put(stored, "status"), 409);
}

TEST_F(ApiServerTest, PodsAreDeletedWithTheirGraceOnceBound) {
  const Json pod = Create(kube::kPods, PodBody("a"));
  EXPECT_EQ(Send(kube::Delete(kube::kPods, "ns", "a", {"other", {}, false})).status, 409);
  server.Edit(kube::kPods, {"ns", "a"}, [](Json* one) { (*one)["spec"]["nodeName"] = "n"; });
  EXPECT_EQ(Send(kube::Delete(kube::kPods, "ns", "a", {UidOf(pod), {}, false})).status, 200);
  const Json deleting = *server.mutable_store()->Get(kube::kPods, {"ns", "a"});
  EXPECT_EQ(deleting["metadata"]["deletionGracePeriodSeconds"], 30);
  EXPECT_EQ(deleting["metadata"]["deletionTimestamp"], "2027-01-15T08:00:30Z");
  Send(kube::Delete(kube::kPods, "ns", "a", {"", std::chrono::seconds(60), false}));
  EXPECT_EQ(*server.mutable_store()->Get(kube::kPods, {"ns", "a"}), deleting)
      << "only shorter counts";
  Send(kube::Delete(kube::kPods, "ns", "a", {"", std::chrono::seconds(0), false}));
  EXPECT_FALSE(IsThere(kube::kPods, "a"));
  Create(kube::kPods, PodBody("b"));
  Send(kube::Delete(kube::kPods, "ns", "b", {}));
  EXPECT_FALSE(IsThere(kube::kPods, "b")) << "not bound: nobody has to stop it";
}

TEST_F(ApiServerTest, DependentsFollowTheirOwner) {
  const Json job = CreateJob();
  Create(kube::kPods, PodBody("a", UidOf(job)));
  Create(kube::kPods, PodBody("stranger"));
  CollectAll();
  EXPECT_TRUE(IsThere(kube::kPods, "a"));
  Send(kube::Delete(kube::kTrainingJobs, "ns", "j", {}));
  CollectAll();
  EXPECT_FALSE(IsThere(kube::kPods, "a"));
  EXPECT_TRUE(IsThere(kube::kPods, "stranger"));
  Create(kube::kPods, PodBody("late", UidOf(job)));
  CreateJob();
  CollectAll();
  EXPECT_FALSE(IsThere(kube::kPods, "late")) << "another job of the same name is no owner";
}

TEST_F(ApiServerTest, AForegroundDeletionWaitsForTheDependents) {
  const Json job = CreateJob();
  Create(kube::kPods, PodBody("a", UidOf(job)));
  server.Edit(kube::kPods, {"ns", "a"}, [](Json* one) { (*one)["spec"]["nodeName"] = "n"; });
  Send(kube::Delete(kube::kTrainingJobs, "ns", "j", {"", {}, true}));
  CollectAll();
  EXPECT_TRUE(IsThere(kube::kTrainingJobs, "j"));
  EXPECT_TRUE(IsDeleting(*server.mutable_store()->Get(kube::kPods, {"ns", "a"})));
  Send(kube::Delete(kube::kPods, "ns", "a", {"", std::chrono::seconds(0), false}));
  CollectAll();
  EXPECT_FALSE(IsThere(kube::kTrainingJobs, "j"));
}

TEST_F(ApiServerTest, QuotaIsRefusedInTheServersWords) {
  server.quotas["ns"] = {1, 8};
  Create(kube::kPods, PodBody("a"));
  const kube::Reply reply = Send(kube::Create(kube::kPods, "ns", DumpJson(PodBody("b"))));
  EXPECT_EQ(reply.status, 403);
  EXPECT_EQ(kube::ToError(reply).code(), ErrorCode::kResourceExhausted);
  server.Edit(kube::kPods, {"ns", "a"}, [](Json* one) { (*one)["status"]["phase"] = "Succeeded"; });
  Create(kube::kPods, PodBody("b"));
}

TEST_F(ApiServerTest, ApplyOwnsWhatItSends) {
  const auto apply = [&](const Json& spec) {
    const Json body = {{"apiVersion", "v1"}, {"kind", "Service"}, {"spec", spec}};
    Json named = body;
    named["metadata"]["name"] = "s";
    return Send(kube::Apply(kube::kServices, "ns", "s", DumpJson(named)));
  };
  EXPECT_EQ(apply({{"clusterIP", "None"}, {"selector", {{"a", "1"}, {"b", "2"}}}}).status, 201);
  const int64_t version = server.mutable_store()->version();
  EXPECT_EQ(apply({{"clusterIP", "None"}, {"selector", {{"a", "1"}, {"b", "2"}}}}).status, 200);
  EXPECT_EQ(server.mutable_store()->version(), version) << "no-op apply = no write";
  EXPECT_EQ(apply({{"clusterIP", "None"}, {"selector", {{"a", "3"}}}}).status, 200);
  EXPECT_EQ(DumpJson(server.mutable_store()->Get(kube::kServices, {"ns", "s"})->at("spec")),
            R"({"clusterIP":"None","selector":{"a":"3"}})");
}

// A reflector over the simulated server, with its exchanges cut short now and then.
class ObjectCache {
 public:
  ObjectCache(ApiServer* server, kube::Selection selection, bool streams)
      : server_(server), reflector_({std::move(selection), streams, 2}, kube::DecodePod, 1) {}

  void Exchange(std::size_t changes_max) {
    const auto next = reflector_.NextRequest(now_);
    now_ = std::max(now_, next.not_before);
    std::vector<kube::ObjectUpdate<kube::Pod>> updates;
    if (next.request.verb == kube::Verb::kList) {
      const kube::Reply reply = server_->Handle(next.request, kNow);
      reflector_.OnStatus(reply.status);
      reflector_.OnBytes(reply.body, &updates);
    } else {
      const ApiServer::WatchStart start = server_->OpenWatch(next.request);
      reflector_.OnStatus(start.reply.status);
      const std::string bytes =
          start.reply.status == 200 ? server_->ReadWatch(start.id, changes_max) : start.reply.body;
      if (reflector_.OnBytes(bytes, &updates) && start.reply.status == 200) {
        reflector_.OnBytes(server_->Bookmark(start.id), &updates);
      }
      server_->CloseWatch(start.id);
    }
    now_ += std::chrono::seconds(5);
    reflector_.OnEnd(std::nullopt, now_, &updates);
    for (const auto& update : updates) {
      Take(update);
    }
  }

  std::string Names() const {
    std::string names;
    for (const auto& [key, version] : pods_) {
      names += (names.empty() ? "" : " ") + key.name;
    }
    return names;
  }

  const kube::ReflectorCounts& counts() const { return reflector_.counts(); }

 private:
  void Take(const kube::ObjectUpdate<kube::Pod>& update) {
    if (const auto* replaced = std::get_if<kube::Replaced<kube::Pod>>(&update)) {
      pods_.clear();
      for (const auto& item : replaced->items) {
        pods_[item.key] = item.resource_version;
      }
    } else if (const auto* upserted = std::get_if<kube::Upserted<kube::Pod>>(&update)) {
      pods_[upserted->item.key] = upserted->item.resource_version;
    } else {
      pods_.erase(std::get<kube::Deleted<kube::Pod>>(update).item.key);
    }
  }

  ApiServer* server_;
  kube::Reflector<kube::Pod> reflector_;
  TimePoint now_{std::chrono::hours(1)};
  std::map<kube::ObjectKey, std::string> pods_;
};

TEST_F(ApiServerTest, AReflectorFollowsThroughListsPagesWatchesAndForgottenHistory) {
  for (const bool streams : {false, true}) {
    for (const bool pages : {false, true}) {
      ApiServer fresh;
      server = fresh;
      server.pages_everything = pages;
      server.has_streaming_lists = streams;
      for (const char* name : {"a", "b", "c", "d", "e"}) {
        Create(kube::kPods, PodBody(name));
      }
      ObjectCache mirror(&server, kAllPods, true);
      for (int i = 0; i < 5; ++i) {
        mirror.Exchange(10);
      }
      EXPECT_EQ(mirror.Names(), "a b c d e") << streams << pages;
      Send(kube::Delete(kube::kPods, "ns", "c", {}));
      Create(kube::kPods, PodBody("f"));
      mirror.Exchange(2);  // a pod's end is announced first
      EXPECT_EQ(mirror.Names(), "a b d e");
      mirror.Exchange(1);
      EXPECT_EQ(mirror.Names(), "a b d e f");
      Send(kube::Delete(kube::kPods, "ns", "a", {}));
      server.mutable_store()->Compact();
      for (int i = 0; i < 5; ++i) {
        mirror.Exchange(10);
      }
      EXPECT_EQ(mirror.Names(), "b d e f");
      EXPECT_EQ(mirror.counts().relists, 1);
    }
  }
}

TEST_F(ApiServerTest, AppliedFieldOfAnotherIsTakenByForceOnly) {
  const auto apply = [this](const char* manager, bool force, const Json& spec) {
    const Json body = {{"metadata", {{"name", "s"}}}, {"spec", spec}};
    return Send(kube::Apply(kube::kServices, "ns", "s", DumpJson(body), {manager, force, ""}));
  };
  EXPECT_EQ(apply("one", false, {{"a", 1}, {"b", 1}}).status, 201);
  EXPECT_EQ(apply("two", false, {{"b", 1}}).status, 200);  // the same: owned by both
  const kube::Reply refused = apply("two", false, {{"b", 2}});
  EXPECT_EQ(kube::ToError(refused).code(), ErrorCode::kStale) << refused.body;
  EXPECT_EQ(apply("two", true, {{"b", 2}}).status, 200);
  EXPECT_EQ(apply("one", false, {{"a", 1}}).status, 200);  // lets go of what it lost
  const Json service =
      ParseJson(Send(kube::Get(kube::kServices, "ns", "s")).body).value().at("spec");
  EXPECT_EQ(service, (Json{{"a", 1}, {"b", 2}}));
}

TEST_F(ApiServerTest, ASelectionLosesWhatLeavesIt) {
  Create(kube::kPods, PodBody("a"));
  Create(kube::kPods, PodBody("b"));
  ObjectCache ours(&server, {kube::kPods, "", "lockstep.dev/job", "status.phase!=Failed"}, true);
  ObjectCache others(&server, {kube::kPods, "", "!lockstep.dev/job", ""}, true);
  const auto look = [&] {
    ours.Exchange(10);
    others.Exchange(10);
    return ours.Names() + "|" + others.Names();
  };
  EXPECT_EQ(look(), "a b|");
  server.Edit(kube::kPods, {"ns", "a"}, [](Json* one) { (*one)["metadata"].erase("labels"); });
  server.Edit(kube::kPods, {"ns", "b"}, [](Json* one) { (*one)["status"]["phase"] = "Failed"; });
  EXPECT_EQ(look(), "|a");
}

TEST(Selector, ReadsWhatTheApiServerReads) {
  const Json object = {{"metadata", {{"labels", {{"a", "1"}, {"b", "x"}}}}}};

  struct Row {
    const char* text;
    bool matches;
  };

  const Row rows[] = {{"", true},
                      {"a", true},
                      {"!a", false},
                      {"!c", true},
                      {"a=1", true},
                      {"a==1", true},
                      {"a=2", false},
                      {"a!=2", true},
                      {"c!=2", true},
                      {"a in (1, 2)", true},
                      {"a notin (1,2)", false},
                      {"c notin (1)", true},
                      {"a=1,b in (x,y),!c", true},
                      {"a=1,b=y", false}};
  for (const Row& row : rows) {
    const Result<Selector> selector = ParseSelector(row.text);
    ASSERT_TRUE(selector.ok()) << row.text;
    EXPECT_EQ(MatchesLabels(object, *selector), row.matches) << row.text;
  }
  EXPECT_FALSE(ParseSelector("a (1)").ok());
  EXPECT_FALSE(ParseSelector(",").ok());
}

}  // namespace
}  // namespace lockstep::control::sim
