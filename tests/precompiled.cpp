// Compiles precompiled.h, for all programs of tests.
#include "precompiled.h"
