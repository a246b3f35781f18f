/// The laws of the concepts: properties that you can check on any policy, yours too. Each function returns the laws
/// that were broken, one sentence each, so it fits any test framework: BOOST_TEST(scheduler_laws(MyPolicy{}).empty()).
#pragma once
#include "tenon/testing/adapter_laws.h"
#include "tenon/testing/attention_laws.h"
#include "tenon/testing/cache_laws.h"
#include "tenon/testing/device_laws.h"
#include "tenon/testing/draft_laws.h"
#include "tenon/testing/element_laws.h"
#include "tenon/testing/model_laws.h"
#include "tenon/testing/processor_laws.h"
#include "tenon/testing/scheduler_laws.h"
#include "tenon/testing/sharing_laws.h"
#include "tenon/testing/weight_laws.h"
