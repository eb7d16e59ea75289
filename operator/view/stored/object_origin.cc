#include "operator/view/stored/object_origin.h"

#include <cstddef>

#include "operator/api/fields/fields.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {
namespace {

void ReadOwner(ObjectReader& metadata, std::vector<Error>* errors, ObjectOrigin* origin) {
  const std::vector<const Json*> owners = metadata.List("ownerReferences");
  for (std::size_t i = 0; i < owners.size(); ++i) {
    ObjectReader owner(*owners[i], metadata.PathOf("ownerReferences", i), errors);
    if (owner.Bool("controller").value_or(false)) {
      origin->owner_uid = owner.String("uid").value_or("");
      const bool is_job = owner.String("kind").value_or("") == kTrainingJobKind &&
                          owner.String("apiVersion").value_or("").starts_with("lockstep.dev/");
      origin->owner_job = is_job ? owner.String("name").value_or("") : "";
    }
  }
}

std::string TextAt(ObjectReader& metadata,
                   const char* field,
                   const char* key,
                   std::vector<Error>* errors) {
  const Json* const texts = metadata.Find(field);
  if (texts == nullptr) {
    return "";
  }
  return ObjectReader(*texts, metadata.PathOf(field), errors).String(key).value_or("");
}

}  // namespace

ObjectOrigin ReadOrigin(ObjectReader& object,
                        const char* revision_key,
                        std::vector<Error>* errors,
                        const char* job_key) {
  ObjectOrigin origin;
  if (const Json* const metadata = object.Find("metadata")) {
    ObjectReader fields(*metadata, object.PathOf("metadata"), errors);
    origin.is_deleting = fields.Has("deletionTimestamp");
    ReadOwner(fields, errors, &origin);
    origin.label_job = TextAt(fields, "labels", job_key, errors);
    origin.revision = TextAt(fields, "annotations", revision_key, errors);
  }
  return origin;
}

}  // namespace lockstep::control
