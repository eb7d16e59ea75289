#include "tests/sim/decoded.h"

#include "common/base/check.h"
#include "operator/kube/decode.h"

namespace lockstep::control::sim {

kube::Pod DecodePodObject(const Json& object) {
  const auto item = kube::DecodePod(DumpJson(object));
  LOCKSTEP_CHECK(item.ok(), item.error().ToString());
  return *item->object;
}

kube::Node DecodeNodeObject(const Json& object) {
  const auto item = kube::DecodeNode(DumpJson(object));
  LOCKSTEP_CHECK(item.ok(), item.error().ToString());
  return *item->object;
}

}  // namespace lockstep::control::sim
