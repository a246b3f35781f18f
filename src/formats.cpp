// Code that is compiled once per weight format.
#define TENON_EXTERN
#include "tenon/engine/formats.h"
