#pragma once

#include "common/json/json.h"
#include "operator/api/training_job.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {

// {"cpu": "2", ...}: what pods ask for, without what nobody but us counts.
Json RequestsAsText(const ResourceVector& requests);

// The spec of a pod of the role as other programs are told of it: one container that asks for
// `requests`, and of the template what decides on which nodes it may stand.
Json PodShapeOf(const RoleSpec& role, const ResourceVector& requests);

}  // namespace lockstep::control
