// What the concepts mean, as properties that any policy can be run against, yours too. Each function returns the laws
// that were broken, one sentence each, so that it fits any test framework:
// BOOST_TEST(scheduler_laws(MyPolicy{}).empty()).
#pragma once
#include "tenon/testing/cache_laws.h"
#include "tenon/testing/scheduler_laws.h"
#include "tenon/testing/sharing_laws.h"
