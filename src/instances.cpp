// Parts of engines that depend on one or two policies.
#define TENON_PARTS
#include "tenon/engine/instances.h"
