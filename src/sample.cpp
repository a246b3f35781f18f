// The host code of sample/.
#include "tenon/sample/draw_rows-inl.h"
#include "tenon/sample/filters-inl.h"
#include "tenon/sample/logprobs-inl.h"
#include "tenon/sample/penalties-inl.h"
#include "tenon/sample/ranking-inl.h"
#include "tenon/sample/sampler-inl.h"
