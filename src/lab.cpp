// The host code of lab/.
#include "tenon/lab/report-inl.h"
#include "tenon/lab/trace-inl.h"
