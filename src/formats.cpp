// What is compiled for each format of weights.
#define TENON_EXTERN
#include "tenon/engine/formats.h"
